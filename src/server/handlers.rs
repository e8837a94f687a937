//! What is done for a request that was let in and routed.
//!
//! Owns the way from an [`Action`] to a reply: it reads the published view, asks the sync loop whether it turns, and may
//! call the runtime. Invariant: no client, however slow or rude, delays a pod: a page is made on a thread that may
//! block, and a reply that is streamed waits in its own task. Must not: know a path or a transport.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::logs::container_log;
use super::request::{Port, Reply, Request, Response};
use super::router::{Action, paths, route};
use super::system_logs::system_log;
use super::{Endpoints, access, metrics_page, pods, stats};
use crate::status::metrics::exposition;
use crate::status::metrics::process::observe_process;
use crate::status::stats::running_pods;
use crate::sync::view::to_json;
use crate::text::excerpt::beginning;

/// The most bytes of a path in the log.
const MAX_LOGGED_PATH: usize = 256;
/// How many refusals a minute are logged: whoever is refused must not fill the disk.
const LOGGED_IN_A_MINUTE: u32 = 30;
/// Since when refusals are counted, and how many there were.
static REFUSED_LATELY: Mutex<Option<(Instant, u32)>> = Mutex::new(None);

fn log_refusal(request: &Request, reason: &str) {
    let mut lately = REFUSED_LATELY.lock().unwrap_or_else(PoisonError::into_inner);
    if is_logged(Instant::now(), &mut lately) {
        let path = beginning(&request.path, MAX_LOGGED_PATH);
        tracing::warn!(peer = ?request.peer, path, reason, "refused a request");
    }
}

fn is_logged(now: Instant, lately: &mut Option<(Instant, u32)>) -> bool {
    match lately {
        Some((since, count)) if now.saturating_duration_since(*since) < Duration::from_secs(60) => {
            *count = count.saturating_add(1);
            *count <= LOGGED_IN_A_MINUTE
        }
        _ => {
            *lately = Some((now, 1));
            true
        }
    }
}

impl Endpoints {
    /// The reply to one request. Every transport ends here.
    pub(crate) async fn answer(&self, request: Request) -> Reply {
        if let Err(denied) = access::admit(&request, &self.access) {
            log_refusal(&request, &denied.reason);
            return denied.response.into();
        }
        match route(&request, self.routes) {
            Ok(action) => self.carry_out(action, &request).await,
            Err(response) => response.into(),
        }
    }

    async fn carry_out(&self, action: Action, request: &Request) -> Reply {
        match action {
            Action::Health(question) => {
                let sync_loop = if question.asks_sync_loop() { (self.health)().await } else { Ok(()) };
                question.answer(&sync_loop).into()
            }
            Action::Pods => {
                self.page(|own| Response::json("the list of pods", pods::render(&own.view.load()))).await
            }
            Action::Verdicts => {
                self.page(|own| Response::json("the verdicts", to_json(&own.view.load().verdicts))).await
            }
            Action::Probes => {
                self.page(|own| Response::json("the probes", serde_json::to_vec(&(own.probes)()))).await
            }
            Action::Events => {
                self.page(|own| Response::json("the events", serde_json::to_vec(&own.events.list()))).await
            }
            Action::Metrics => {
                let render = |own: &Self| {
                    let process = observe_process();
                    metrics_page::render(&own.view.load(), &own.metrics, &process, (own.figures)())
                };
                self.page(move |own| Response::page(exposition::CONTENT_TYPE, render(own))).await
            }
            Action::ProbeMetrics => {
                let render = |own: &Self| metrics_page::render_probes(&own.metrics, &observe_process());
                self.page(move |own| Response::page(exposition::CONTENT_TYPE, render(own))).await
            }
            Action::Stats(page) => self.stats_page(page).await,
            Action::RunningPods => {
                let render = |own: &Self| running_pods::render(stats::running_pods(&own.view.load()));
                self.page(move |own| Response::json("the pods that run", render(own))).await
            }
            Action::Configz => Response::page("application/json", self.configz.as_bytes()).into(),
            Action::Statusz => Response::page(PLAIN, statusz(request.port)).into(),
            Action::ContainerLog(pod, container, options) => {
                container_log(self, pod, container, options).await
            }
            Action::SystemLog(path) => system_log(path).await,
            Action::Session(target, session) => self.open_session(target, session, request).await,
            Action::Run(target, command) => self.run_command(&target, command).await,
            Action::Checkpoint(target) => self.checkpoint(&target).await,
            Action::Images => match (self.images)().await {
                Ok(list) => Response::json("the images", serde_json::to_vec(&list)).into(),
                Err(error) => {
                    Response::text(503, format!("the runtime does not list its images: {error}\n")).into()
                }
            },
            Action::Restart(pod) => match (self.restart)(pod.clone()).await {
                true => Response::text(200, format!("{pod} is being replaced\n")).into(),
                false => Response::text(404, format!("no pod {pod} is wanted\n")).into(),
            },
        }
    }

    /// A page that takes a while to be made, or reads files: made on a thread that may block.
    pub(super) async fn page(&self, make: impl FnOnce(&Self) -> Response + Send + 'static) -> Reply {
        let own = self.clone();
        smol::unblock(move || make(&own)).await.into()
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// The page `/statusz`.
fn statusz(port: Port) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let paths: Vec<_> = paths(port).collect();
    format!("\nkubelet statusz\n\nBinary version: rkubelet {version}\nPaths: {}\n", paths.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_do_not_fill_the_log() {
        let (now, mut lately) = (Instant::now(), None);
        let logged = (0..100).filter(|_| is_logged(now, &mut lately)).count();
        assert_eq!(logged, LOGGED_IN_A_MINUTE as usize);
        assert!(is_logged(now + Duration::from_secs(60), &mut lately));
    }
}
