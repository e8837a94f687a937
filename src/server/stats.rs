//! The pages of what the node and its pods use.

use super::Endpoints;
use super::request::{Reply, Request, Response};
use crate::status::metrics::exposition;
use crate::status::stats::running_pods::RunningPod;
use crate::status::stats::{Detail, cadvisor_page, resource_page, summary};
use crate::sync::view::View;

/// Which page is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatsPage {
    /// `/stats/summary`; of CPU, memory and swap alone, or of everything.
    Summary {
        /// The parameter of that name.
        only_cpu_and_memory: bool,
    },
    /// `/metrics/resource`.
    Resource,
    /// `/metrics/cadvisor`.
    Cadvisor,
}

impl StatsPage {
    /// The summary that a request asks for.
    pub(super) fn summary(request: &Request) -> Self {
        let only = request.parameter("only_cpu_and_memory");
        Self::Summary { only_cpu_and_memory: only.is_some_and(|only| only == "true") }
    }

    fn detail(self) -> Detail {
        match self {
            Self::Resource => Detail::Usage,
            Self::Summary { .. } => Detail::Summary,
            Self::Cadvisor => Detail::Full,
        }
    }
}

impl Endpoints {
    /// A page of what is used, from a reading that is a moment old at most.
    pub(super) async fn stats_page(&self, page: StatsPage) -> Reply {
        let Some(stats) = &self.stats else { return Response::text(404, "404 page not found\n").into() };
        let read = stats.read(page.detail()).await;
        if let Err(error) = &read {
            tracing::warn!(%error, "cannot tell what is used");
        }
        self.page(move |_| match (page, read) {
            (StatsPage::Summary { only_cpu_and_memory }, Ok(reading)) => {
                Response::json("the summary", summary::render(&reading, only_cpu_and_memory))
            }
            (StatsPage::Summary { .. }, Err(error)) => Response::text(500, format!("{error}\n")),
            (StatsPage::Resource, read) => {
                Response::page(exposition::CONTENT_TYPE, resource_page::render(read.ok().as_deref()))
            }
            (StatsPage::Cadvisor, read) => {
                Response::page(exposition::CONTENT_TYPE, cadvisor_page::render(read.ok().as_deref()))
            }
        })
        .await
    }
}

/// The pods that have a sandbox, and their containers that run.
pub(super) fn running_pods(view: &View) -> impl Iterator<Item = RunningPod<'_>> {
    view.pods.values().filter(|pod| pod.running).map(|pod| {
        let containers = pod.state.iter().flat_map(|state| state.all_containers());
        let running = containers.filter(|container| container.running_since().is_some());
        RunningPod {
            name: &pod.pod.name.name,
            namespace: &pod.pod.name.namespace,
            uid: pod.pod.uid.as_str(),
            containers: running
                .filter_map(|container| Some((&*container.name, &*container.created.as_ref()?.image_ref)))
                .collect(),
        }
    })
}
