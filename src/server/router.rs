//! From a request to its response.
//!
//! Owns the table of paths. Invariant: pure; what must be looked up outside (health, the process) is a
//! function in [`ServerState`], called only by the paths that need it. Must not: know a transport.

use crate::probe::schedule::ProbeReport;
use crate::status::events::EventList;
use crate::status::metrics::process::Process;
use crate::status::metrics::{Metrics, exposition};
use crate::sync::view::{View, to_json};

use super::{metrics_page, pods};

/// Which of the agent's ports is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// The health port: is the agent alive?
    Healthz,
    /// The read-only port: pods, verdicts and metrics, without authentication.
    ReadOnly,
}

/// What the request wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// `GET`.
    Get,
    /// `HEAD`: as `GET`, but the transport sends no body.
    Head,
    /// Anything else; nothing here can be changed.
    Other,
}

/// A request, as far as we look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The path, up to the question mark.
    pub path: &'a str,
    /// What follows the question mark; empty if there is none.
    pub query: &'a str,
}

/// A whole response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// The status code.
    pub status: u16,
    /// The body's type.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A response in words.
    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into().into_bytes() }
    }

    /// The methods to name in the header `Allow`, if the request's was refused.
    pub(crate) fn allow(&self) -> Option<&'static str> {
        (self.status == 405).then_some("GET, HEAD")
    }
}

/// What a response can be made of, at the moment of the request.
#[derive(Clone, Copy)]
pub(crate) struct ServerState<'a> {
    /// The port that was asked.
    pub port: Port,
    /// The newest view.
    pub view: &'a View,
    /// Asks the sync loop; may wait for some seconds.
    pub health: &'a dyn Fn() -> Result<(), String>,
    /// Reads what is known of every probe.
    pub probes: &'a dyn Fn() -> Vec<ProbeReport>,
    /// Reads the newest events.
    pub events: &'a dyn Fn() -> EventList,
    /// The counters.
    pub metrics: &'a Metrics,
    /// Reads the agent's own process.
    pub process: &'a dyn Fn() -> Process,
}

/// What is found under a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServedPath {
    Ping,
    Health,
    Pods,
    Verdicts,
    Probes,
    Events,
    Metrics,
}

fn endpoint(port: Port, path: &str) -> Option<ServedPath> {
    match (port, path) {
        (_, "/healthz" | "/healthz/syncloop") => Some(ServedPath::Health),
        (_, "/healthz/ping") => Some(ServedPath::Ping),
        (Port::ReadOnly, "/pods" | "/pods/") => Some(ServedPath::Pods),
        (Port::ReadOnly, "/verdicts") => Some(ServedPath::Verdicts),
        (Port::ReadOnly, "/probes") => Some(ServedPath::Probes),
        (Port::ReadOnly, "/events") => Some(ServedPath::Events),
        (Port::ReadOnly, "/metrics") => Some(ServedPath::Metrics),
        _ => None,
    }
}

/// The response to `request`.
pub(crate) fn route(request: &Request<'_>, state: &ServerState<'_>) -> Response {
    let Some(endpoint) = endpoint(state.port, request.path) else {
        return Response::text(404, "404 page not found\n");
    };
    if request.method == Method::Other {
        return Response::text(405, "405 method not allowed\n");
    }
    match endpoint {
        ServedPath::Ping => Response::text(200, "ok"),
        ServedPath::Health => match (state.health)() {
            Ok(()) => Response::text(200, "ok"),
            Err(reason) => Response::text(500, format!("syncloop: {reason}\n")),
        },
        ServedPath::Pods => json("the list of pods", pods::render(state.view)),
        ServedPath::Verdicts => json("the verdicts", to_json(&state.view.verdicts)),
        ServedPath::Probes => json("the probes", serde_json::to_vec(&(state.probes)())),
        ServedPath::Events => json("the events", serde_json::to_vec(&(state.events)())),
        ServedPath::Metrics => {
            let page = metrics_page::render(state.view, state.metrics, &(state.process)());
            Response { status: 200, content_type: exposition::CONTENT_TYPE, body: page.into_bytes() }
        }
    }
}

fn json(what: &str, body: Result<Vec<u8>, serde_json::Error>) -> Response {
    match body {
        Ok(body) => Response { status: 200, content_type: "application/json", body },
        Err(error) => Response::text(500, format!("cannot write {what}: {error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::status::events::ring::Ring;

    /// The response, and whether health and process were looked up.
    fn routed(port: Port, method: Method, path: &str, health: Result<(), String>) -> (Response, bool, bool) {
        let (asked, read) = (Cell::new(false), Cell::new(false));
        let check = || {
            asked.set(true);
            health.clone()
        };
        let process = || {
            read.set(true);
            Process::default()
        };
        let (view, metrics) = (View::default(), Metrics::default());
        let state = ServerState {
            port,
            view: &view,
            health: &check,
            probes: &Vec::new,
            events: &|| Ring::default().list("node1"),
            metrics: &metrics,
            process: &process,
        };
        let response = route(&Request { method, path, query: "" }, &state);
        (response, asked.get(), read.get())
    }

    #[test]
    fn paths_by_port() {
        use Method::{Get, Head, Other};
        for (method, path, healthz, read_only) in [
            (Get, "/healthz", 200, 200),
            (Head, "/healthz", 200, 200),
            (Get, "/healthz/ping", 200, 200),
            (Get, "/healthz/syncloop", 200, 200),
            (Other, "/healthz", 405, 405),
            (Get, "/healthz/", 404, 404),
            (Get, "/healthz/other", 404, 404),
            (Get, "/pods", 404, 200),
            (Get, "/pods/", 404, 200),
            (Head, "/pods", 404, 200),
            (Other, "/pods", 404, 405),
            (Get, "/pods/x", 404, 404),
            (Get, "/verdicts", 404, 200),
            (Other, "/verdicts", 404, 405),
            (Get, "/probes", 404, 200),
            (Other, "/probes", 404, 405),
            (Get, "/events", 404, 200),
            (Other, "/events", 404, 405),
            (Get, "/metrics", 404, 200),
            (Other, "/metrics", 404, 405),
            (Get, "/", 404, 404),
            (Get, "", 404, 404),
            (Other, "/run", 404, 404),
            (Get, "//pods", 404, 404),
            (Get, "/PODS", 404, 404),
        ] {
            for (port, expected) in [(Port::Healthz, healthz), (Port::ReadOnly, read_only)] {
                let (response, ..) = routed(port, method, path, Ok(()));
                assert_eq!(response.status, expected, "{method:?} {path} on {port:?}");
                assert_eq!(response.allow().is_some(), expected == 405);
            }
        }
    }

    #[test]
    fn health_is_the_sync_loops() {
        let stuck = || Err("no answer for 10 s".to_owned());
        for (path, health, status, body) in [
            ("/healthz", Ok(()), 200, "ok"),
            ("/healthz", stuck(), 500, "syncloop: no answer for 10 s\n"),
            ("/healthz/syncloop", stuck(), 500, "syncloop: no answer for 10 s\n"),
            ("/healthz/ping", stuck(), 200, "ok"),
        ] {
            let (response, ..) = routed(Port::Healthz, Method::Get, path, health);
            assert_eq!((response.status, response.body), (status, body.as_bytes().to_vec()), "{path}");
            assert_eq!(response.content_type, "text/plain; charset=utf-8");
        }
    }

    #[test]
    fn only_who_needs_it_waits() {
        for (method, path, asks, reads) in [
            (Method::Get, "/healthz", true, false),
            (Method::Other, "/healthz", false, false),
            (Method::Get, "/healthz/ping", false, false),
            (Method::Get, "/pods", false, false),
            (Method::Get, "/metrics", false, true),
            (Method::Get, "/nothing", false, false),
        ] {
            let (_, asked, read) = routed(Port::ReadOnly, method, path, Ok(()));
            assert_eq!((asked, read), (asks, reads), "{method:?} {path}");
        }
    }
}
