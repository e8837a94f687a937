//! The pages of health: which checks there are, and how their results are written, as kubelet writes them.
//!
//! Invariant: pure. The checks are made by `handlers`. Unlike kubelet the page names the reason of a failure, since
//! whoever reads it is on this machine, and has nowhere else to look.

use super::request::{Request, Response};

/// The checks, in kubelet's order.
const CHECKS: &[&str] = &["ping", "log", "syncloop"];

/// What is asked about the agent's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HealthQuestion {
    /// Everything.
    All {
        /// The path's name, which the page repeats.
        name: &'static str,
        /// Whether each check is listed also when all are well.
        verbose: bool,
        /// The checks to leave out.
        excluded: Vec<String>,
    },
    /// Does the server answer?
    Ping,
    /// Is the log written? It is written at once, by whoever has something to say: nothing is held back that could block.
    Log,
    /// Does the sync loop turn?
    SyncLoop,
}

impl HealthQuestion {
    /// The question for everything, with the request's parameters.
    pub(crate) fn of_all(name: &'static str, request: &Request) -> Self {
        let verbose = request.parameter("verbose").is_some();
        HealthQuestion::All { name, verbose, excluded: request.parameters("exclude").collect() }
    }

    /// Whether the sync loop has to be asked.
    pub(crate) fn asks_sync_loop(&self) -> bool {
        match self {
            HealthQuestion::All { excluded, .. } => !excluded.iter().any(|check| check == "syncloop"),
            HealthQuestion::Ping | HealthQuestion::Log => false,
            HealthQuestion::SyncLoop => true,
        }
    }

    /// The answer. The sync loop's is ok if it was not asked.
    pub(crate) fn answer(&self, sync_loop: &Result<(), String>) -> Response {
        match (self, sync_loop) {
            (HealthQuestion::All { name, verbose, excluded }, _) => page(name, *verbose, excluded, sync_loop),
            (_, Ok(())) => Response::text(200, "ok"),
            (_, Err(reason)) => Response::text(500, format!("internal server error: {reason}\n")),
        }
    }
}

fn page(name: &str, verbose: bool, excluded: &[String], sync_loop: &Result<(), String>) -> Response {
    let mut lines = String::new();
    let mut is_well = true;
    for check in CHECKS {
        let line = match sync_loop {
            _ if excluded.iter().any(|excluded| excluded == check) => format!("[+]{check} excluded: ok\n"),
            Err(reason) if *check == "syncloop" => {
                is_well = false;
                format!("[-]{check} failed: {reason}\n")
            }
            _ => format!("[+]{check} ok\n"),
        };
        lines.push_str(&line);
    }
    let mut unknown: Vec<_> = excluded.iter().filter(|name| !CHECKS.contains(&name.as_str())).collect();
    unknown.sort();
    unknown.dedup();
    if !unknown.is_empty() {
        let names: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
        lines.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(", ")
        ));
    }
    match (is_well, verbose) {
        (false, _) => Response::text(500, format!("{lines}{name} check failed\n")),
        (true, false) => Response::text(200, "ok"),
        (true, true) => Response::text(200, format!("{lines}{name} check passed\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::request::tests::request;
    use crate::server::request::{Method, Port};

    #[test]
    fn pages() {
        let all =
            |target: &str| HealthQuestion::of_all("healthz", &request(Port::Healthz, Method::Get, target));
        let stuck = || Err("no answer for 10 s".to_owned());
        for (question, sync_loop, status, body) in [
            (all("/healthz"), Ok(()), 200, "ok"),
            (
                all("/healthz?verbose"),
                Ok(()),
                200,
                "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n",
            ),
            (
                all("/healthz"),
                stuck(),
                500,
                "[+]ping ok\n[+]log ok\n[-]syncloop failed: no answer for 10 s\nhealthz check failed\n",
            ),
            (
                all("/healthz?verbose=1&exclude=syncloop&exclude=etcd"),
                Ok(()),
                200,
                "[+]ping ok\n[+]log ok\n[+]syncloop excluded: ok\n\
                 warn: some health checks cannot be excluded: no matches for \"etcd\"\nhealthz check passed\n",
            ),
            (HealthQuestion::SyncLoop, Ok(()), 200, "ok"),
            (HealthQuestion::SyncLoop, stuck(), 500, "internal server error: no answer for 10 s\n"),
            (HealthQuestion::Ping, Ok(()), 200, "ok"),
            (HealthQuestion::Log, Ok(()), 200, "ok"),
        ] {
            let response = question.answer(&sync_loop);
            let text = String::from_utf8(response.body).unwrap();
            assert_eq!((response.status, text.as_str()), (status, body), "{question:?}");
            assert_eq!(response.content_type, "text/plain; charset=utf-8");
        }
    }

    #[test]
    fn the_sync_loop_is_asked_only_where_it_matters() {
        let all =
            |target: &str| HealthQuestion::of_all("healthz", &request(Port::Healthz, Method::Get, target));
        for (question, asks) in [
            (all("/healthz"), true),
            (all("/healthz?exclude=ping"), true),
            (all("/healthz?exclude=syncloop"), false),
            (HealthQuestion::Ping, false),
            (HealthQuestion::Log, false),
            (HealthQuestion::SyncLoop, true),
        ] {
            assert_eq!(question.asks_sync_loop(), asks, "{question:?}");
        }
    }
}
