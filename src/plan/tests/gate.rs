//! Pods that wait for others.

use super::*;

#[test]
fn a_pod_waits_for_others_before_it_starts() {
    let mut pod = pod_with("p", "u", "OnFailure", &["main", "side"]);
    let setup = k8s_openapi::api::core::v1::Container { name: "setup".into(), ..Default::default() };
    pod.spec.init_containers = Some(vec![setup]);
    let want = Want::Run(Arc::new(pod));
    let unmet = vec![Unmet { name: "db".into(), lack: Lack::NotReady }];
    let shut = Gate::Shut { unmet, left: Duration::from_secs(6) };
    let history = History::default();
    let waits = |observed: &Observed| {
        let plan = plan_gated(&want, observed, &history, &shut, at(100));
        let reasons: BTreeMap<_, _> =
            plan.waiting.iter().map(|(k, w)| (k.clone(), w.reason.clone())).collect();
        (words(&plan), plan.wake_in.map(|left| left.as_secs()), reasons)
    };
    let all: BTreeMap<_, _> =
        ["main", "setup", "side"].map(|name| (name.to_owned(), "WaitingForPods".to_owned())).into();

    let nothing = Observed::default();
    assert_eq!(waits(&nothing), (vec![], Some(6), all.clone()));
    let plan = plan_gated(&want, &nothing, &history, &shut, at(100));
    assert_eq!(plan.waiting["main"].message, "starts after db (not ready), or after 300s");
    assert_eq!(plan.init, Init::Pending);

    let old = Observed {
        sandboxes: vec![sandbox("old", 0, true)],
        containers: vec![container("old", 0, "main", 0, running())],
    };
    assert_eq!(waits(&old), (vec![], Some(6), all.clone()), "the version before runs on");
    assert_eq!(plan_gated(&want, &old, &history, &shut, at(100)).init, Init::Pending);
    let without_init = Want::Run(Arc::new(pod_with("p", "u", "OnFailure", &["main"])));
    assert_eq!(plan_gated(&without_init, &old, &history, &shut, at(100)).init, Init::Passed);
    let begun = Checkpoint { terminating_sandboxes: ["old-s0".into()].into(), ..Checkpoint::default() };
    let plan = plan_with(&want, &old, &history, &shut, &begun, at(100));
    assert!(!plan.steps.is_empty(), "unless its end was begun, by an earlier agent too");
    let dead = Observed { sandboxes: vec![sandbox("old", 0, false)], containers: vec![] };
    let swept = ["stop-sandbox old-s0", "rm-instance old", "rm-sandbox old-s0"].map(str::to_owned).to_vec();
    assert_eq!(waits(&dead), (swept, Some(6), all), "what is dead may go");
    let done = |name| container("u", 0, name, 0, exited(0, 99));
    let done = Observed {
        sandboxes: vec![sandbox("u", 0, false)],
        containers: vec![done("setup"), done("main"), done("side")],
    };
    assert_eq!(waits(&done), (vec![], None, BTreeMap::new()), "what is done waits for nobody");
}

#[test]
fn what_ended_for_good_does_not_wait_with_the_others() {
    let want = Want::Run(Arc::new(pod_with("p", "u", "OnFailure", &["failed", "done", "new"])));
    let ended = |name, code| container("u", 0, name, 0, exited(code, 90));
    let observed = Observed {
        sandboxes: vec![sandbox("u", 0, false)],
        containers: vec![ended("failed", 1), ended("done", 0)],
    };
    let unmet = vec![Unmet { name: "db".into(), lack: Lack::Absent }];
    let shut = Gate::Shut { unmet, left: secs(6) };
    let plan = plan_gated(&want, &observed, &History::default(), &shut, at(100));
    assert_eq!(plan.waiting.keys().collect::<Vec<_>>(), ["failed", "new"]);
}
