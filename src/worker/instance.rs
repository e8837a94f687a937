//! What a worker knows of the instance that is wanted, or was wanted last. An edit makes a new one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::objects::InstanceObjects;
use crate::plan::order::Gate;
use crate::plan::{History, PullFailure, Want};
use crate::pod::Pod;
use crate::pod::state::{Failed, PodState};
use crate::time::since::Since;

/// One version of one instance, from when it was first wanted.
#[derive(Debug)]
pub(super) struct Instance {
    /// The pod.
    pub(super) pod: Arc<Pod>,
    /// It is wanted; else it ends, and is shown until nothing is left of it.
    pub(super) wanted: bool,
    /// What failed so far.
    pub(super) history: History,
    /// Whether it may start, as last judged.
    pub(super) gate: Option<Gate>,
    /// When it was first wanted, in uptime.
    pub(super) wanted_since: Duration,
    /// Since when it is at work, if it is.
    pub(super) active_since: Option<Since>,
    /// It is to end as Failed for a reason of its own: its deadline.
    pub(super) end: Option<Failed>,
    /// Its state as last computed.
    pub(super) state: Option<Arc<PodState>>,
    /// Images that were pulled for containers still to be created, by container name.
    pub(super) pulled: BTreeMap<String, String>,
    /// What it needs on the node was prepared by this agent.
    pub(super) prepared: bool,
    /// Its ConfigMaps and Secrets, if it refers to any.
    pub(super) objects: Option<Box<InstanceObjects>>,
}

impl Instance {
    /// An instance that is wanted from now on; `state` is what is remembered of it.
    pub(super) fn new(pod: Arc<Pod>, state: Option<Arc<PodState>>, uptime: Duration) -> Self {
        Self {
            pod,
            wanted: true,
            history: History::default(),
            gate: None,
            wanted_since: uptime,
            active_since: None,
            end: None,
            state,
            pulled: BTreeMap::new(),
            prepared: false,
            objects: None,
        }
    }

    /// The same with what an earlier agent remembered of failed pulls.
    pub(super) fn with_pulls(mut self, pulls: BTreeMap<String, PullFailure>) -> Self {
        self.history.pulls = pulls;
        self
    }

    /// It is not wanted any more: nothing of its past counts, should it be wanted again.
    pub(super) fn dismissed(self) -> Self {
        Self { wanted: false, ..Self::new(self.pod, self.state, self.wanted_since) }
    }

    /// Takes the image that was pulled for a container still to be created. An emptied map keeps its memory: it is replaced.
    pub(super) fn take_pulled(&mut self, container: &str) -> Option<String> {
        let image = self.pulled.remove(container);
        if self.pulled.is_empty() {
            self.pulled = BTreeMap::new();
        }
        image
    }

    /// It is the version that is wanted, and was so before.
    pub(super) fn is_wanted_by(&self, want: &Want) -> bool {
        self.wanted && want.pod().is_some_and(|pod| self.pod.same_as(pod))
    }
}
