//! Whether containers of a pod may be started at all. What runs, runs on either way.

use std::collections::BTreeMap;

use super::{Init, Plan, Waiting};
use crate::pod::Pod;

/// The reason that containers show which may not be started.
const SIGNATURE_NOT_TRUSTED: &str = "SignatureNotTrusted";

/// Whether containers of a pod may be started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Starts {
    /// They may.
    #[default]
    Allowed,
    /// They may not, since the current key did not sign the pod; with the reason. A container that ends, also for its own
    /// liveness probe, is not started again.
    Refused(String),
    /// They may not, since the node has no place for the pod; with kubelet's reason.
    NotAdmitted(Waiting),
}

impl Starts {
    /// What containers show that may not be started; none if they may.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        match self {
            Starts::Allowed => None,
            Starts::Refused(reason) => {
                let message = format!("not started: {reason}");
                Some(Waiting { reason: SIGNATURE_NOT_TRUSTED.into(), message })
            }
            Starts::NotAdmitted(waiting) => Some(waiting.clone()),
        }
    }

    /// Why there is no sandbox, if the pod as a whole was refused.
    pub(super) fn not_admitted(&self) -> Option<Waiting> {
        match self {
            Starts::NotAdmitted(waiting) => Some(waiting.clone()),
            Starts::Allowed | Starts::Refused(_) => None,
        }
    }
}

/// The whole pod waits, and nothing is done.
pub(super) fn plan_refused(pod: &Pod, starts: &Starts, waiting: &Waiting) -> Plan {
    let has_init = pod.spec.init_containers.as_ref().is_some_and(|init| !init.is_empty());
    let all: BTreeMap<_, _> =
        pod.containers().map(|(_, spec)| (spec.name.clone(), waiting.clone())).collect();
    let init = if has_init { Init::Pending } else { Init::Passed };
    Plan { waiting: all, init, sandbox: starts.not_admitted(), ..Plan::default() }
}
