//! Instances that are to end as Failed.

use super::*;
use crate::pod::state::{Failed, FailedReason};
use crate::sync::message::EndPod;

fn end(pod: &Arc<Pod>) -> Event {
    let failed = Failed { reason: FailedReason::Evicted, message: "too much".into() };
    Event::End(EndPod { pod: pod.name.clone(), uid: pod.uid.clone(), failed, grace: Some(1) })
}

fn wants(commands: &[Command]) -> Vec<String> {
    let wants = commands.iter().map(|command| match command {
        Command::Tell(_, Desired { want: Want::Run(_), .. }) => "run".to_owned(),
        Command::Tell(_, Desired { want: Want::End { failed, grace, .. }, .. }) => {
            format!("end {} {grace:?}", failed.reason.as_str())
        }
        Command::Tell(_, Desired { want: Want::Stop { .. }, .. }) => "stop".to_owned(),
        Command::Dismiss(_) => "dismiss".to_owned(),
    });
    wants.collect()
}

#[test]
fn only_the_wanted_instance_is_ended_and_an_edit_runs_again() {
    let mut state = SyncLoop::new([Source::File]);
    let (old, new) = (wanted("a", "1"), wanted("a", "2"));
    assert_eq!(wants(&state.handle(end(&old))), [""; 0], "nobody knows it");
    assert_eq!(wants(&state.handle(config(&[&old], true))), ["run"]);
    assert_eq!(wants(&state.handle(end(&new))), [""; 0], "another instance");
    assert_eq!(wants(&state.handle(end(&old))), ["end Evicted Some(1)"]);
    assert_eq!(wants(&state.handle(end(&old))), [""; 0], "it ends already");
    assert_eq!(wants(&state.handle(config(&[&old], true))), [""; 0], "the source says nothing new");
    assert_eq!(wants(&state.handle(config(&[&new], true))), ["run"]);
    assert_eq!(wants(&state.handle(end(&old))), [""; 0], "too late");
    assert_eq!(wants(&state.handle(config(&[], true))), ["stop"]);
    assert_eq!(wants(&state.handle(end(&new))), [""; 0]);
}

#[test]
fn containers_of_the_wanted_instance_are_replaced() {
    let mut state = SyncLoop::new([Source::File]);
    let pod = wanted("a", "1");
    let restart = |uid: &PodUid, id: &str| Event::Restart {
        pod: name("a"),
        uid: uid.clone(),
        containers: [ContainerId::from(id)].into(),
    };
    assert_eq!(state.handle(restart(&pod.uid, "c1")), []);
    state.handle(config(&[&pod], true));
    assert_eq!(state.handle(restart(&PodUid::from("other"), "c1")), []);
    state.handle(synced(&pod, &[("c1", true)]));
    let restarts = |commands: Vec<Command>| match commands.as_slice() {
        [Command::Tell(_, desired)] => desired.restarts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(restarts(state.handle(restart(&pod.uid, "c1"))), ["c1"]);
    // Told again with whatever else is told, until another order comes and it is gone.
    assert_eq!(restarts(state.handle(Event::Probe(name("a")))), ["c1"]);
    state.handle(synced(&pod, &[("c2", true)]));
    assert_eq!(restarts(state.handle(restart(&pod.uid, "c2"))), ["c2"]);
}

#[test]
fn a_pod_is_replaced_with_all_that_runs_if_it_is_wanted() {
    let mut state = SyncLoop::new([Source::File]);
    let pod = wanted("a", "1");
    let ask = |state: &mut SyncLoop| {
        let (reply, answer) = async_channel::bounded(1);
        let commands = state.handle(Event::RestartPod(name("a"), reply));
        let told = commands.iter().map(|command| match command {
            Command::Tell(_, desired) => desired.restarts.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        });
        (answer.try_recv(), told.collect::<Vec<Vec<_>>>())
    };
    assert_eq!(ask(&mut state), (Ok(false), vec![]), "nobody knows it");
    state.handle(config(&[&pod], true));
    state.handle(synced(&pod, &[("s1", true), ("c1", true)]));
    assert_eq!(ask(&mut state), (Ok(true), vec![vec!["c1".to_owned(), "s1".to_owned()]]));
    state.handle(config(&[], true));
    assert_eq!(ask(&mut state).0, Ok(false), "it ends");
}
