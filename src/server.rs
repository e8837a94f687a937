//! One router for every local endpoint, and the thin transports that carry it.
//!
//! Owns the HTTP endpoints. The way of a request: a transport reads it ([`transport`]), it is let in or refused
//! ([`access`]), the table of paths says what is to be done ([`router`]), and that is done ([`handlers`]). Invariant: no
//! client, however slow or rude, delays a pod: a page is made from the published view, off the main thread. Must not:
//! change what should run.
//!
//! To add a path: one line in `router::ROUTES`, which names the ports that have it and the `router::Action`, and one arm
//! of `Endpoints::carry_out` in `handlers`, which makes the reply: `self.page(|own| ...)` for a page that is computed,
//! or an async function of its own module. What the reply is made of stands in [`Endpoints`]. `access::attributes` knows
//! which subresource of the node a path belongs to; one that is not in its tables is `nodes/proxy`.

pub(crate) mod access;
pub(crate) mod certificate;
pub(crate) mod handlers;
pub(crate) mod health;
pub(crate) mod logs;
pub(crate) mod metrics_page;
pub(crate) mod pods;
pub(crate) mod request;
pub(crate) mod router;
pub(crate) mod sessions;
mod stats;
pub(crate) mod status_line;
mod system_logs;
pub(crate) mod systemd;
pub(crate) mod tls;
pub(crate) mod transport;
pub(crate) mod tunnel;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::host::Dirs;
use crate::pod::PodName;
use crate::probe::schedule::ProbeReport;
use crate::runtime::cri::CriClient;
use crate::runtime::stats::StatsReader;
use crate::status::events::Recorder;
use crate::status::metrics::Metrics;
use crate::sync::published::Published;

pub(crate) use metrics_page::NodeFigures;
pub(crate) use request::Port;
pub(crate) use transport::{Listening, ServerError, listen_on_address, listen_on_socket, remove_socket};

/// The answer of [`HealthCheck`].
pub(crate) type Health = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Asks whether the sync loop turns; the error is the reason why not. It may take some seconds.
pub(crate) type HealthCheck = Arc<dyn Fn() -> Health + Send + Sync>;

/// Reads what is known of every probe.
pub(crate) type ProbeReports = Arc<dyn Fn() -> Vec<ProbeReport> + Send + Sync>;

/// Asks for a pod's instance to be replaced; the answer is whether there is one.
pub(crate) type RestartPod = Arc<dyn Fn(PodName) -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// The images of the runtime, as a list of JSON.
pub(crate) type ImageList =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync>;

/// What the ports serve. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Endpoints {
    /// Who may ask.
    pub access: access::AccessRules,
    /// Which paths the configuration leaves out.
    pub routes: router::RouteRules,
    /// What `/configz` shows.
    pub configz: Arc<str>,
    /// Where logs lie.
    pub dirs: Dirs,
    /// The runtime, for commands and the like.
    pub cri: CriClient,
    /// Where the newest view is found.
    pub view: Published,
    /// Asked by `/healthz`, and only then.
    pub health: HealthCheck,
    /// Asked by `/probes`.
    pub probes: ProbeReports,
    /// Asked by `/restart`.
    pub restart: RestartPod,
    /// Asked by `/images`.
    pub images: ImageList,
    /// What `/events` lists.
    pub events: Recorder,
    /// What `/metrics` counts.
    pub metrics: Arc<Metrics>,
    /// What `/metrics` tells of the agent's own parts.
    pub figures: Arc<dyn Fn() -> NodeFigures + Send + Sync>,
    /// What `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor` are made of; none where there is no node.
    pub stats: Option<Arc<StatsReader>>,
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints").finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::http::Reactor;
    use crate::runtime::cri::{Endpoint, Timeouts};

    /// Endpoints of an agent without a runtime, which let their own user in.
    pub(crate) fn endpoints(reactor: &Reactor, health: HealthCheck) -> Endpoints {
        let nowhere = Endpoint::default();
        let timeouts = Timeouts::default();
        Endpoints {
            access: access::AccessRules {
                own_uid: rustix::process::getuid().as_raw(),
                anonymous: false,
                token_review: false,
                authorization: access::Authorization::AlwaysAllow,
            },
            routes: router::RouteRules { debugging: true, system_logs: true },
            configz: "{}".into(),
            dirs: Dirs::new("/nonexistent".into(), "/nonexistent".into()),
            cri: CriClient::new(reactor, &nowhere, &nowhere, timeouts, Arc::new(|_, _, _| ())).unwrap(),
            view: Published::default(),
            health,
            probes: Arc::new(Vec::new),
            restart: Arc::new(|_| Box::pin(async { false })),
            images: Arc::new(|| Box::pin(async { Err("none".to_owned()) })),
            events: Recorder::new("node1"),
            metrics: Arc::new(Metrics::new("node1")),
            figures: Arc::new(NodeFigures::default),
            stats: None,
        }
    }
}
