//! postStart hooks: who waits for them, and what becomes of a failed one.

use k8s_openapi::api::core::v1::{Lifecycle, LifecycleHandler};

use super::*;

/// Containers `a`, `b` and `c`; `b` has a postStart hook.
fn pod(policy: &str) -> Pod {
    let mut pod = pod_with("p", "u", policy, &["a", "b", "c"]);
    let lifecycle = Lifecycle { post_start: Some(LifecycleHandler::default()), ..Lifecycle::default() };
    pod.spec.containers[1].lifecycle = Some(lifecycle);
    pod
}

fn plan(pod: Pod, containers: Vec<Container>, hook: Option<(&str, StartHook)>) -> Plan {
    let start_hooks = hook.map(|(id, hook)| (ContainerId::from(id), hook)).into_iter().collect();
    let inputs = Inputs { start_hooks, ..Inputs::default() };
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers };
    plan_pod(&inputs.situation(&Want::Run(Arc::new(pod)), &observed))
}

#[test]
fn containers_wait_for_the_hook_of_the_one_before() {
    let run = |name: &str| container("u", 0, name, 0, running());
    let dead = |name: &str| container("u", 0, name, 0, exited(1, 99));
    let hooking = || Some(("u-b-0", StartHook::Running));
    let failed = || Some(("u-b-0", StartHook::Failed("it failed".into())));
    const START_A: &str = "start 0 #0 in u-s0 after 0";
    const START_B: &str = "start 1 #0 in u-s0 after 0";
    const START_C: &str = "start 2 #0 in u-s0 after 0";
    type Row = (&'static str, Vec<Container>, Option<(&'static str, StartHook)>, &'static [&'static str]);
    let rows: [Row; 6] = [
        ("no further than the one with a hook", vec![], None, &[START_A, START_B]),
        ("while it runs", vec![run("a"), run("b")], hooking(), &[]),
        ("one before it is restarted", vec![dead("a"), run("b")], hooking(), &["start 0 #1 in u-s0 after 1"]),
        ("when it is done", vec![run("a"), run("b")], None, &[START_C]),
        ("a failed one holds up no other", vec![run("a"), run("b")], failed(), &["stop u-b-0@7", START_C]),
        ("it has died", vec![run("a"), dead("b")], None, &["start 1 #1 in u-s0 after 1"]),
    ];
    for (name, containers, hook, expect) in rows {
        let plan = plan(pod("Always"), containers, hook.clone());
        assert_eq!(words(&plan), expect, "{name}");
        let reason = plan.waiting.get("b").map(|waiting| waiting.reason.as_str());
        let expect = hook.map(|(_, hook)| match hook {
            StartHook::Running => "ContainerCreating",
            StartHook::Failed(_) => "PostStartHookError",
        });
        assert_eq!(reason, expect, "{name}");
    }
}

#[test]
fn a_sidecar_has_started_when_its_hook_is_done() {
    let mut with_sidecar = pod("Always");
    let mut sidecar = with_sidecar.spec.containers.remove(1);
    sidecar.restart_policy = Some("Always".into());
    with_sidecar.spec.init_containers = Some(vec![sidecar]);
    let proxy = || Container { sidecar: Some(0), ..container("u", 0, "b", 0, running()) };
    let hooking = Some(("u-b-0", StartHook::Running));
    let waiting = plan(with_sidecar.clone(), vec![proxy()], hooking.clone());
    assert_eq!((words(&waiting), waiting.init), (vec![], Init::Pending));
    let started = plan(with_sidecar.clone(), vec![proxy()], None);
    assert_eq!(started.steps.len(), 2, "{:?}", words(&started));
    // One that is restarted later holds up nobody.
    let beside = vec![proxy(), container("u", 0, "a", 0, running())];
    assert_eq!(words(&plan(with_sidecar, beside, hooking)), ["start 1 #0 in u-s0 after 0"]);
}
