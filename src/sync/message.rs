//! What the sync loop is told, and by whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_channel::Sender;

use super::mux::Snapshot;
use super::node_list::{Fingerprint, NodeList};
use crate::pod::device_assignment::DeviceHealth;
use crate::pod::state::{Failed, PodState};
use crate::pod::{ConfigHash, ContainerId, Pod, PodName, PodUid};

/// What can happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A source spoke.
    Config(Snapshot),
    /// The runtime gave a hint.
    Pleg(PlegEvent),
    /// What probes found of a pod has changed.
    Probe(PodName),
    /// A worker reports.
    Worker(Report),
    /// Containers of an instance are to be replaced by new ones, unless it is not wanted any more.
    Restart {
        /// The pod.
        pod: PodName,
        /// The instance.
        uid: PodUid,
        /// The containers.
        containers: BTreeSet<ContainerId>,
    },
    /// Somebody wants a pod's instance replaced by a new one of the same manifest; the answer is whether there is one.
    RestartPod(PodName, Sender<bool>),
    /// An instance is to end as Failed, unless it is not wanted any more; its object stays.
    End(EndPod),
    /// Devices of plugins have changed, or who has them.
    Devices(DeviceChange),
    /// Somebody asks whether the loop turns.
    Ping(Sender<()>),
}

/// An instance that is to end as Failed.
#[derive(Debug)]
pub(crate) struct EndPod {
    /// Its pod.
    pub(crate) pod: PodName,
    /// The instance.
    pub(crate) uid: PodUid,
    /// Why, as its status tells.
    pub(crate) failed: Failed,
    /// Seconds that its containers have at the most; none for their own grace periods.
    pub(crate) grace: Option<i64>,
}

/// How devices of plugins are now.
#[derive(Debug)]
pub(crate) struct DeviceChange {
    /// How many of each resource pods may request.
    pub(crate) allocatable: BTreeMap<String, usize>,
    /// How those are that containers have.
    pub(crate) health: Arc<DeviceHealth>,
    /// The instances that have one whose health has changed.
    pub(crate) pods: BTreeSet<PodUid>,
}

/// What a worker has to say.
#[derive(Debug)]
pub(crate) enum Report {
    /// A container is about to start; its exit should lead here.
    Created {
        /// The worker's pod.
        pod: PodName,
        /// The container.
        container: ContainerId,
    },
    /// A pass ended.
    Synced {
        /// The worker's pod.
        pod: PodName,
        /// The wanted instance, or the one that ends, and its state; none if it is not known.
        state: Option<(Arc<Pod>, Arc<PodState>)>,
        /// What was seen last.
        seen: Fingerprint,
        /// Its sandbox is up.
        running: bool,
        /// The generation of the desired state that the pass was made for.
        number: u64,
        /// The instances of which the runtime holds something, by UID and the hash of the manifest, where that is known.
        instances: BTreeSet<(PodUid, Option<ConfigHash>)>,
    },
    /// The pod was to stop, and nothing of it is left.
    Gone {
        /// The worker's pod.
        pod: PodName,
        /// The generation of the desired state that asked for the stop.
        number: u64,
    },
}

/// A hint of the runtime.
#[derive(Debug)]
pub(crate) enum PlegEvent {
    /// The runtime answered with all that it holds.
    Listed(NodeList),
    /// The main process of a container ended.
    Exited(ContainerId),
    /// The runtime does not answer.
    Down(String),
}
