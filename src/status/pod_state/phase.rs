//! The phase of a pod, by kubelet's rules.

use k8s_openapi::api::core::v1::PodSpec;

use super::containers::{ContainerRole, Containers};
use crate::plan::{Init, Plan};
use crate::pod::restart::{AfterExit, after_exit, outlives_sandbox};
use crate::pod::state::{Phase, Termination};

/// The phase of a pod whose containers are in these states.
pub(super) fn phase(spec: &PodSpec, plan: &Plan, containers: &Containers<'_>) -> Phase {
    match plan.init {
        Init::Pending => return Phase::Pending,
        Init::Failed => return Phase::Failed,
        Init::Passed => {}
    }
    let (mut running, mut waiting, mut stopped, mut succeeded, mut restarting) = (0, 0, 0, 0, 0);
    // A container that was ended because its sandbox died has not completed.
    let stays = |container, ended: &Termination| {
        let was_lost =
            outlives_sandbox(spec, container) && ended.id.as_ref().is_some_and(|id| plan.killed.contains(id));
        !was_lost && after_exit(spec, container, ended.exit_code) == AfterExit::Stays
    };
    for (container, summary) in &containers.init {
        let runs = summary.running_since().is_some();
        match (ContainerRole::of_init(container), summary.newest_termination()) {
            // A sidecar that runs keeps the pod running; one that ended does not count.
            (ContainerRole::Sidecar, _) if runs => running += 1,
            (ContainerRole::Sidecar, Some(_)) => {}
            (_, Some(ended)) if !runs => {
                if ended.exit_code != 0 && stays(container, ended) {
                    return Phase::Failed;
                }
            }
            _ => waiting += 1,
        }
    }
    for (container, summary) in &containers.main {
        if summary.running_since().is_some() {
            running += 1;
        } else if let Some(ended) = summary.newest_termination() {
            stopped += 1;
            succeeded += i32::from(ended.exit_code == 0);
            restarting += i32::from(!stays(container, ended));
        } else {
            waiting += 1;
        }
    }
    if waiting > 0 {
        Phase::Pending
    } else if running > 0 {
        Phase::Running
    } else if stopped == 0 {
        Phase::Pending
    } else if restarting > 0 {
        Phase::Running
    } else if stopped == succeeded {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}
