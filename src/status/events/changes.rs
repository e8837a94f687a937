//! Which events follow from the change of a pod's state. Pure.

use super::ring::EventType;
use crate::pod::Pod;
use crate::pod::state::{ContainerSummary, FailedReason, PodState, RunState};

/// An event of a pod, or of one of its containers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StateEvent<'a> {
    pub(crate) kind: EventType,
    /// The container; none for the pod as a whole.
    pub(crate) container: Option<&'a str>,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What is to be recorded when the state of a pod changes from `before` to `now`.
pub(crate) fn state_events<'a>(
    pod: &Pod,
    before: Option<&PodState>,
    now: &'a PodState,
) -> Vec<StateEvent<'a>> {
    let failed = now.failed.as_ref().filter(|_| before.is_none_or(|before| before.failed.is_none()));
    let mut events: Vec<_> = failed
        .map(|failed| StateEvent {
            kind: match failed.reason {
                FailedReason::DeadlineExceeded => EventType::Normal,
                FailedReason::Evicted | FailedReason::Preempting => EventType::Warning,
            },
            container: None,
            reason: failed.reason.as_str(),
            message: failed.message.clone(),
        })
        .into_iter()
        .collect();
    for container in now.all_containers() {
        let earlier =
            before.and_then(|before| before.all_containers().find(|earlier| earlier.name == container.name));
        let Some(reason) =
            waiting_reason(container).filter(|now| earlier.and_then(waiting_reason) != Some(now))
        else {
            continue;
        };
        let (kind, message) = match reason {
            "CrashLoopBackOff" => (
                EventType::Warning,
                format!("Back-off restarting failed container {} in pod {}", container.name, pod.name.name),
            ),
            "ImagePullBackOff" => {
                let spec = pod.containers().find(|(_, spec)| spec.name == container.name);
                let image = spec.and_then(|(_, spec)| spec.image.as_deref()).unwrap_or_default();
                (EventType::Normal, format!("Back-off pulling image \"{image}\""))
            }
            _ => continue,
        };
        events.push(StateEvent { kind, container: Some(&container.name), reason: "BackOff", message });
    }
    events
}

fn waiting_reason(container: &ContainerSummary) -> Option<&str> {
    match &container.state {
        RunState::Waiting(waiting) => Some(&waiting.reason),
        RunState::Running { .. } | RunState::Terminated(_) => None,
    }
}

/// The reason and message of the event of a container or sandbox that could not be started for this reason of its status.
pub(crate) fn start_failure<'a>(reason: &'a str, message: &str) -> (&'a str, String) {
    match reason {
        "CreatePodSandboxError" => {
            ("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {message}"))
        }
        "ErrImageNeverPull" => (reason, message.to_owned()),
        "InvalidImageName" | "ImageInspectError" => ("InspectFailed", message.to_owned()),
        reason if reason.starts_with("Failed") => (reason, message.to_owned()),
        _ => ("Failed", format!("Error: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::state::{Failed, Waiting};
    use crate::pod::testing::pod;

    fn state(reason: Option<&str>) -> PodState {
        let state = match reason {
            Some(reason) => RunState::Waiting(Waiting { reason: reason.into(), message: String::new() }),
            None => RunState::Running { started_at: jiff::Timestamp::UNIX_EPOCH },
        };
        let container = ContainerSummary {
            name: "main".into(),
            created: None,
            state,
            last_termination: None,
            restarts: 0,
            started: false,
            ready: false,
        };
        PodState { containers: vec![container], ..PodState::default() }
    }

    #[test]
    fn a_back_off_is_told_when_it_begins() {
        let pod = pod("p", "u");
        let (crash, pull) = (Some("CrashLoopBackOff"), Some("ImagePullBackOff"));
        let rows = [
            (None, crash, Some("Back-off restarting failed container main in pod p")),
            (Some(None), crash, Some("Back-off restarting failed container main in pod p")),
            (Some(crash), crash, None),
            (Some(crash), None, None),
            (Some(Some("ErrImagePull")), pull, Some("Back-off pulling image")),
            (Some(pull), Some("ErrImagePull"), None),
            (Some(None), Some("ContainerCreating"), None),
        ];
        for (before, now, expect) in rows {
            let (before, now) = (before.map(state), state(now));
            let events = state_events(&pod, before.as_ref(), &now);
            let messages: Vec<_> = events.iter().map(|event| event.message.as_str()).collect();
            assert_eq!(messages.len(), usize::from(expect.is_some()), "{messages:?}");
            assert!(expect.is_none_or(|expect| messages[0].starts_with(expect)), "{messages:?}");
        }
    }

    #[test]
    fn an_end_is_told_once() {
        let pod = pod("p", "u");
        let failed = Failed { reason: FailedReason::Evicted, message: "too much".into() };
        let (before, now) = (state(None), PodState { failed: Some(failed), ..state(None) });
        let events = state_events(&pod, Some(&before), &now);
        assert_eq!((events.len(), events[0].reason, events[0].kind), (1, "Evicted", EventType::Warning));
        assert_eq!(state_events(&pod, Some(&now), &now), []);
    }

    #[test]
    fn reasons_of_failed_starts_are_kubelets() {
        for (reason, expect) in [
            ("CreatePodSandboxError", "FailedCreatePodSandBox"),
            ("FailedMount", "FailedMount"),
            ("ErrImageNeverPull", "ErrImageNeverPull"),
            ("InvalidImageName", "InspectFailed"),
            ("CreateContainerConfigError", "Failed"),
            ("RunContainerError", "Failed"),
        ] {
            assert_eq!(start_failure(reason, "m").0, expect);
        }
    }
}
