//! The init containers of the wanted instance: one after the other, sidecars among them.
//!
//! A sandbox that was made anew is initialised anew. Once a container of the pod was made in a sandbox, that sandbox is
//! initialised, whatever became of the init containers since.

use super::Init;
use super::containers::{Judge, Need, Needs, RestartPolicy};
use crate::observed::Container;
use crate::pod::{ContainerRef, is_sidecar};

/// Notes what the init containers need, up to the one that holds the others back.
pub(super) fn plan_init<'a>(judge: &Judge<'a>, policy: RestartPolicy, needs: &mut Needs<'a>) -> Init {
    let pod = judge.pod;
    let is_main = |c: &&Container| pod.spec.containers.iter().any(|spec| spec.name == c.name);
    let own = judge.observed.containers.iter().filter(|c| c.uid == pod.uid);
    let initialised = judge.ready.is_some_and(|sandbox| own.filter(is_main).any(|c| c.sandbox == *sandbox));

    for (place, spec) in pod.spec.init_containers.iter().flatten().enumerate() {
        let found = judge.observed.containers_of(&pod.uid, &spec.name);
        let need = if is_sidecar(spec) {
            judge.need(spec, &found, RestartPolicy::Always)
        } else if initialised {
            Need::Done
        } else {
            match found.first().map(|newest| (newest, newest.exit())) {
                Some((newest, Some(exit))) if exit.code == 0 => {
                    if judge.ready == Some(&newest.sandbox) {
                        Need::Done
                    } else {
                        judge.start(spec, newest.attempt.saturating_add(1), 0)
                    }
                }
                Some((_, Some(exit))) if !policy.restarts_after(exit) => return Init::Failed,
                _ => judge.need(spec, &found, RestartPolicy::OnFailure),
            }
        };
        let holds_back = match &need {
            Need::Done => false,
            // A sidecar that runs has started; an ordinary one that runs is not done.
            Need::Nothing => !is_sidecar(spec),
            Need::Start { .. } | Need::Wait(..) | Need::Replace => !initialised,
        };
        needs.note(ContainerRef::Init(place), &spec.name, found, need);
        if holds_back {
            return Init::Pending;
        }
    }
    Init::Passed
}
