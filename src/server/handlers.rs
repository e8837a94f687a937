//! What is done for a request that was let in and routed.
//!
//! Owns the way from an [`Action`] to a reply: it reads the published view, asks the sync loop whether it turns, and may
//! call the runtime. Invariant: no client, however slow or rude, delays a pod: a page is made on a thread that may
//! block, and a reply that is streamed waits in its own task. Must not: know a path or a transport.

use super::request::{Reply, Request, Response};
use super::router::{Action, route};
use super::{Endpoints, access, metrics_page, pods};
use crate::status::metrics::exposition;
use crate::status::metrics::process::observe_process;
use crate::sync::view::to_json;

impl Endpoints {
    /// The reply to one request. Every transport ends here.
    pub(crate) async fn answer(&self, request: Request) -> Reply {
        if let Err(denied) = access::admit(&request, self.own_uid) {
            tracing::warn!(peer = ?request.peer, path = request.path, reason = denied.reason, "refused a request");
            return denied.response.into();
        }
        match route(&request) {
            Ok(action) => self.carry_out(action).await,
            Err(response) => response.into(),
        }
    }

    async fn carry_out(&self, action: Action) -> Reply {
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
                let render =
                    |own: &Self| metrics_page::render(&own.view.load(), &own.metrics, &observe_process());
                self.page(move |own| Response::page(exposition::CONTENT_TYPE, render(own))).await
            }
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
    async fn page(&self, make: impl FnOnce(&Self) -> Response + Send + 'static) -> Reply {
        let own = self.clone();
        smol::unblock(move || make(&own)).await.into()
    }
}
