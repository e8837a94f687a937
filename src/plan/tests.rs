//! Tables for every decision.

mod deadline;
mod ending;
mod gate;
mod hooks;
mod init;
mod lacks;
mod probes;
mod pulling;
mod replaced;
mod restarts;
mod simulation;
mod starts;
mod want;
mod wanted;

use super::*;
use crate::plan::order::{Lack, Opened};
use crate::pod::ConfigHash;
use crate::pod::observed::{Container, ContainerState, Exit, Sandbox};
use crate::pod::testing::pod_with;

const CRASH: Backoff = Backoff { base: Duration::from_secs(10), cap: Duration::from_secs(300) };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
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
        round: 0,
        sidecar: None,
        grace: Some(7),
        pre_stop: None,
        stop_signal: None,
        earlier_boot: false,
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

/// Plans with the back-off of these tests, when no hook runs and no end has begun.
fn planned(want: &Want, observed: &Observed, history: &History, now: Timestamp) -> Plan {
    plan_gated(want, observed, history, &Gate::Open(Opened::InOrder), now)
}

fn plan_gated(want: &Want, observed: &Observed, history: &History, gate: &Gate, now: Timestamp) -> Plan {
    plan_with(want, observed, history, gate, &Checkpoint::default(), now)
}

/// Plans with what is remembered.
fn plan_remembering(want: &Want, observed: &Observed, checkpoint: &Checkpoint, now: i64) -> Plan {
    plan_with(want, observed, &History::default(), &Gate::Open(Opened::InOrder), checkpoint, at(now))
}

fn plan_with(
    want: &Want,
    observed: &Observed,
    history: &History,
    gate: &Gate,
    checkpoint: &Checkpoint,
    now: Timestamp,
) -> Plan {
    let inputs = Inputs::default();
    let uptime = secs(u64::try_from(now.as_second()).unwrap());
    plan_pod(&Situation { history, gate, checkpoint, now, uptime, ..inputs.situation(want, observed) })
}

/// What a plan is made from besides the want and what was observed: nothing failed, and nothing is under way.
struct Inputs {
    history: History,
    gate: Gate,
    starts: Starts,
    lacks: Lacks,
    checkpoint: Checkpoint,
    start_hooks: BTreeMap<ContainerId, StartHook>,
    probes: Verdicts,
    terminations: Terminations,
    exits: BTreeMap<ContainerId, Since>,
    restarts: BTreeSet<ContainerId>,
}

impl Default for Inputs {
    fn default() -> Self {
        Self {
            history: History::default(),
            gate: Gate::Open(Opened::InOrder),
            starts: Starts::Allowed,
            lacks: Lacks::default(),
            checkpoint: Checkpoint::default(),
            start_hooks: BTreeMap::new(),
            probes: Verdicts::default(),
            terminations: Terminations::default(),
            exits: BTreeMap::new(),
            restarts: BTreeSet::new(),
        }
    }
}

impl Inputs {
    fn situation<'a>(&'a self, want: &'a Want, observed: &'a Observed) -> Situation<'a> {
        Situation {
            want,
            observed,
            history: &self.history,
            gate: &self.gate,
            starts: &self.starts,
            restarts: &self.restarts,
            lacks: &self.lacks,
            checkpoint: &self.checkpoint,
            start_hooks: &self.start_hooks,
            probes: &self.probes,
            terminations: &self.terminations,
            exits: &self.exits,
            active_since: None,
            crash_loop: CRASH,
            now: at(100),
            uptime: Duration::ZERO,
        }
    }
}

/// What is done about a container that is to end, in short words.
fn stop_in_words(stop: &StopContainer) -> String {
    match &stop.action {
        StopAction::PreStop { within, .. } => format!("{}:hook@{}", stop.id, within.as_secs()),
        StopAction::Wait => format!("{}:wait", stop.id),
        StopAction::End { grace, signal: Signalling::Runtime } => format!("{}@{grace}", stop.id),
        StopAction::End { grace, signal: Signalling::Send(signal) } => {
            format!("{}@{grace} by {signal}", stop.id)
        }
        StopAction::End { grace, signal: Signalling::Sent } => format!("{}@{grace} again", stop.id),
    }
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
                format!("stop {}", all.iter().map(stop_in_words).collect::<Vec<_>>().join(" "))
            }
            Step::StopSandbox(id) => format!("stop-sandbox {id}"),
            Step::RemoveContainer(c) => format!("rm {}", c.id),
            Step::RemoveInstance(uid) => format!("rm-instance {uid}"),
            Step::RemoveSandbox(id) => format!("rm-sandbox {id}"),
            Step::CreateSandbox { attempt, .. } => format!("create-sandbox {attempt}"),
            Step::StartContainer(s) => {
                format!("start {} #{} in {} after {}", place(s.container), s.attempt, s.sandbox, s.crashes)
            }
        })
        .collect()
}

#[test]
fn a_stop_ends_everything_and_starts_nothing() {
    let mut observed = Observed {
        sandboxes: vec![sandbox("a", 0, true), sandbox("b", 0, false)],
        containers: vec![
            container("a", 0, "main", 0, running()),
            container("b", 0, "main", 0, exited(0, 9)),
            Container { grace: None, ..container("a", 0, "side", 0, ContainerState::Unknown) },
        ],
    };
    let plan = planned(&Want::Stop { grace: None }, &observed, &History::default(), at(100));
    assert_eq!(words(&plan), ["stop a-main-0@7 a-side-0@30"]);
    for container in &mut observed.containers {
        container.state = exited(0, 99);
    }
    let plan = planned(&Want::Stop { grace: None }, &observed, &History::default(), at(100));
    assert_eq!(
        words(&plan),
        [
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
        planned(&Want::Stop { grace: None }, &Observed::default(), &History::default(), at(100)),
        Plan::default()
    );
}

#[test]
fn failures_wait_and_say_why() {
    let pod = Arc::new(pod_with("p", "u", "Always", &["main", "side"]));
    let waiting = Waiting { reason: "ErrImagePull".into(), message: "no such host".into() };
    let first = Failure::after(None, secs(95), Backoff::PULL, waiting.clone());
    let history = History { starts: [("main".to_owned(), first.clone())].into(), ..History::default() };
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers: vec![] };
    let plan = planned(&Want::Run(pod.clone()), &observed, &history, at(100));
    assert_eq!(words(&plan), ["start 1 #0 in u-s0 after 0"], "one that cannot start holds up no other");
    assert_eq!(plan.waiting["main"], waiting);
    assert_eq!(plan.wake_in, Some(Duration::from_secs(5)));

    let second = Failure::after(Some(&first), secs(105), Backoff::PULL, waiting.clone());
    assert_eq!(second.remaining(secs(105)), Some(Duration::from_secs(20)));

    // While a pull waits, the image is looked for, and what failed stays in sight.
    let mut failed = PullFailure::after(None, "image:1", secs(95), waiting.clone());
    for (looked, now, starts, wake_in) in [(95, 99, 1, Some(1)), (95, 100, 2, None), (100, 100, 1, Some(5))] {
        failed.looked = Some(Since::now(secs(looked)));
        let history = History { pulls: [("main".to_owned(), failed.clone())].into(), ..History::default() };
        let plan = planned(&Want::Run(pod.clone()), &observed, &history, at(now));
        assert_eq!((plan.steps.len(), plan.wake_in), (starts, wake_in.map(Duration::from_secs)), "{now}");
        assert!(plan.waiting["main"].message.ends_with("no such host"), "{plan:?}");
    }

    let history = History {
        sandbox: Some(Failure::after(None, secs(100), Backoff::STEP, waiting)),
        ..History::default()
    };
    let plan = planned(&Want::Run(pod.clone()), &Observed::default(), &history, at(100));
    assert_eq!((words(&plan), plan.wake_in), (vec![], Some(Duration::from_secs(1))));
    assert_eq!(
        plan.waiting["side"].message, "ErrImagePull: no such host",
        "the status says what holds it up"
    );
    assert_eq!(plan.sandbox, history.sandbox.as_ref().map(|failure| failure.waiting.clone()));
    let again = planned(&Want::Run(pod), &Observed::default(), &history, at(101));
    assert!(!again.steps.is_empty());
    assert_eq!((again.sandbox, again.waiting), (plan.sandbox, plan.waiting), "also while it is tried again");
}

#[test]
fn a_crash_loop_names_its_delay() {
    let pod = Arc::new(pod_with("p", "u", "Always", &["main"]));
    let crashed = Container { crashes: 2, ..container("u", 0, "main", 2, exited(1, 100)) };
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers: vec![crashed] };
    let plan = planned(&Want::Run(pod), &observed, &History::default(), at(100));
    assert_eq!(plan.waiting["main"].reason, "CrashLoopBackOff");
    assert_eq!(
        plan.waiting["main"].message,
        "back-off 20s restarting failed container=main pod=p_default(u)"
    );
}

#[test]
fn a_clock_that_is_set_delays_no_restart() {
    let pod = Arc::new(pod_with("p", "u", "Always", &["main"]));
    let crashed = Container { crashes: 2, ..container("u", 0, "main", 2, exited(1, 1_000)) };
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers: vec![crashed] };
    let want = Want::Run(pod);
    // Seen 5 s after it ended, at an uptime of 50 s; then the clock is set.
    let seen = Since::dated(at(1_000), at(1_005), secs(50));
    let exits = BTreeMap::from([(ContainerId::from("u-main-2"), seen)]);
    let inputs = Inputs { exits, ..Inputs::default() };
    let wait = |inputs: &Inputs, now, uptime| {
        plan_pod(&Situation { now, uptime: secs(uptime), ..inputs.situation(&want, &observed) }).wake_in
    };
    for now in [0, 1_006, 1_000_000] {
        assert_eq!(wait(&inputs, at(now), 51), Some(secs(14)), "{now}");
        assert_eq!(wait(&inputs, at(now), 65), None, "{now}");
    }
    assert_eq!(wait(&Inputs::default(), at(3), 51), None, "an end in the future is due");
}

#[test]
fn an_end_by_a_reboot_is_no_crash() {
    let pod = Arc::new(pod_with("p", "u", "Always", &["main"]));
    let ended = Container { crashes: 3, ..container("u", 0, "main", 3, exited(255, 99)) };
    for (earlier_boot, expect) in [(false, vec![]), (true, vec!["create-sandbox 1"])] {
        let containers = vec![Container { earlier_boot, ..ended.clone() }];
        let observed = Observed { sandboxes: vec![sandbox("u", 0, false)], containers };
        let plan = planned(&Want::Run(pod.clone()), &observed, &History::default(), at(100));
        let steps: Vec<_> = words(&plan).into_iter().filter(|step| step.starts_with("create")).collect();
        assert_eq!(steps, expect, "{earlier_boot}");
    }
    let containers = vec![Container { earlier_boot: true, ..ended }];
    let observed = Observed { sandboxes: vec![sandbox("u", 0, false), sandbox("u", 1, true)], containers };
    let plan = planned(&Want::Run(pod), &observed, &History::default(), at(100));
    assert_eq!(words(&plan)[0], "start 0 #4 in u-s1 after 0", "the count begins anew");
}

#[test]
fn sandboxes_that_die_at_once_wait_longer_each_time() {
    let mut made = MadeSandbox::after(None, secs(0));
    let (mut uptime, mut waits) = (0, Vec::new());
    for _ in 0..9 {
        let history = History { made: Some(made), ..History::default() };
        let wait = sandbox::remaining(&history, secs(uptime)).unwrap_or_default().as_secs();
        waits.push(wait);
        uptime += wait;
        made = MadeSandbox::after(Some(&made), secs(uptime));
    }
    assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
    let history =
        History { made: Some(MadeSandbox::after(Some(&made), secs(uptime + 100))), ..History::default() };
    assert_eq!(sandbox::remaining(&history, secs(uptime + 100)), None, "it had lived long");

    let first = MadeSandbox::after(None, secs(0));
    for (lived, wait) in [(9, Some(secs(1))), (10, None)] {
        let made = Some(MadeSandbox::after(Some(&first), secs(lived)));
        let history = History { made, ..History::default() };
        assert_eq!(sandbox::remaining(&history, secs(lived)), wait, "it had lived for {lived} s");
    }
}

#[test]
fn a_network_that_is_not_released_holds_back_its_successor_twice_at_most() {
    let want = Want::Run(Arc::new(pod_with("p", "u", "Always", &["main"])));
    let dead = sandbox("u", 0, false);
    let gone = Container { earlier_boot: true, ..container("u", 0, "main", 0, exited(255, 99)) };
    for (failures, expect) in [
        (0, vec!["stop-sandbox u-s0", "create-sandbox 1"]),
        (1, vec!["stop-sandbox u-s0", "create-sandbox 1"]),
        (2, vec!["create-sandbox 1"]),
        (9, vec!["create-sandbox 1"]),
    ] {
        let unreleased = [(dead.id.clone(), failures)].into_iter().filter(|(_, n)| *n > 0).collect();
        let history = History { unreleased, ..History::default() };
        let observed = Observed { sandboxes: vec![dead.clone()], containers: vec![gone.clone()] };
        assert_eq!(words(&planned(&want, &observed, &history, at(100))), expect, "{failures}");
        // Once the successor needs nothing, it is tried again.
        let mut next = container("u", 1, "main", 1, running());
        next.hash = gone.hash.clone();
        let observed = Observed {
            sandboxes: vec![dead.clone(), sandbox("u", 1, true)],
            containers: vec![gone.clone(), next],
        };
        let late = if failures == 0 { vec![] } else { vec!["stop-sandbox u-s0"] };
        assert_eq!(words(&planned(&want, &observed, &history, at(101))), late, "{failures}");
    }
}
