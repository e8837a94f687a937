//! Who may ask for what: the decision that stands before routing.
//!
//! Owns authentication and authorization, as kubelet 1.36 has them. Invariant: pure; a request is refused unless a rule
//! lets it in. Must not: know what a path answers.

use super::request::{Method, Peer, Port, Request, Response};

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

/// Decides whether the request is let in. `own_uid` is the user that the agent runs as.
pub(crate) fn admit(request: &Request, own_uid: u32) -> Result<(), Denied> {
    match (request.port, request.peer) {
        // As in kubelet, whoever reaches these ports may ask for what they have.
        (Port::Healthz | Port::ReadOnly, _) => Ok(()),
        (Port::Socket, Peer::Local { uid }) if uid == 0 || uid == own_uid => Ok(()),
        (Port::Socket, peer) => Err(forbidden(request, &format!("{peer:?}"))),
    }
}

fn forbidden(request: &Request, user: &str) -> Denied {
    let Attributes { verb, subresources } = attributes(request.method, &request.path);
    let words = format!(
        "Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{}])",
        subresources.join(" ")
    );
    Denied { response: Response::text(403, format!("{words}\n")), reason: words }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::request::tests::request;

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
            let decided = admit(&from(port, uid), own_uid);
            assert_eq!(decided.is_ok(), admitted, "{port:?}, {uid} where the agent is {own_uid}");
            if let Err(denied) = decided {
                assert_eq!(denied.response.status, 403);
                assert!(denied.reason.contains("subresource(s)=[pods proxy]"), "{}", denied.reason);
            }
        }
    }
}
