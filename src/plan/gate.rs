//! Waiting for other pods before the first start.

use std::time::Duration;

use super::{Init, Plan, Waiting};
use crate::plan::order::{self, Unmet};
use crate::pod::Pod;

/// The whole pod waits, and nothing is done.
pub(super) fn plan_wait(pod: &Pod, unmet: &[Unmet], left: Duration) -> Plan {
    let waiting = waiting(pod, unmet);
    let has_init = pod.spec.init_containers.as_ref().is_some_and(|init| !init.is_empty());
    Plan {
        wake_in: Some(left),
        waiting: pod.containers().map(|(_, spec)| (spec.name.clone(), waiting.clone())).collect(),
        init: if has_init { Init::Pending } else { Init::Passed },
        ..Plan::default()
    }
}

/// What the containers say while they wait.
pub(super) fn waiting(pod: &Pod, unmet: &[Unmet]) -> Waiting {
    let limit = order::timeout(pod);
    Waiting {
        reason: "WaitingForPods".into(),
        message: format!("starts after {}, or after {limit:?}", order::in_words(unmet)),
    }
}
