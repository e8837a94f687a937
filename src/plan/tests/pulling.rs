//! While an image is pulled: who waits for it, and who does not.

use super::*;
use crate::probe::threshold::{Kind, ProbeOutcome};

fn plan(pod: &Pod, containers: Vec<Container>, pulling: &str, dead: Option<&str>) -> Plan {
    let dead = dead.map(|id| ((ContainerId::from(id), Kind::Liveness), Some(ProbeOutcome::Failure)));
    let inputs = Inputs {
        history: History { pulling: [pulling.to_owned()].into(), ..History::default() },
        probes: dead.into_iter().collect(),
        ..Inputs::default()
    };
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers };
    plan_pod(&inputs.situation(&Want::Run(Arc::new(pod.clone())), &observed))
}

#[test]
fn the_first_turn_comes_after_those_before_and_nothing_else_waits() {
    let a = |state| container("u", 0, "a", 0, state);
    let b = |state| container("u", 0, "b", 0, state);
    let rows = [
        ("the first of all", vec![], "a", None, &[][..]),
        ("the one before is started", vec![], "b", None, &["start 0 #0 in u-s0 after 0"]),
        ("one after it is restarted", vec![b(exited(1, 50))], "a", None, &["start 1 #1 in u-s0 after 1"]),
        ("one before it is restarted", vec![a(exited(1, 50))], "b", None, &["start 0 #1 in u-s0 after 1"]),
        ("one that fell ill is ended", vec![a(running())], "b", Some("u-a-0"), &["stop u-a-0@7"]),
        ("to be restarted itself", vec![a(exited(1, 50)), b(running())], "a", None, &[]),
    ];
    for (name, containers, pulling, dead, expect) in rows {
        let pod = pod_with("p", "u", "Always", &["a", "b"]);
        let plan = plan(&pod, containers, pulling, dead);
        assert_eq!(words(&plan), expect, "{name}");
        assert_eq!(
            (plan.wake_in, plan.lifecycle),
            (None, PodLifecycle::Active),
            "{name}: the end of the pull is told"
        );
    }
}

#[test]
fn an_init_container_whose_image_is_pulled_holds_the_others_back() {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    pod.spec.init_containers = Some(pod_with("p", "u", "Always", &["setup"]).spec.containers);
    let plan = plan(&pod, vec![], "setup", None);
    assert_eq!((words(&plan), plan.init), (vec![], Init::Pending));
}

#[test]
fn what_failed_before_is_shown_until_the_pull_is_over() {
    let waiting = Waiting { reason: "ErrImagePull".into(), message: "no".into() };
    let failure = PullFailure::after(None, "image:1", secs(0), waiting);
    let mut history = History { pulling: ["a".to_owned()].into(), ..History::default() };
    history.pulls.insert("a".into(), failure);
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers: vec![] };
    let want = Want::Run(Arc::new(pod_with("p", "u", "Always", &["a"])));
    let plan = planned(&want, &observed, &history, at(1_000));
    assert_eq!(plan.waiting["a"].reason, "ImagePullBackOff");
    assert!(plan.steps.is_empty());
}

#[test]
fn images_of_the_first_to_start_are_seen_to_while_the_sandbox_is_made() {
    let mains = || pod_with("p", "u", "Always", &["a", "b"]);
    let with_init = || {
        let mut pod = mains();
        pod.spec.init_containers = Some(pod_with("p", "u", "Always", &["setup"]).spec.containers);
        pod
    };
    let main = |place| ContainerRef::Main(place);
    let rows = [
        ("all that start", mains(), "", vec![main(0), main(1)]),
        ("the one before is pulled: its sandbox is made, and the next waits", mains(), "a", vec![]),
        ("the one after is pulled", mains(), "b", vec![main(0)]),
        ("those after an init container come later", with_init(), "", vec![ContainerRef::Init(0)]),
        ("an init container is pulled", with_init(), "setup", vec![]),
    ];
    for (name, pod, pulling, images) in rows {
        let pulling = if pulling.is_empty() { BTreeSet::new() } else { [pulling.to_owned()].into() };
        let history = History { pulling, ..History::default() };
        let plan = planned(&Want::Run(Arc::new(pod)), &Observed::default(), &history, at(1_000));
        assert_eq!(plan.steps, [Step::CreateSandbox { attempt: 0, images }], "{name}");
    }
}
