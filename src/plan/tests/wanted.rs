//! What a wanted pod needs, from every state that it can be found in.

use super::*;

struct Case {
    name: &'static str,
    policy: &'static str,
    sandboxes: Vec<Sandbox>,
    containers: Vec<Container>,
    expect: &'static [&'static str],
    wake: Option<u64>,
}

#[test]
fn what_a_wanted_pod_needs() {
    let dead = |attempt| sandbox("u", attempt, false);
    let up = |attempt| sandbox("u", attempt, true);
    let main = |sandbox, attempt, state| container("u", sandbox, "main", attempt, state);
    let cases = [
        Case {
            name: "nothing yet",
            policy: "Always",
            sandboxes: vec![],
            containers: vec![],
            expect: &["create-sandbox 0"],
            wake: None,
        },
        Case {
            name: "an empty sandbox",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![],
            expect: &["start 0 #0 in u-s0 after 0"],
            wake: None,
        },
        Case {
            name: "at rest",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![main(0, 0, running())],
            expect: &[],
            wake: None,
        },
        Case {
            name: "the first death restarts at once",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![main(0, 0, exited(1, 100))],
            expect: &["start 0 #1 in u-s0 after 1"],
            wake: None,
        },
        Case {
            name: "the second waits ten seconds",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![Container { crashes: 1, ..main(0, 1, exited(1, 96)) }],
            expect: &[],
            wake: Some(6),
        },
        Case {
            name: "OnFailure, failed",
            policy: "OnFailure",
            sandboxes: vec![up(0)],
            containers: vec![main(0, 0, exited(3, 99))],
            expect: &["start 0 #1 in u-s0 after 1"],
            wake: None,
        },
        Case {
            name: "OnFailure, done: the sandbox may go",
            policy: "OnFailure",
            sandboxes: vec![up(0)],
            containers: vec![main(0, 0, exited(0, 99))],
            expect: &["stop-sandbox u-s0"],
            wake: None,
        },
        Case {
            name: "OnFailure, done, and stays so",
            policy: "OnFailure",
            sandboxes: vec![dead(0)],
            containers: vec![main(0, 0, exited(0, 99))],
            expect: &[],
            wake: None,
        },
        Case {
            name: "Never, failed",
            policy: "Never",
            sandboxes: vec![dead(0)],
            containers: vec![main(0, 0, exited(3, 99))],
            expect: &[],
            wake: None,
        },
        Case {
            name: "the sandbox died under its container",
            policy: "Always",
            sandboxes: vec![dead(0)],
            containers: vec![main(0, 0, running())],
            expect: &["stop u-main-0@7"],
            wake: None,
        },
        Case {
            name: "the sandbox died, all is quiet",
            policy: "Always",
            sandboxes: vec![dead(0)],
            containers: vec![main(0, 0, exited(137, 99))],
            expect: &["stop-sandbox u-s0", "create-sandbox 1"],
            wake: None,
        },
        Case {
            name: "the successor counts on",
            policy: "Always",
            sandboxes: vec![dead(0), up(1)],
            containers: vec![main(0, 0, exited(137, 99))],
            expect: &["start 0 #1 in u-s1 after 1"],
            wake: None,
        },
        Case {
            name: "made and never started",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![main(0, 0, ContainerState::Created)],
            expect: &["rm u-main-0", "start 0 #0 in u-s0 after 0"],
            wake: None,
        },
        Case {
            name: "lost by the runtime",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![main(0, 2, ContainerState::Unknown)],
            expect: &["rm u-main-2", "start 0 #3 in u-s0 after 0"],
            wake: None,
        },
        Case {
            name: "a container as it is not wanted any more",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![Container { hash: "old".into(), ..main(0, 0, running()) }],
            expect: &["stop u-main-0@7"],
            wake: None,
        },
        Case {
            name: "one that ended as it is not wanted any more: its policy and its crashes do not count",
            policy: "Never",
            sandboxes: vec![up(0)],
            containers: vec![Container { hash: "old".into(), crashes: 4, ..main(0, 4, exited(1, 99)) }],
            expect: &["start 0 #5 in u-s0 after 0"],
            wake: None,
        },
        Case {
            name: "a container that the manifest does not name",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![main(0, 0, running()), container("u", 0, "unnamed", 0, running())],
            expect: &["stop u-unnamed-0@7"],
            wake: None,
        },
        Case {
            name: "two containers of one name: the newer one stays",
            policy: "Always",
            sandboxes: vec![up(0)],
            containers: vec![main(0, 0, running()), main(0, 1, running())],
            expect: &["stop u-main-0@7"],
            wake: None,
        },
        Case {
            name: "two sandboxes: the newer one stays",
            policy: "Always",
            sandboxes: vec![up(0), up(1)],
            containers: vec![main(1, 0, running())],
            expect: &["stop-sandbox u-s0"],
            wake: None,
        },
        Case {
            name: "old attempts are tidied away, the last one kept",
            policy: "Always",
            sandboxes: vec![dead(0), up(1)],
            containers: vec![
                main(1, 3, running()),
                main(1, 2, exited(1, 98)),
                main(0, 1, exited(1, 97)),
                main(0, 0, exited(1, 96)),
            ],
            expect: &["rm u-main-1", "rm u-main-0", "rm-sandbox u-s0"],
            wake: None,
        },
        Case {
            name: "another instance is alive: it ends first",
            policy: "Always",
            sandboxes: vec![sandbox("old", 0, true)],
            containers: vec![
                container("old", 0, "main", 0, running()),
                container("old", 0, "side", 0, running()),
            ],
            expect: &["stop old-main-0@7 old-side-0@7"],
            wake: None,
        },
        Case {
            name: "another instance is quiet: the successor starts before the sweep",
            policy: "Always",
            sandboxes: vec![sandbox("old", 0, false)],
            containers: vec![container("old", 0, "main", 0, exited(0, 99))],
            expect: &["stop-sandbox old-s0", "create-sandbox 0"],
            wake: None,
        },
        Case {
            name: "the sweep",
            policy: "Always",
            sandboxes: vec![sandbox("old", 0, false), up(0)],
            containers: vec![container("old", 0, "main", 0, exited(0, 99)), main(0, 0, running())],
            expect: &["stop-sandbox old-s0", "rm old-main-0", "rm-instance old", "rm-sandbox old-s0"],
            wake: None,
        },
        Case {
            name: "a fixed uid with another manifest is another instance",
            policy: "Always",
            sandboxes: vec![Sandbox { hash: Some(ConfigHash::from("before")), ..up(0) }],
            containers: vec![main(0, 0, running())],
            expect: &["stop u-main-0@7"],
            wake: None,
        },
        Case {
            name: "a fixed uid: the next sandbox takes another name",
            policy: "Always",
            sandboxes: vec![Sandbox { hash: Some(ConfigHash::from("before")), ..dead(0) }],
            containers: vec![main(0, 0, exited(0, 99))],
            expect: &["stop-sandbox u-s0", "create-sandbox 1"],
            wake: None,
        },
        Case {
            name: "a fixed uid: what the version before completed is still to be done, Never",
            policy: "Never",
            sandboxes: vec![Sandbox { hash: Some(ConfigHash::from("before")), ..dead(0) }],
            containers: vec![main(0, 0, exited(0, 99))],
            expect: &["stop-sandbox u-s0", "create-sandbox 1"],
            wake: None,
        },
        Case {
            name: "a fixed uid: what the version before completed is still to be done, OnFailure",
            policy: "OnFailure",
            sandboxes: vec![Sandbox { hash: Some(ConfigHash::from("before")), ..dead(0) }, up(1)],
            containers: vec![main(0, 3, exited(0, 99))],
            expect: &["start 0 #4 in u-s1 after 0"],
            wake: None,
        },
        Case {
            name: "a fixed uid: the crashes of the version before are forgiven, its attempts counted",
            policy: "Always",
            sandboxes: vec![Sandbox { hash: Some(ConfigHash::from("before")), ..dead(0) }, up(1)],
            containers: vec![Container { crashes: 4, ..main(0, 4, exited(1, 99)) }],
            expect: &["start 0 #5 in u-s1 after 0"],
            wake: None,
        },
        Case {
            name: "a fixed uid: a dead sandbox of another version does not hide the one that is up",
            policy: "Always",
            sandboxes: vec![up(0), Sandbox { hash: Some(ConfigHash::from("before")), ..dead(1) }],
            containers: vec![main(0, 0, running())],
            expect: &["stop-sandbox u-s1", "rm-sandbox u-s1"],
            wake: None,
        },
        Case {
            name: "a fixed uid: the sweep spares the shared directories",
            policy: "Always",
            sandboxes: vec![Sandbox { hash: Some(ConfigHash::from("before")), ..dead(0) }, up(1)],
            containers: vec![main(0, 0, exited(0, 99)), main(1, 1, running())],
            expect: &["stop-sandbox u-s0", "rm u-main-0", "rm-sandbox u-s0"],
            wake: None,
        },
    ];
    for case in cases {
        let observed = Observed { sandboxes: case.sandboxes, containers: case.containers };
        let pod = Arc::new(pod_with("p", "u", case.policy, &["main"]));
        let plan = planned(&Want::Run(pod), &observed, &History::default(), at(100));
        assert_eq!(words(&plan), case.expect, "{}", case.name);
        assert_eq!(plan.wake_in.map(|d| d.as_secs()), case.wake, "{}: when to look again", case.name);
    }
}

#[test]
fn only_what_runs_outside_the_current_sandbox_is_killed_with_its_sandbox() {
    let want = Want::Run(Arc::new(pod_with("p", "u", "Always", &["main", "side"])));
    let observed = Observed {
        sandboxes: vec![sandbox("u", 0, false), sandbox("u", 1, true)],
        containers: vec![container("u", 0, "main", 0, running()), container("u", 1, "side", 0, running())],
    };
    let plan = planned(&want, &observed, &History::default(), at(100));
    assert_eq!(words(&plan), ["stop u-main-0@7"]);
    assert_eq!(plan.killed, BTreeSet::from(["u-main-0".into()]));
}
