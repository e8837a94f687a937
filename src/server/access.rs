//! Who may ask for what: the decision that stands before routing.
//!
//! Owns authentication and authorization, as kubelet 1.36 has them. Invariant: pure; a request is refused unless a rule
//! lets it in. Must not: know what a path answers.

use hyper::header::AUTHORIZATION;

use super::request::{Method, Peer, Port, Request, Requester, Response};

/// What a request has to be allowed, as a cluster's roles name it: one of the subresources of the node suffices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// The verb of the API; empty for methods that have none.
    pub verb: &'static str,
    /// The subresources of `nodes`, the finer one first.
    pub subresources: Vec<&'static str>,
}

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denied {
    /// What the client is told.
    pub response: Response,
    /// What the log is told.
    pub reason: String,
}

/// The finer subresources, by path; `proxy` allows them too.
const FINE: &[(&str, &str)] = &[
    ("/allocatedPods", "pods"),
    ("/pods", "pods"),
    ("/healthz", "healthz"),
    ("/configz", "configz"),
    ("/runningpods", "pods"),
];

/// The paths that `proxy` does not allow.
const OWN: &[(&str, &str)] = &[
    ("/stats", "stats"),
    ("/metrics", "metrics"),
    ("/logs", "log"),
    ("/checkpoint", "checkpoint"),
    ("/statusz", "statusz"),
    ("/flagz", "configz"),
];

/// What a request has to be allowed.
pub(crate) fn attributes(method: Method, path: &str) -> Attributes {
    let verb = match method {
        Method::Get => "get",
        Method::Post => "create",
        Method::Put => "update",
        Method::Patch => "patch",
        Method::Delete => "delete",
        Method::Head | Method::Other => "",
    };
    let find = |table: &[(&str, &'static str)]| {
        table.iter().find(|(of, _)| is_subpath(path, of)).map(|(_, subresource)| *subresource)
    };
    let subresources = find(FINE).into_iter().chain([find(OWN).unwrap_or("proxy")]).collect();
    Attributes { verb, subresources }
}

fn is_subpath(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccessRules {
    /// The user that the agent runs as.
    pub own_uid: u32,
    /// Whoever proves nothing is `system:anonymous` (`authentication.anonymous`).
    pub anonymous: bool,
    /// Tokens would have to be reviewed by an API server (`authentication.webhook`).
    pub token_review: bool,
    /// What whoever is known may do (`authorization.mode`).
    pub authorization: Authorization,
}

/// What whoever is known may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authorization {
    /// Everything.
    AlwaysAllow,
    /// What an API server says; there is none.
    Webhook,
}

/// Decides whether the request is let in.
pub(crate) fn admit(request: &Request, rules: &AccessRules) -> Result<(), Denied> {
    match (request.port, request.peer) {
        // As in kubelet, whoever reaches these ports may ask for what they have.
        (Port::Healthz | Port::ReadOnly, _) => Ok(()),
        (Port::Socket, Peer::Local { uid }) if uid == 0 || uid == rules.own_uid => Ok(()),
        (Port::Socket, peer) => Err(forbidden(request, &format!("{peer:?}"), "the socket is for root")),
        (Port::Secure, _) => authorize(request, &authenticate(request, rules)?, rules.authorization),
    }
}

fn authenticate(request: &Request, rules: &AccessRules) -> Result<Requester, Denied> {
    let denied =
        |reason: &str| Denied { response: Response::text(401, "Unauthorized"), reason: reason.to_owned() };
    if let Some(identity) = &request.identity {
        let mut known = identity.clone();
        known.groups.push("system:authenticated".to_owned());
        return Ok(known);
    }
    let bears = |value: &[u8]| value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    let has_token = request.headers.get(AUTHORIZATION).is_some_and(|value| bears(value.as_bytes()));
    if has_token && rules.token_review {
        return Err(denied("there is no API server that could review the token"));
    }
    if !rules.anonymous {
        return Err(denied("no client certificate, and anonymous requests are not let in"));
    }
    Ok(Requester { user: "system:anonymous".to_owned(), groups: vec!["system:unauthenticated".to_owned()] })
}

fn authorize(request: &Request, who: &Requester, authorization: Authorization) -> Result<(), Denied> {
    match authorization {
        Authorization::AlwaysAllow => Ok(()),
        Authorization::Webhook => {
            let reason = "authorization.mode is Webhook, and there is no API server to ask";
            Err(forbidden(request, &who.user, reason))
        }
    }
}

fn forbidden(request: &Request, user: &str, reason: &str) -> Denied {
    let Attributes { verb, subresources } = attributes(request.method, &request.path);
    let subresources = subresources.join(" ");
    let words =
        format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{subresources}])");
    Denied { response: Response::text(403, format!("{words}\n")), reason: format!("{reason}: {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::request::tests::request;
    use hyper::header::HeaderValue;

    const SECURE: AccessRules = AccessRules {
        own_uid: 0,
        anonymous: false,
        token_review: true,
        authorization: Authorization::Webhook,
    };

    #[test]
    fn who_is_let_in_with_authentication() {
        use Authorization::{AlwaysAllow, Webhook};
        let user = Some(Requester { user: "me".into(), groups: vec!["us".into()] });
        for (identity, token, anonymous, token_review, authorization, expect) in [
            (None, None, false, true, Webhook, Some(401)),
            (None, None, false, true, AlwaysAllow, Some(401)),
            (None, None, true, true, Webhook, Some(403)),
            (None, None, true, true, AlwaysAllow, None),
            (None, Some("Bearer x"), true, true, AlwaysAllow, Some(401)),
            (None, Some("bearer x"), true, true, AlwaysAllow, Some(401)),
            (None, Some("Bearer x"), true, false, AlwaysAllow, None),
            (None, Some("Basic x"), true, true, AlwaysAllow, None),
            (None, Some("Basic x"), false, true, AlwaysAllow, Some(401)),
            (user.clone(), None, false, true, AlwaysAllow, None),
            (user.clone(), None, false, true, Webhook, Some(403)),
            (user.clone(), Some("Bearer x"), false, true, AlwaysAllow, None),
        ] {
            let mut asked = request(Port::Secure, Method::Get, "/pods");
            asked.identity = identity;
            asked.headers.extend(token.map(|token| (AUTHORIZATION, HeaderValue::from_static(token))));
            let rules = AccessRules { own_uid: 0, anonymous, token_review, authorization };
            let decided = admit(&asked, &rules).err().map(|denied| denied.response.status);
            assert_eq!(decided, expect, "{asked:?} {rules:?}");
        }
    }

    #[test]
    fn attributes_by_path() {
        for (path, subresources) in [
            ("/pods", &["pods", "proxy"][..]),
            ("/pods/", &["pods", "proxy"]),
            ("/podsx", &["proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz", &["healthz", "proxy"]),
            ("/healthz/syncloop", &["healthz", "proxy"]),
            ("/livez", &["proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/flagz", &["configz"]),
            ("/statusz", &["statusz"]),
            ("/stats/summary", &["stats"]),
            ("/stats/", &["stats"]),
            ("/metrics", &["metrics"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/logs/", &["log"]),
            ("/logs/a/b", &["log"]),
            ("/checkpoint/ns/pod/c", &["checkpoint"]),
            ("/containerLogs/ns/pod/c", &["proxy"]),
            ("/exec/ns/pod/c", &["proxy"]),
            ("/run/ns/pod/c", &["proxy"]),
            ("/portForward/ns/pod", &["proxy"]),
            ("/verdicts", &["proxy"]),
            ("/", &["proxy"]),
            ("//pods", &["proxy"]),
        ] {
            for (method, verb) in [
                (Method::Get, "get"),
                (Method::Post, "create"),
                (Method::Put, "update"),
                (Method::Patch, "patch"),
                (Method::Delete, "delete"),
                (Method::Head, ""),
                (Method::Other, ""),
            ] {
                let expect = Attributes { verb, subresources: subresources.to_vec() };
                assert_eq!(attributes(method, path), expect, "{method:?} {path}");
            }
        }
    }

    #[test]
    fn the_socket_is_for_root_and_the_agents_own_user() {
        let from = |port, uid| Request { peer: Peer::Local { uid }, ..request(port, Method::Get, "/pods") };
        for (port, uid, own_uid, admitted) in [
            (Port::Socket, 0, 0, true),
            (Port::Socket, 0, 1000, true),
            (Port::Socket, 1000, 1000, true),
            (Port::Socket, 1000, 0, false),
            (Port::Socket, 1, 1000, false),
            (Port::ReadOnly, 1000, 0, true),
            (Port::Healthz, 1000, 0, true),
        ] {
            let rules = AccessRules { own_uid, ..SECURE };
            let decided = admit(&from(port, uid), &rules);
            assert_eq!(decided.is_ok(), admitted, "{port:?}, {uid} where the agent is {own_uid}");
            if let Err(denied) = decided {
                assert_eq!(denied.response.status, 403);
                assert!(denied.reason.contains("subresource(s)=[pods proxy]"), "{}", denied.reason);
            }
        }
    }
}
