//! The phase of a pod, by kubelet's rules.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, PodSpec};

use super::Specified;
use super::container::{Kind, last_end};
use crate::plan::{Init, Plan};
use crate::pod::restart::{AfterExit, after_exit, outlives_sandbox};

/// The phase of a pod whose containers are in these states.
pub(super) fn phase(spec: &PodSpec, plan: &Plan, init: &Specified<'_>, main: &Specified<'_>) -> &'static str {
    match plan.init {
        Init::Pending => return "Pending",
        Init::Failed => return "Failed",
        Init::Passed => {}
    }
    let (mut running, mut waiting, mut stopped, mut succeeded, mut restarting) = (0, 0, 0, 0, 0);
    // What was ended with its sandbox has not completed.
    let is_lost = |id: &str| plan.lost.iter().any(|lost| id.ends_with(lost.as_str()));
    let stays = |container, ended: &ContainerStateTerminated| {
        let was_lost =
            outlives_sandbox(spec, container) && ended.container_id.as_deref().is_some_and(is_lost);
        !was_lost && after_exit(spec, container, ended.exit_code) == AfterExit::Stays
    };
    for (container, status) in init {
        let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
        match (Kind::of_init(container), last_end(status)) {
            // A sidecar that runs keeps the pod running; one that ended is of no account.
            (Kind::Sidecar, _) if runs => running += 1,
            (Kind::Sidecar, Some(_)) => {}
            (_, Some(ended)) if !runs => {
                if ended.exit_code != 0 && stays(container, ended) {
                    return "Failed";
                }
            }
            _ => waiting += 1,
        }
    }
    for (container, status) in main {
        if status.state.as_ref().is_some_and(|state| state.running.is_some()) {
            running += 1;
        } else if let Some(ended) = last_end(status) {
            stopped += 1;
            succeeded += i32::from(ended.exit_code == 0);
            restarting += i32::from(!stays(container, ended));
        } else {
            waiting += 1;
        }
    }
    if waiting > 0 {
        "Pending"
    } else if running > 0 {
        "Running"
    } else if stopped == 0 {
        "Pending"
    } else if restarting > 0 {
        "Running"
    } else if stopped == succeeded {
        "Succeeded"
    } else {
        "Failed"
    }
}
