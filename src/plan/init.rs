//! The init containers of the wanted instance: one after the other, sidecars among them.
//!
//! A sandbox that was made anew is initialised anew. Once a container of the pod was made in a sandbox, that sandbox is
//! initialised, whatever became of the init containers since.

use super::Init;
use super::containers::ContainerJudge;
use super::needs::{ContainerNeed, Needs};
use crate::pod::observed::{Container, ContainerState};
use crate::pod::restart::{AfterExit, RestartPolicy, after_exit};
use crate::pod::{ContainerRef, is_sidecar};
use crate::probe::threshold::Kind;

/// Notes what the init containers need, up to the one that holds the others back.
pub(super) fn plan_init<'a>(judge: &ContainerJudge<'a>, needs: &mut Needs<'a>) -> Init {
    let pod = judge.pod;
    let is_main = |c: &&Container| pod.spec.containers.iter().any(|spec| spec.name == c.name);
    let is_of_round = |c: &Container| c.round == judge.round.number;
    let own = judge.observed.own(pod).filter(|c| is_of_round(c));
    let initialised = judge.ready.is_some_and(|sandbox| own.filter(is_main).any(|c| c.sandbox == *sandbox));

    for (place, spec) in pod.spec.init_containers.iter().flatten().enumerate() {
        let found = judge.observed.containers_of(pod, &spec.name);
        let need = if is_sidecar(spec) {
            judge.need(spec, &found)
        } else if initialised {
            ContainerNeed::Done
        } else {
            match found.first().filter(|c| is_of_round(c)).map(|newest| (newest, &newest.state)) {
                Some((newest, ContainerState::Exited(exit))) if exit.code == 0 => {
                    if judge.ready == Some(&newest.sandbox) {
                        ContainerNeed::Done
                    } else {
                        judge.start(spec, judge.next_attempt(spec), 0)
                    }
                }
                Some((newest, ContainerState::Exited(exit)))
                    if after_exit(&pod.spec, spec, exit.code) == AfterExit::Stays
                        && !judge.is_spent(spec, newest) =>
                {
                    return Init::Failed;
                }
                // Nobody knows how it ended; that is a failure.
                Some((newest, ContainerState::Unknown))
                    if RestartPolicy::of(&pod.spec, spec) == RestartPolicy::Never
                        && !judge.is_spent(spec, newest) =>
                {
                    return Init::Failed;
                }
                // Its sandbox died: it is being stopped.
                Some((newest, ContainerState::Running { .. })) if judge.ready != Some(&newest.sandbox) => {
                    judge.start(spec, judge.next_attempt(spec), 0)
                }
                _ => judge.go_on(spec, judge.need(spec, &found)),
            }
        };
        let holds_back = match &need {
            ContainerNeed::Done | ContainerNeed::Spent { .. } => false,
            // A sidecar that runs has started; an ordinary one that runs is not done.
            ContainerNeed::Nothing => !is_sidecar(spec),
            ContainerNeed::Start { .. }
            | ContainerNeed::Wait(..)
            | ContainerNeed::Pulling(_)
            | ContainerNeed::Lacks(_)
            | ContainerNeed::Replace
            | ContainerNeed::Starting
            | ContainerNeed::Fail(_)
            | ContainerNeed::NotStarted => !initialised,
            // A sidecar that has started holds nobody back, whether it lives or not.
            ContainerNeed::Unhealthy { probe, .. } => {
                (*probe == Kind::Startup || !is_sidecar(spec)) && !initialised
            }
        };
        needs.note(ContainerRef::Init(place), &spec.name, found, need);
        if holds_back {
            return Init::Pending;
        }
    }
    Init::Passed
}
