//! From a request to what is to be done for it.
//!
//! Owns the table of paths. Invariant: pure; a path that is not in the table of its port is not found. Must not: know a
//! transport, decide who may ask, or carry anything out: what must be looked up outside is an [`Action`], which
//! `handlers` carries out.

use super::health::HealthQuestion;
use super::logs::LogOptions;
use super::request::{Method, Port, Request, Response};
use super::sessions::{Session, SessionTarget, ports, streams};
use super::stats::StatsPage;
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
    /// Show the counters of probes.
    ProbeMetrics,
    /// Show what the node and its pods use.
    Stats(StatsPage),
    /// List what runs.
    RunningPods,
    /// Show the configuration.
    Configz,
    /// Show the version and the paths.
    Statusz,
    /// Show the log of a container.
    ContainerLog(PodName, String, LogOptions),
    /// Show a file of the node's logs, or list a directory of them; by its path below `/var/log`.
    SystemLog(String),
    /// Pass the client through to a command, a process or ports.
    Session(SessionTarget, Session),
    /// Run a command to its end.
    Run(SessionTarget, Vec<String>),
    /// Checkpoint a container.
    Checkpoint(SessionTarget),
}

/// Which paths the configuration leaves out on the port with authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouteRules {
    /// `enableDebuggingHandlers`: logs, commands and ports of containers.
    pub debugging: bool,
    /// `enableSystemLogHandler`: the node's logs.
    pub system_logs: bool,
}

/// One line of the table.
struct ServedPath {
    /// The path: `*` stands for a segment that is not empty, `**` at the end for whatever follows, and a slash at the end
    /// for itself or nothing.
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
    /// What the stars stand for.
    captured: Vec<&'a str>,
}

impl Call<'_> {
    fn captured(&self, index: usize) -> String {
        self.captured.get(index).copied().unwrap_or_default().to_owned()
    }

    fn pod(&self) -> PodName {
        PodName { namespace: self.captured(0), name: self.captured(1) }
    }

    /// namespace/pod/container or namespace/pod/UID/container.
    fn container(&self) -> SessionTarget {
        let uid = (self.captured.len() > 3).then(|| self.captured(2));
        SessionTarget {
            pod: self.pod(),
            uid,
            container: self.captured(self.captured.len().saturating_sub(1)),
        }
    }

    /// namespace/pod or namespace/pod/UID.
    fn target_pod(&self) -> SessionTarget {
        let uid = (self.captured.len() > 2).then(|| self.captured(2));
        SessionTarget { pod: self.pod(), uid, container: String::new() }
    }
}

const EVERY: &[Port] = &[Port::Healthz, Port::ReadOnly, Port::Secure, Port::Socket];
/// Kubelet's smaller set, which its port without authentication has too.
const READING: &[Port] = &[Port::ReadOnly, Port::Secure, Port::Socket];
/// Where it is known who asks.
const KNOWN: &[Port] = &[Port::Secure, Port::Socket];

/// What only the operator's commands need.
const SOCKET: &[Port] = &[Port::Socket];

const GET: &str = "GET, HEAD";
const POST: &str = "POST";
const EITHER: &str = "GET, POST";

/// What `enableDebuggingHandlers` is about, and the port without authentication never has.
const DEBUGGING: &[&str] = &[
    "/run/",
    "/exec/",
    "/attach/",
    "/portForward/",
    "/containerLogs/",
    "/runningpods/",
    "/logs/",
    "/debug/pprof/",
];

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
    get("/metrics/cadvisor", READING, |_| Ok(Action::Stats(StatsPage::Cadvisor))),
    get("/metrics/probes", READING, |_| Ok(Action::ProbeMetrics)),
    get("/metrics/resource", READING, |_| Ok(Action::Stats(StatsPage::Resource))),
    get("/stats/summary", READING, |call| Ok(Action::Stats(StatsPage::summary(call.request)))),
    get("/runningpods/", KNOWN, |_| Ok(Action::RunningPods)),
    get("/configz", KNOWN, |_| Ok(Action::Configz)),
    get("/statusz", KNOWN, |_| Ok(Action::Statusz)),
    get("/logs/", KNOWN, |_| Ok(Action::SystemLog(String::new()))),
    get("/logs/**", KNOWN, |call| Ok(Action::SystemLog(call.captured(0)))),
    get("/containerLogs/*/*/*", KNOWN, container_log),
    ServedPath { path: "/exec/*/*/*", ports: KNOWN, methods: EITHER, action: exec },
    ServedPath { path: "/exec/*/*/*/*", ports: KNOWN, methods: EITHER, action: exec },
    ServedPath { path: "/attach/*/*/*", ports: KNOWN, methods: EITHER, action: attach },
    ServedPath { path: "/attach/*/*/*/*", ports: KNOWN, methods: EITHER, action: attach },
    ServedPath { path: "/portForward/*/*", ports: KNOWN, methods: EITHER, action: port_forward },
    ServedPath { path: "/portForward/*/*/*", ports: KNOWN, methods: EITHER, action: port_forward },
    ServedPath { path: "/run/*/*/*", ports: KNOWN, methods: POST, action: run },
    ServedPath { path: "/run/*/*/*/*", ports: KNOWN, methods: POST, action: run },
    ServedPath { path: "/checkpoint/*/*/*", ports: KNOWN, methods: POST, action: |call| Ok(Action::Checkpoint(call.container())) },
    get("/images", SOCKET, |_| Ok(Action::Images)),
    ServedPath { path: "/restart", ports: SOCKET, methods: "POST", action: |call| {
        let part = |name| call.request.parameter(name).filter(|part| !part.is_empty());
        match (part("namespace"), part("pod")) {
            (Some(namespace), Some(pod)) => Ok(Action::Restart(PodName::new(namespace, pod))),
            _ => Err(Response::text(400, "namespace and pod must be given\n")),
        }
    } },
];

/// The paths of a port, as they stand in the table.
pub(crate) fn paths(port: Port) -> impl Iterator<Item = &'static str> {
    ROUTES.iter().filter(move |route| route.ports.contains(&port)).map(|route| route.path)
}

fn container_log(call: &Call<'_>) -> Result<Action, Response> {
    Ok(Action::ContainerLog(call.pod(), call.captured(2), LogOptions::parse(call.request)?))
}

fn exec(call: &Call<'_>) -> Result<Action, Response> {
    let command: Vec<_> = call.request.parameters("command").collect();
    if command.is_empty() {
        return Err(Response::text(400, "you must specify a command"));
    }
    Ok(Action::Session(call.container(), Session::Exec(command, streams(call.request)?)))
}

fn attach(call: &Call<'_>) -> Result<Action, Response> {
    Ok(Action::Session(call.container(), Session::Attach(streams(call.request)?)))
}

fn port_forward(call: &Call<'_>) -> Result<Action, Response> {
    Ok(Action::Session(call.target_pod(), Session::PortForward(ports(call.request)?)))
}

/// As in kubelet the command is one parameter, split at its spaces.
fn run(call: &Call<'_>) -> Result<Action, Response> {
    let command = call.request.parameter("cmd").unwrap_or_default();
    Ok(Action::Run(call.container(), command.split(' ').map(str::to_owned).collect()))
}

/// What is to be done for the request, or the response of one for which nothing can be done.
pub(crate) fn route(request: &Request, rules: RouteRules) -> Result<Action, Response> {
    let (port, path) = (request.port, request.path.as_str());
    let is_debugging = DEBUGGING.iter().any(|prefix| path.starts_with(prefix));
    // The table takes them without the last slash, too.
    let is_bare = DEBUGGING.iter().any(|prefix| prefix.strip_suffix('/') == Some(path));
    if is_debugging && port == Port::ReadOnly
        || (is_debugging || is_bare) && port == Port::Secure && !rules.debugging
    {
        return Err(Response::text(405, "Debug endpoints are disabled.\n"));
    }
    if port == Port::Secure && !rules.system_logs && path.starts_with("/logs") {
        return Err(Response::text(405, "logs endpoint is disabled.\n"));
    }
    let mut routes = ROUTES.iter().filter(|route| route.ports.contains(&port));
    let found = routes.find_map(|route| Some((route, capture(route.path, path)?)));
    let Some((route, captured)) = found else {
        return Err(Response::text(404, "404 page not found\n"));
    };
    if !takes(route.methods, request.method) {
        let refused = Response::text(405, "405: Method Not Allowed\n");
        return Err(Response { allow: route.methods, ..refused });
    }
    (route.action)(&Call { request, captured })
}

fn takes(methods: &str, method: Method) -> bool {
    methods.split(", ").any(|taken| Method::named(taken) == method)
}

/// What the stars of a pattern stand for in a path, if it fits.
fn capture<'a>(pattern: &str, path: &'a str) -> Option<Vec<&'a str>> {
    if pattern.strip_suffix('/').is_some_and(|short| !short.is_empty() && short == path) {
        return Some(Vec::new());
    }
    if let Some(prefix) = pattern.strip_suffix("**") {
        return path.strip_prefix(prefix).map(|rest| vec![rest]);
    }
    let (mut wanted, mut segments) = (pattern.split('/'), path.split('/'));
    let mut captured = Vec::new();
    loop {
        match (wanted.next(), segments.next()) {
            (None, None) => return Some(captured),
            (Some("*"), Some(segment)) if !segment.is_empty() => captured.push(segment),
            (Some(wanted), Some(segment)) if wanted == segment && wanted != "*" => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::request::tests::request;

    const ALL: RouteRules = RouteRules { debugging: true, system_logs: true };

    fn status(port: Port, method: Method, path: &str) -> u16 {
        match route(&request(port, method, path), ALL) {
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
            (Get, "/metrics/cadvisor", 404, 200, 200),
            (Get, "/metrics/probes", 404, 200, 200),
            (Get, "/metrics/resource", 404, 200, 200),
            (Get, "/metrics/other", 404, 404, 404),
            (Get, "/stats/summary", 404, 200, 200),
            (Post, "/stats/summary", 404, 405, 405),
            (Get, "/stats", 404, 404, 404),
            (Get, "/runningpods", 404, 404, 200),
            (Get, "/runningpods/", 404, 405, 200),
            (Get, "/images", 404, 404, 200),
            (Get, "/restart?namespace=a&pod=b", 404, 404, 405),
            (Post, "/restart?namespace=a&pod=b", 404, 404, 200),
            (Post, "/restart?namespace=a&pod=", 404, 404, 400),
            (Get, "/", 404, 404, 404),
            (Get, "", 404, 404, 404),
            (Get, "//pods", 404, 404, 404),
            (Get, "/PODS", 404, 404, 404),
            (Get, "/configz", 404, 404, 200),
            (Get, "/statusz", 404, 404, 200),
            (Get, "/logs", 404, 404, 200),
            (Get, "/logs/", 404, 405, 200),
            (Get, "/logs/a/../b", 404, 405, 200),
            (Get, "/containerLogs/ns/pod/c", 404, 405, 200),
            (Get, "/containerLogs/ns/pod/c?tailLines=x", 404, 405, 400),
            (Post, "/containerLogs/ns/pod/c", 404, 405, 405),
            (Get, "/containerLogs/ns/pod", 404, 405, 404),
            (Get, "/containerLogs/ns//c", 404, 405, 404),
            (Get, "/exec/ns/pod/c?command=sh&output=1", 404, 405, 200),
            (Post, "/exec/ns/pod/uid/c?command=sh&output=1", 404, 405, 200),
            (Post, "/exec/ns/pod/c?command=sh", 404, 405, 400),
            (Post, "/exec/ns/pod/c?output=1", 404, 405, 400),
            (Get, "/exec/*/*/*", 404, 405, 400),
            (Get, "/attach/ns/pod/c?output=1", 404, 405, 200),
            (Get, "/portForward/ns/pod?port=80", 404, 405, 200),
            (Get, "/portForward/ns/pod?port=x", 404, 405, 400),
            (Post, "/run/ns/pod/c?cmd=ls", 404, 405, 200),
            (Get, "/run/ns/pod/c?cmd=ls", 404, 405, 405),
            (Post, "/checkpoint/ns/pod/c", 404, 404, 200),
        ] {
            for (port, expected) in
                [(Port::Healthz, healthz), (Port::ReadOnly, read_only), (Port::Socket, socket)]
            {
                assert_eq!(status(port, method, path), expected, "{method:?} {path} on {port:?}");
            }
            // What only the operator's commands need is the socket's alone.
            let is_sockets = ["/images", "/restart"].iter().any(|only| path.starts_with(only));
            let secure = if is_sockets { 404 } else { socket };
            assert_eq!(status(Port::Secure, method, path), secure, "{method:?} {path} with authentication");
        }
    }

    #[test]
    fn a_refused_method_is_told_which_are_taken() {
        let refused = route(&request(Port::Socket, Method::Delete, "/pods"), ALL).unwrap_err();
        assert_eq!((refused.status, refused.allow), (405, "GET, HEAD"));
    }

    #[test]
    fn what_the_configuration_leaves_out() {
        let (debugging, system_logs) = (true, true);
        for (rules, port, path, expect) in [
            (RouteRules { debugging: false, system_logs }, Port::Secure, "/logs/a", 405),
            (RouteRules { debugging: false, system_logs }, Port::Secure, "/logs", 405),
            (RouteRules { debugging: false, system_logs }, Port::Secure, "/runningpods", 405),
            (RouteRules { debugging: false, system_logs }, Port::Secure, "/containerLogs/ns/pod/c", 405),
            (RouteRules { debugging: false, system_logs }, Port::Secure, "/pods", 200),
            (RouteRules { debugging: false, system_logs }, Port::Socket, "/containerLogs/ns/pod/c", 200),
            (RouteRules { debugging, system_logs: false }, Port::Secure, "/logs/a", 405),
            (RouteRules { debugging, system_logs: false }, Port::Secure, "/containerLogs/ns/pod/c", 200),
        ] {
            let routed = route(&request(port, Method::Get, path), rules);
            let status = routed.map_or_else(|refused| refused.status, |_| 200);
            assert_eq!(status, expect, "{path} on {port:?} with {rules:?}");
        }
    }

    #[test]
    fn targets_are_captured() {
        let routed = |path: &str| route(&request(Port::Socket, Method::Post, path), ALL).unwrap();
        let pod = PodName { namespace: "ns".into(), name: "pod".into() };
        let target = |uid: Option<&str>, container: &str| SessionTarget {
            pod: pod.clone(),
            uid: uid.map(Into::into),
            container: container.into(),
        };
        let words = vec!["ls".to_owned(), "-l".to_owned()];
        for (path, expect) in [
            ("/run/ns/pod/c?cmd=ls+-l", Action::Run(target(None, "c"), words.clone())),
            ("/run/ns/pod/uid/c?cmd=ls%20-l", Action::Run(target(Some("uid"), "c"), words.clone())),
            (
                "/portForward/ns/pod/uid?port=80",
                Action::Session(target(Some("uid"), ""), Session::PortForward(vec![80])),
            ),
        ] {
            assert_eq!(routed(path), expect, "{path}");
        }
    }
}
