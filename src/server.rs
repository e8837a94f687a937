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
pub(crate) mod handlers;
pub(crate) mod health;
pub(crate) mod metrics_page;
pub(crate) mod pods;
pub(crate) mod request;
pub(crate) mod router;
pub(crate) mod status_line;
pub(crate) mod systemd;
pub(crate) mod transport;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::pod::PodName;
use crate::probe::schedule::ProbeReport;
use crate::status::events::Recorder;
use crate::status::metrics::Metrics;
use crate::sync::published::Published;

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
    /// The user that the agent runs as.
    pub own_uid: u32,
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
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints").finish_non_exhaustive()
    }
}
