//! What is done for a request that was let in and routed.
//!
//! Owns the way from an [`Action`] to a reply: it reads the published view, asks the sync loop whether it turns, and may
//! call the runtime. Invariant: no client, however slow or rude, delays a pod: a page is made on a thread that may
//! block, and a reply that is streamed waits in its own task. Must not: know a path or a transport.

use super::logs::container_log;
use super::request::{Port, Reply, Request, Response};
use super::router::{Action, paths, route};
use super::system_logs::system_log;
use super::{Endpoints, access, metrics_page, pods, stats};
use crate::status::metrics::exposition;
use crate::status::metrics::process::observe_process;
use crate::status::stats::running_pods;
use crate::sync::view::to_json;

impl Endpoints {
    /// The reply to one request. Every transport ends here.
    pub(crate) async fn answer(&self, request: Request) -> Reply {
        if let Err(denied) = access::admit(&request, &self.access) {
            tracing::warn!(peer = ?request.peer, path = request.path, reason = denied.reason, "refused a request");
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
