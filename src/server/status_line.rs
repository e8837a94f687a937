//! One line about the whole node, for `systemctl status`. Pure.

use crate::pod::state::Phase;
use crate::sync::view::{Outcome, RuntimeState, View};

/// Pods that run, wait, are done or were refused, and whether the runtime answers.
pub(crate) fn status_line(view: &View) -> String {
    let phases =
        || view.pods.values().map(|pod| pod.state.as_ref().map_or(Phase::Pending, |state| state.phase));
    let of_phase = |phase: Phase| phases().filter(|found| *found == phase).count();
    let refused =
        view.verdicts.iter().filter(|verdict| matches!(verdict.outcome, Outcome::Refused(_))).count();
    let counts = [
        (of_phase(Phase::Running), "running"),
        (of_phase(Phase::Pending), "waiting"),
        (of_phase(Phase::Succeeded), "completed"),
        (of_phase(Phase::Failed), "failed"),
        (refused, "refused"),
    ];
    let counts: Vec<_> = counts
        .into_iter()
        .filter(|(count, word)| *count > 0 || *word == "running")
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let runtime = match &view.runtime {
        RuntimeState::Unknown => "no word from the container runtime yet".to_owned(),
        RuntimeState::Up => "container runtime answers".to_owned(),
        RuntimeState::Down(reason) => format!("container runtime is down: {reason}"),
    };
    format!("pods: {}; {runtime}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::PodName;
    use crate::pod::state::PodState;
    use crate::pod::testing::pod_with;
    use crate::sync::view::PodView;
    use std::sync::Arc;

    #[test]
    fn tells_the_runtimes_state() {
        for (runtime, expect) in [
            (RuntimeState::Unknown, "pods: 0 running; no word from the container runtime yet"),
            (RuntimeState::Up, "pods: 0 running; container runtime answers"),
            (RuntimeState::Down("refused".into()), "pods: 0 running; container runtime is down: refused"),
        ] {
            assert_eq!(status_line(&View { runtime, ..View::default() }), expect);
        }
    }

    #[test]
    fn counts_pods_by_phase() {
        use Phase::*;
        for (phases, expect) in [
            (vec![], "pods: 0 running"),
            (vec![None], "pods: 0 running, 1 waiting"),
            (vec![Some(Running), Some(Running), Some(Pending), None], "pods: 2 running, 2 waiting"),
            (vec![Some(Succeeded), Some(Failed)], "pods: 0 running, 1 completed, 1 failed"),
        ] {
            let pods = phases.into_iter().enumerate().map(|(number, phase)| {
                let pod = Arc::new(pod_with(&format!("p{number}"), "u", "Always", &["main"]));
                let state = phase.map(|phase| Arc::new(PodState { phase, ..PodState::default() }));
                let name = PodName { namespace: "default".into(), name: format!("p{number}") };
                (name, PodView { pod, state, running: false, waits: None })
            });
            let view = View { pods: pods.collect(), runtime: RuntimeState::Up, ..View::default() };
            assert_eq!(status_line(&view), format!("{expect}; container runtime answers"));
        }
    }
}
