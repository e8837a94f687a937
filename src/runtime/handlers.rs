//! Runs the handlers of a manifest, lifecycle hooks and probes: a command in the container, a request, a connection.

pub(crate) mod hooks;
mod http_get;
pub(crate) mod probes;

use std::sync::Arc;

use smol::lock::Semaphore;

use super::cri::CriClient;
use crate::host::NodeIps;
use crate::http::{Client, Reactor};
use crate::probe::EXEC_WIDTH;
use crate::status::metrics::Metrics;

/// Where a pod on the host's network listens, while the node has no address.
const LOOPBACK: &str = "127.0.0.1";

/// What handlers are run with. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct HandlerRunner {
    cri: CriClient,
    http: Client,
    /// Where gRPC's connections to containers live.
    reactor: Reactor,
    /// How many commands of probes run at the same time.
    exec_permits: Arc<Semaphore>,
    node_ips: NodeIps,
    metrics: Arc<Metrics>,
}

impl HandlerRunner {
    /// A runner that runs nothing yet.
    pub(crate) fn new(
        cri: CriClient,
        http: Client,
        reactor: Reactor,
        node_ips: NodeIps,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { cri, http, reactor, exec_permits: Arc::new(Semaphore::new(EXEC_WIDTH)), node_ips, metrics }
    }
}
