//! Which probes a pod has now: from its manifest, from what runs, and from its last state. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::check::{Spec, probe_of};
use super::threshold::{Kind, ProbeOutcome};
use crate::pod::observed::{Container, ContainerState, Observed, Sandbox, pod_ips};
use crate::pod::state::{ContainerSummary, PodState, RunState};
use crate::pod::{ContainerId, ContainerRef, Pod, is_sidecar};

/// One probe of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The container.
    pub id: ContainerId,
    /// Its place in the manifest.
    pub which: ContainerRef,
    /// Its name in the pod.
    pub container: String,
    /// What the probe is for.
    pub kind: Kind,
    /// What to do, and how often.
    pub spec: Arc<Spec>,
    /// The host to connect to.
    pub host: ProbeHost,
    /// The verdict that the last state of this container tells, by an earlier agent too.
    pub known: Option<ProbeOutcome>,
    /// Whether it is run.
    pub activity: ProbeActivity,
}

/// The host that probes of a pod connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeHost {
    /// The node's address, which may change at any time.
    Node,
    /// An address of its own.
    Address(String),
    /// It has no address, or lost it with its sandbox.
    None,
}

impl ProbeHost {
    /// The host of a pod with this newest sandbox, on a node with these addresses.
    pub(crate) fn of(pod: &Pod, sandbox: Option<&Sandbox>, node_ips: &[String]) -> Self {
        match pod_ips(pod, sandbox, node_ips).into_iter().next() {
            _ if pod.spec.host_network == Some(true) => Self::Node,
            Some(address) => Self::Address(address),
            None => Self::None,
        }
    }
}

/// Whether a probe is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeActivity {
    /// It is run.
    Active {
        /// When the container was started.
        started_at: Timestamp,
    },
    /// It is not run; its verdict stays.
    Paused,
}

/// What is to become of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodGoal {
    /// It is to run.
    Run,
    /// It is to stop: its readiness still counts, and nothing is restarted.
    Stop,
}

/// What probes found, by container. A probe that is not there has nothing against its container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdicts(BTreeMap<(ContainerId, Kind), Option<ProbeOutcome>>);

impl Verdicts {
    /// Its startup probe, if it has one, has succeeded.
    pub(crate) fn has_started(&self, id: &ContainerId) -> bool {
        self.passes(id, Kind::Startup)
    }

    /// It has started, and its readiness probe, if it has one, succeeds.
    pub(crate) fn is_ready(&self, id: &ContainerId) -> bool {
        self.has_started(id) && self.passes(id, Kind::Readiness)
    }

    /// The probe for which it is to be restarted, if there is one.
    pub(crate) fn failed(&self, id: &ContainerId) -> Option<Kind> {
        let failed = |kind: &Kind| self.get(id, *kind) == Some(&Some(ProbeOutcome::Failure));
        [Kind::Liveness, Kind::Startup].into_iter().find(failed)
    }

    fn passes(&self, id: &ContainerId, kind: Kind) -> bool {
        self.get(id, kind).is_none_or(|verdict| *verdict == Some(ProbeOutcome::Success))
    }

    fn get(&self, id: &ContainerId, kind: Kind) -> Option<&Option<ProbeOutcome>> {
        self.0.get(&(id.clone(), kind))
    }
}

impl FromIterator<((ContainerId, Kind), Option<ProbeOutcome>)> for Verdicts {
    fn from_iter<I: IntoIterator<Item = ((ContainerId, Kind), Option<ProbeOutcome>)>>(verdicts: I) -> Self {
        Self(verdicts.into_iter().collect())
    }
}

/// A pod, and what its probes follow from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbedPod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What the runtime holds of it.
    pub observed: &'a Observed,
    /// Its last state, by an earlier agent too.
    pub previous: Option<&'a PodState>,
    /// Containers that have not started before their hook is done.
    pub starting: &'a BTreeSet<ContainerId>,
    /// Containers whose end has begun, whatever becomes of the pod.
    pub ending: &'a BTreeSet<ContainerId>,
    /// What is to become of it.
    pub goal: PodGoal,
    /// The host that its probes connect to.
    pub host: &'a ProbeHost,
}

/// The probes of a pod: those of the newest container of each name, sidecars included.
pub(crate) fn targets(probed: &ProbedPod<'_>) -> Vec<Target> {
    let is_probed = |(which, spec): &(ContainerRef, &ContainerSpec)| match which {
        ContainerRef::Init(_) => is_sidecar(spec),
        ContainerRef::Main(_) => true,
    };
    let containers = probed.pod.containers().filter(is_probed);
    containers.flat_map(|(which, spec)| targets_of(probed, which, spec)).collect()
}

fn targets_of(probed: &ProbedPod<'_>, which: ContainerRef, spec: &ContainerSpec) -> Vec<Target> {
    let found = probed.observed.containers_of(probed.pod, &spec.name);
    let Some(newest) = found.into_iter().next() else { return Vec::new() };
    let running_before = probed.previous.and_then(|state| running_before(state, newest));
    let target = |kind| {
        let probe = probe_of(spec, kind)?;
        Some(Target {
            id: newest.id.clone(),
            which,
            container: spec.name.clone(),
            kind,
            spec: Arc::new(Spec::of(probe, spec)),
            host: probed.host.clone(),
            known: running_before.and_then(|summary| known(summary, kind)),
            activity: activity(probed, newest, kind),
        })
    };
    Kind::ALL.into_iter().filter_map(target).collect()
}

fn activity(probed: &ProbedPod<'_>, container: &Container, kind: Kind) -> ProbeActivity {
    let lives = probed.goal == PodGoal::Run && !probed.ending.contains(&container.id);
    let counts = lives || kind == Kind::Readiness;
    match container.state {
        ContainerState::Running { started_at } if counts && !probed.starting.contains(&container.id) => {
            ProbeActivity::Active { started_at }
        }
        _ => ProbeActivity::Paused,
    }
}

/// What is known of this very container, if it ran.
fn running_before<'a>(state: &'a PodState, container: &Container) -> Option<&'a ContainerSummary> {
    let mut running = state.all_containers().filter(|c| matches!(c.state, RunState::Running { .. }));
    running.find(|summary| summary.id() == Some(&container.id))
}

/// The verdict that follows from what was known.
fn known(summary: &ContainerSummary, kind: Kind) -> Option<ProbeOutcome> {
    let started = summary.started;
    match kind {
        Kind::Startup => started.then_some(ProbeOutcome::Success),
        Kind::Readiness if summary.ready => Some(ProbeOutcome::Success),
        // That it failed is known of one that had started.
        Kind::Readiness => started.then_some(ProbeOutcome::Failure),
        Kind::Liveness => None,
    }
}

#[cfg(test)]
mod tests;
