//! From a request to what is to be done for it.
//!
//! Owns the table of paths. Invariant: pure; a path that is not in the table of its port is not found. Must not: know a
//! transport, decide who may ask, or carry anything out: what must be looked up outside is an [`Action`], which
//! `handlers` carries out.

use super::health::HealthQuestion;
use super::request::{Method, Port, Request, Response};
use crate::pod::PodName;

/// What is to be done for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Say whether the agent is well.
    Health(HealthQuestion),
    /// List the pods.
    Pods,
    /// List what became of each manifest.
    Verdicts,
    /// List the probes.
    Probes,
    /// List the events.
    Events,
    /// Show the counters.
    Metrics,
    /// List the images of the runtime.
    Images,
    /// Replace the instance of a pod.
    Restart(PodName),
}

/// One line of the table.
struct ServedPath {
    /// The path: a segment in braces stands for any that is not empty, and a slash at the end for itself or nothing.
    path: &'static str,
    /// The ports that have it.
    ports: &'static [Port],
    /// The methods that it takes, as in the header `Allow`; `HEAD` is for those that take `GET`.
    methods: &'static str,
    /// What is to be done, or why nothing can be.
    action: fn(&Call<'_>) -> Result<Action, Response>,
}

/// A request that a line of the table is for.
struct Call<'a> {
    request: &'a Request,
}

const EVERY: &[Port] = &[Port::Healthz, Port::ReadOnly, Port::Socket];
/// Kubelet's smaller set, which its port without authentication has too.
const READING: &[Port] = &[Port::ReadOnly, Port::Socket];

/// What only the operator's commands need.
const SOCKET: &[Port] = &[Port::Socket];

const GET: &str = "GET, HEAD";

const fn get(
    path: &'static str,
    ports: &'static [Port],
    action: fn(&Call<'_>) -> Result<Action, Response>,
) -> ServedPath {
    ServedPath { path, ports, methods: GET, action }
}

/// Every path. The first line that fits counts.
#[rustfmt::skip]
static ROUTES: &[ServedPath] = &[
    get("/healthz", EVERY, |call| Ok(Action::Health(HealthQuestion::of_all("healthz", call.request)))),
    get("/livez", EVERY, |call| Ok(Action::Health(HealthQuestion::of_all("livez", call.request)))),
    get("/readyz", EVERY, |call| Ok(Action::Health(HealthQuestion::of_all("readyz", call.request)))),
    get("/healthz/ping", EVERY, |_| Ok(Action::Health(HealthQuestion::Ping))),
    get("/healthz/log", EVERY, |_| Ok(Action::Health(HealthQuestion::Log))),
    get("/healthz/syncloop", EVERY, |_| Ok(Action::Health(HealthQuestion::SyncLoop))),
    get("/pods/", READING, |_| Ok(Action::Pods)),
    get("/verdicts", READING, |_| Ok(Action::Verdicts)),
    get("/probes", READING, |_| Ok(Action::Probes)),
    get("/events", READING, |_| Ok(Action::Events)),
    get("/metrics", READING, |_| Ok(Action::Metrics)),
    get("/images", SOCKET, |_| Ok(Action::Images)),
    ServedPath { path: "/restart", ports: SOCKET, methods: "POST", action: |call| {
        let part = |name| call.request.parameter(name).filter(|part| !part.is_empty());
        match (part("namespace"), part("pod")) {
            (Some(namespace), Some(pod)) => Ok(Action::Restart(PodName::new(namespace, pod))),
            _ => Err(Response::text(400, "namespace and pod must be given\n")),
        }
    } },
];

/// What is to be done for the request, or the response of one for which nothing can be done.
pub(crate) fn route(request: &Request) -> Result<Action, Response> {
    let found =
        ROUTES.iter().find(|route| route.ports.contains(&request.port) && fits(route.path, &request.path));
    let Some(route) = found else {
        return Err(Response::text(404, "404 page not found\n"));
    };
    if !takes(route.methods, request.method) {
        let refused = Response::text(405, "405: Method Not Allowed\n");
        return Err(Response { allow: route.methods, ..refused });
    }
    (route.action)(&Call { request })
}

fn takes(methods: &str, method: Method) -> bool {
    methods.split(", ").any(|taken| Method::named(taken) == method)
}

fn fits(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.strip_suffix('/').is_some_and(|short| !short.is_empty() && short == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::request::tests::request;

    fn status(port: Port, method: Method, path: &str) -> u16 {
        match route(&request(port, method, path)) {
            Ok(_) => 200,
            Err(response) => response.status,
        }
    }

    #[test]
    fn paths_by_port() {
        use Method::{Get, Head, Other, Post};
        for (method, path, healthz, read_only, socket) in [
            (Get, "/healthz", 200, 200, 200),
            (Head, "/healthz", 200, 200, 200),
            (Get, "/healthz?verbose", 200, 200, 200),
            (Get, "/livez", 200, 200, 200),
            (Get, "/readyz", 200, 200, 200),
            (Get, "/healthz/ping", 200, 200, 200),
            (Get, "/healthz/log", 200, 200, 200),
            (Get, "/healthz/syncloop", 200, 200, 200),
            (Post, "/healthz", 405, 405, 405),
            (Get, "/healthz/", 404, 404, 404),
            (Get, "/healthz/other", 404, 404, 404),
            (Get, "/pods", 404, 200, 200),
            (Get, "/pods/", 404, 200, 200),
            (Head, "/pods", 404, 200, 200),
            (Other, "/pods", 404, 405, 405),
            (Get, "/pods/x", 404, 404, 404),
            (Get, "/verdicts", 404, 200, 200),
            (Other, "/verdicts", 404, 405, 405),
            (Get, "/probes", 404, 200, 200),
            (Other, "/probes", 404, 405, 405),
            (Get, "/events", 404, 200, 200),
            (Other, "/events", 404, 405, 405),
            (Get, "/metrics", 404, 200, 200),
            (Other, "/metrics", 404, 405, 405),
            (Get, "/images", 404, 404, 200),
            (Get, "/restart?namespace=a&pod=b", 404, 404, 405),
            (Post, "/restart?namespace=a&pod=b", 404, 404, 200),
            (Post, "/restart?namespace=a&pod=", 404, 404, 400),
            (Get, "/", 404, 404, 404),
            (Get, "", 404, 404, 404),
            (Get, "//pods", 404, 404, 404),
            (Get, "/PODS", 404, 404, 404),
        ] {
            for (port, expected) in
                [(Port::Healthz, healthz), (Port::ReadOnly, read_only), (Port::Socket, socket)]
            {
                assert_eq!(status(port, method, path), expected, "{method:?} {path} on {port:?}");
            }
        }
    }

    #[test]
    fn a_refused_method_is_told_which_are_taken() {
        let refused = route(&request(Port::Socket, Method::Delete, "/pods")).unwrap_err();
        assert_eq!((refused.status, refused.allow), (405, "GET, HEAD"));
    }
}
