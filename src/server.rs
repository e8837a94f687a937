//! One router for every local endpoint, and the thin transports that carry it.
//!
//! Owns the HTTP endpoints. Invariant: a request reads the published view and nothing else, so that no
//! client, however slow or rude, delays a pod. Must not: call the container runtime or change anything.

pub(crate) mod message;
pub(crate) mod metrics_page;
pub(crate) mod plain;
pub(crate) mod pods;
pub(crate) mod router;
pub(crate) mod status_line;
pub(crate) mod systemd;

use std::fmt;
use std::sync::Arc;

use crate::probe::schedule::ProbeReport;
use crate::status::events::Recorder;
use crate::status::metrics::Metrics;
use crate::status::metrics::process::observe_process;
use crate::sync::published::Published;

pub(crate) use plain::{Listening, start_plain};
pub(crate) use router::{Port, Request, Response};

/// Asks whether the sync loop turns; the error is the reason why not. It may wait for some seconds.
pub(crate) type HealthCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Reads what is known of every probe.
pub(crate) type ProbeReports = Arc<dyn Fn() -> Vec<ProbeReport> + Send + Sync>;

/// What one port serves, for as long as it is open.
#[derive(Clone)]
pub(crate) struct Endpoints {
    /// Which endpoints exist.
    pub port: Port,
    /// Where the newest view is found.
    pub view: Published,
    /// Asked by `/healthz`, and only then.
    pub health: HealthCheck,
    /// Asked by `/probes`.
    pub probes: ProbeReports,
    /// What `/events` lists.
    pub events: Recorder,
    /// What `/metrics` counts.
    pub metrics: Arc<Metrics>,
}

impl Endpoints {
    /// The answer to one request, from the newest view. Every transport ends here.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Response {
        let state = router::ServerState {
            port: self.port,
            view: &self.view.load(),
            health: &*self.health,
            probes: &*self.probes,
            events: &|| self.events.list(),
            metrics: &self.metrics,
            process: &observe_process,
        };
        router::route(request, &state)
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints").field("port", &self.port).finish_non_exhaustive()
    }
}
