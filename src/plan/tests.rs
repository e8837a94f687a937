//! Tables for every decision.

mod init;
mod simulation;

use super::*;
use crate::observed::{Container, ContainerState, Exit, Sandbox};
use crate::pod::ConfigHash;
use crate::pod::testing::pod_with;

const CRASH: Backoff = Backoff { base: Duration::from_secs(10), cap: Duration::from_secs(300) };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn sandbox(uid: &str, attempt: u32, ready: bool) -> Sandbox {
    Sandbox {
        id: SandboxId(format!("{uid}-s{attempt}")),
        uid: PodUid::from(uid),
        hash: Some(ConfigHash::from(uid)),
        attempt,
        created_at: at(i64::from(attempt)),
        ready,
        ips: vec![],
    }
}

fn container(uid: &str, sandbox: u32, name: &str, attempt: u32, state: ContainerState) -> Container {
    Container {
        id: ContainerId(format!("{uid}-{name}-{attempt}")),
        sandbox: SandboxId(format!("{uid}-s{sandbox}")),
        uid: PodUid::from(uid),
        name: name.into(),
        attempt,
        hash: format!("hash-{name}"),
        crashes: 0,
        sidecar: None,
        grace: Some(7),
        image: "image:1".into(),
        image_ref: "sha256:1".into(),
        created_at: at(i64::from(attempt)),
        state,
    }
}

fn running() -> ContainerState {
    ContainerState::Running { started_at: at(50) }
}

fn exited(code: i32, finished: i64) -> ContainerState {
    ContainerState::Exited(Exit {
        started_at: Some(at(finished - 1)),
        finished_at: at(finished),
        code,
        reason: "Error".into(),
        message: String::new(),
    })
}

/// `i0` for the first init container, `0` for the first container.
fn place(container: ContainerRef) -> String {
    match container {
        ContainerRef::Init(place) => format!("i{place}"),
        ContainerRef::Main(place) => place.to_string(),
    }
}

/// A plan's steps in short words.
fn words(plan: &Plan) -> Vec<String> {
    plan.steps
        .iter()
        .map(|step| match step {
            Step::StopContainers(all) => {
                let each: Vec<_> = all.iter().map(|c| format!("{}@{}", c.id, c.grace)).collect();
                format!("stop {}", each.join(" "))
            }
            Step::StopSandbox(id) => format!("stop-sandbox {id}"),
            Step::RemoveContainer(c) => format!("rm {}", c.id),
            Step::RemoveInstance(uid) => format!("rm-instance {uid}"),
            Step::RemoveSandbox(id) => format!("rm-sandbox {id}"),
            Step::CreateSandbox { attempt } => format!("create-sandbox {attempt}"),
            Step::StartContainer(s) => {
                format!("start {} #{} in {} after {}", place(s.container), s.attempt, s.sandbox, s.crashes)
            }
        })
        .collect()
}

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
            expect: &["stop old-main-0@7 old-side-0@7", "stop-sandbox old-s0"],
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
            expect: &["stop u-main-0@7", "stop-sandbox u-s0"],
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
        let plan = plan_pod(&Want::Run(pod), &observed, &History::default(), CRASH, at(100));
        assert_eq!(words(&plan), case.expect, "{}", case.name);
        assert_eq!(plan.wake_in.map(|d| d.as_secs()), case.wake, "{}: when to look again", case.name);
    }
}

#[test]
fn a_stop_ends_everything_and_starts_nothing() {
    let observed = Observed {
        sandboxes: vec![sandbox("a", 0, true), sandbox("b", 0, false)],
        containers: vec![
            container("a", 0, "main", 0, running()),
            container("b", 0, "main", 0, exited(0, 9)),
            Container { grace: None, ..container("a", 0, "side", 0, ContainerState::Unknown) },
        ],
    };
    let plan = plan_pod(&Want::Stop, &observed, &History::default(), CRASH, at(100));
    assert_eq!(
        words(&plan),
        [
            "stop a-main-0@7 a-side-0@30",
            "stop-sandbox a-s0",
            "stop-sandbox b-s0",
            "rm a-main-0",
            "rm b-main-0",
            "rm a-side-0",
            "rm-instance a",
            "rm-instance b",
            "rm-sandbox a-s0",
            "rm-sandbox b-s0"
        ]
    );
    assert_eq!(
        plan_pod(&Want::Stop, &Observed::default(), &History::default(), CRASH, at(100)),
        Plan::default()
    );
}

#[test]
fn failures_wait_and_say_why() {
    let pod = Arc::new(pod_with("p", "u", "Always", &["main", "side"]));
    let waiting = Waiting { reason: "ErrImagePull".into(), message: "no such host".into() };
    let first = Failure::after(None, at(95), Backoff::PULL, waiting.clone());
    let history = History { starts: [("main".to_owned(), first.clone())].into(), ..History::default() };
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers: vec![] };
    let plan = plan_pod(&Want::Run(pod.clone()), &observed, &history, CRASH, at(100));
    assert_eq!(words(&plan), ["start 1 #0 in u-s0 after 0"], "one that cannot start holds up no other");
    assert_eq!(plan.waiting["main"], waiting);
    assert_eq!(plan.wake_in, Some(Duration::from_secs(5)));

    let second = Failure::after(Some(&first), at(105), Backoff::PULL, waiting.clone());
    assert_eq!(second.remaining(at(105)), Some(Duration::from_secs(20)));

    let history = History {
        sandbox: Some(Failure::after(None, at(100), Backoff::STEP, waiting)),
        ..History::default()
    };
    let plan = plan_pod(&Want::Run(pod), &Observed::default(), &history, CRASH, at(100));
    assert_eq!((words(&plan), plan.wake_in), (vec![], Some(Duration::from_secs(1))));
    assert_eq!(
        plan.waiting["side"].message, "ErrImagePull: no such host",
        "the status says what holds it up"
    );
}

#[test]
fn a_crash_loop_names_its_delay() {
    let pod = Arc::new(pod_with("p", "u", "Always", &["main"]));
    let crashed = Container { crashes: 2, ..container("u", 0, "main", 2, exited(1, 100)) };
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers: vec![crashed] };
    let plan = plan_pod(&Want::Run(pod), &observed, &History::default(), CRASH, at(100));
    assert_eq!(plan.waiting["main"].reason, "CrashLoopBackOff");
    assert_eq!(
        plan.waiting["main"].message,
        "back-off 20s restarting failed container=main pod=p_default(u)"
    );
}
