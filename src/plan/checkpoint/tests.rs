//! What is remembered, for how long, and what it is worth.

use super::*;
use crate::pod::state::{
    ConditionReason, ConditionType, ContainerSummary, CreatedContainer, FailedReason, Termination, Waiting,
};
use crate::pod::testing::{container, pod};

/// The state of a pod with these containers; an empty id stands for one that was not created.
fn state(phase: Phase, containers: &[&str]) -> Arc<PodState> {
    let each = containers.iter().map(|id| ContainerSummary {
        name: "main".into(),
        created: (!id.is_empty()).then(|| CreatedContainer {
            id: (*id).into(),
            image: "image:1".into(),
            image_ref: "sha256:1".into(),
        }),
        state: RunState::Waiting(Waiting { reason: "ContainerCreating".into(), message: String::new() }),
        last_termination: None,
        restarts: 3,
        started: false,
        ready: false,
    });
    Arc::new(PodState { phase, containers: each.collect(), ..PodState::default() })
}

fn checkpoint(life: Life, ended: &[&str]) -> Checkpoint {
    let mut checkpoint = Checkpoint {
        terminating_sandboxes: ended.iter().map(|id| SandboxId::from(*id)).collect(),
        ..Checkpoint::default()
    };
    checkpoint.note(&pod("p", "u"), life, state(Phase::Succeeded, &["one", "", "two"]));
    checkpoint
}

#[test]
fn it_is_one_instances_alone() {
    let (same, other) = (pod("p", "u"), pod("p", "v"));
    let mut checkpoint = checkpoint(Life::Completed, &[]);
    assert!(checkpoint.has_completed(&same));
    assert!(!checkpoint.has_completed(&other));
    checkpoint.turn_to(Some(&same));
    assert!(checkpoint.has_completed(&same));
    checkpoint.turn_to(Some(&other));
    assert!(checkpoint.is_empty(), "an edited pod is another instance");
    checkpoint.note(&same, Life::Completed, state(Phase::Failed, &[]));
    checkpoint.turn_to(None);
    assert!(checkpoint.is_empty(), "nothing is remembered of a removed pod");
}

#[test]
fn an_edited_pod_with_a_fixed_uid_is_another_instance() {
    let before = pod("p", "u");
    let edited = Pod { hash: "v".into(), ..before.clone() };
    let renamed = Pod { uid: "v".into(), ..before.clone() };
    let mut kept = checkpoint(Life::Completed, &[]);
    for (pod, expect) in [(&before, true), (&edited, false), (&renamed, false)] {
        assert_eq!(kept.has_completed(pod), expect, "{} {}", pod.uid, pod.hash);
    }
    kept.turn_to(Some(&edited));
    assert!(kept.is_empty());
}

#[test]
fn why_a_pod_was_ended_is_known_once_it_has_ended() {
    let failed = Failed { reason: FailedReason::DeadlineExceeded, message: "late".into() };
    let ended = Arc::new(PodState { failed: Some(failed.clone()), ..PodState::default() });
    for (life, expect) in [(Life::Open, None), (Life::Completed, Some(&failed))] {
        let mut checkpoint = Checkpoint::default();
        checkpoint.note(&pod("p", "u"), life, ended.clone());
        assert_eq!(checkpoint.failed(&pod("p", "u")), expect, "{life:?}");
        assert_eq!(checkpoint.failed(&pod("p", "v")), None, "another instance, {life:?}");
    }
    assert_eq!(checkpoint(Life::Completed, &[]).failed(&pod("p", "u")), None, "it ended by itself");
}

#[test]
fn what_the_runtime_holds_no_more_is_forgotten() {
    use crate::pod::observed::{ContainerState, Sandbox};
    let sandbox = Sandbox {
        id: "held".into(),
        uid: "u".into(),
        hash: None,
        attempt: 0,
        created_at: Timestamp::UNIX_EPOCH,
        ready: false,
        ips: vec![],
    };
    let observed =
        Observed { sandboxes: vec![sandbox], containers: vec![container("held", ContainerState::Unknown)] };
    let mut checkpoint = Checkpoint {
        terminating_sandboxes: ["gone".into(), "held".into()].into(),
        killed_containers: ["gone".into(), "held".into()].into(),
        ..Checkpoint::default()
    };
    checkpoint.forget_gone(&observed);
    assert_eq!(checkpoint.terminating_sandboxes, ["held".into()].into());
    assert_eq!(checkpoint.killed_containers, ["held".into()].into());
    checkpoint.forget_gone(&Observed::default());
    assert!(checkpoint.is_empty());
}

#[test]
fn it_is_empty_when_nothing_is_remembered() {
    let empty = Checkpoint::default();
    assert!(empty.is_empty());
    let instance = Checkpoint { instance: checkpoint(Life::Open, &[]).instance, ..empty.clone() };
    let terminating = Checkpoint { terminating_sandboxes: ["s".into()].into(), ..empty.clone() };
    let killed = Checkpoint { killed_containers: ["c".into()].into(), ..empty };
    for something in [instance, terminating, killed] {
        assert!(!something.is_empty(), "{something:?}");
    }
}

#[test]
fn a_completed_status_stands_when_its_containers_are_pruned() {
    use crate::pod::observed::{Container, ContainerState};
    let held = |ids: &[&str]| Observed {
        sandboxes: vec![],
        containers: ids
            .iter()
            .map(|id| Container { name: "main".into(), ..container(id, ContainerState::Unknown) })
            .collect(),
    };
    let cases = [
        (Life::Completed, vec!["one", "two"], false),
        (Life::Completed, vec!["one"], true),
        (Life::Completed, vec!["three", "four"], true),
        (Life::Completed, vec![], true),
        (Life::Open, vec![], false),
    ];
    for (life, ids, expect) in cases {
        let standing = checkpoint(life, &[]).standing(&pod("p", "u"), &held(&ids));
        assert_eq!(standing.is_some(), expect, "{life:?} with {ids:?}");
    }
    assert_eq!(
        checkpoint(Life::Completed, &[]).standing(&pod("p", "v"), &held(&[])),
        None,
        "another instance"
    );
    let mut never_started = Checkpoint::default();
    never_started.note(&pod("p", "u"), Life::Completed, state(Phase::Failed, &[""]));
    assert!(never_started.standing(&pod("p", "u"), &held(&["one"])).is_some(), "it tells of no container");
}

#[test]
fn endings_and_completions_outlive_the_power() {
    use Durability::{Boot, Power, Process};
    let (open, completed) = (checkpoint(Life::Open, &[]), checkpoint(Life::Completed, &[]));
    let ready = Checkpoint { instance: None, ..open.clone() };
    let with_state = |mut of: Checkpoint, phase| {
        of.instance.iter_mut().for_each(|instance| instance.state = state(phase, &["other"]));
        of
    };
    let ends_pending = with_state(checkpoint(Life::Open, &["s"]), Phase::Pending);
    let ends_running = with_state(checkpoint(Life::Open, &["s"]), Phase::Running);
    let completed_otherwise = with_state(completed.clone(), Phase::Failed);
    let killed = Checkpoint { killed_containers: ["c".into()].into(), ..open.clone() };
    let cases = [
        ("nothing new", &open, open.clone(), None),
        ("a first status", &Checkpoint::default(), open.clone(), Some(Process)),
        ("completed", &open, completed.clone(), Some(Power)),
        ("completed from the start", &Checkpoint::default(), completed.clone(), Some(Power)),
        ("an end begun", &open, checkpoint(Life::Open, &["s"]), Some(Power)),
        (
            "an end finished: if that is lost, it is found out again",
            &checkpoint(Life::Open, &["s"]),
            open.clone(),
            Some(Process),
        ),
        (
            "one of two ends finished",
            &checkpoint(Life::Open, &["s", "t"]),
            checkpoint(Life::Open, &["s"]),
            Some(Power),
        ),
        ("the state of what ends", &ends_pending, ends_running.clone(), None),
        ("another state of what completed", &completed, completed_otherwise.clone(), Some(Power)),
        (
            "a sandbox died",
            &open,
            Checkpoint { killed_containers: ["c".into()].into(), ..open.clone() },
            Some(Power),
        ),
        ("a completion withdrawn", &completed, ready, Some(Process)),
        ("another state of what runs", &open, with_state(open.clone(), Phase::Failed), Some(Boot)),
        ("another state beside a fact", &killed, with_state(killed.clone(), Phase::Failed), Some(Boot)),
    ];
    for (name, kept, now, expect) in &cases {
        assert_eq!(now.durability(kept), *expect, "{name}");
    }
    // Of all pairs: what holds a fact replaces a file only once it is on the disk itself.
    let all: Vec<_> = cases.iter().flat_map(|(_, kept, now, _)| [(*kept).clone(), now.clone()]).collect();
    for (kept, now) in all.iter().flat_map(|kept| all.iter().map(move |now| (kept, now))) {
        if let Some(Process) = now.durability(kept) {
            assert_eq!(now.durability_of_all(), Process, "{now:?} after {kept:?}");
        }
    }
}

#[test]
fn it_reads_as_it_was_written() {
    let written = checkpoint(Life::Completed, &["s"]);
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(serde_json::from_str::<Checkpoint>(&text).unwrap(), written);
}

/// Over an upgrade from rkubelet 0.1, which kept Kubernetes' status.
#[test]
fn the_old_form_is_read() {
    macro_rules! fixture {
        ($name:literal) => {{
            let text = include_str!(concat!("../../../tests/fixtures/checkpoint-with-pod-status/", $name));
            serde_json::from_str::<Checkpoint>(text).unwrap()
        }};
    }
    let since = |checkpoint: &Checkpoint, kind| {
        let state = &checkpoint.instance.as_ref().unwrap().state;
        state.condition(kind).map(|condition| (condition.holds, condition.since.as_second()))
    };
    let pod = pod("p", "u");
    let completed = fixture!("completed.json");
    assert!(completed.has_completed(&pod));
    assert_eq!(completed.began(&pod, &Observed::default()), Some(Timestamp::from_second(100).unwrap()));
    assert_eq!(since(&completed, ConditionType::Ready), Some((false, 100)));
    assert_eq!(since(&completed, ConditionType::PodReadyToStartContainers), Some((false, 140)));
    let state = completed.standing(&pod, &Observed::default()).unwrap();
    assert_eq!(
        (state.phase, state.pod_ips.as_slice()),
        (Phase::Succeeded, ["10.88.0.4".to_owned()].as_slice())
    );
    let ids: Vec<_> = state.all_containers().filter_map(|c| c.id()).map(ContainerId::as_str).collect();
    assert_eq!(ids, ["setup-0", "proxy-0", "a-0", "z-0"]);

    let crash_loop = fixture!("crash-loop.json");
    assert!(!crash_loop.has_completed(&pod));
    assert_eq!(crash_loop.terminating_sandboxes, ["s9".into()].into());
    assert_eq!(crash_loop.killed_containers, ["main-2".into()].into());
    assert_eq!(since(&crash_loop, ConditionType::Ready), Some((false, 120)));
    assert_eq!(since(&crash_loop, ConditionType::Initialized), Some((true, 100)));
    let state = &crash_loop.instance.as_ref().unwrap().state;
    let restarts: Vec<_> = state.containers.iter().map(|c| (c.name.as_str(), c.restarts, c.ready)).collect();
    assert_eq!(restarts, [("main", 3, false), ("other", 1, true)]);
    let last = state.containers[0].last_termination.as_ref().unwrap();
    assert_eq!((last.id.as_ref().map(ContainerId::as_str), last.exit_code), (Some("main-3"), 1));

    let late = fixture!("deadline.json");
    assert!(late.has_completed(&pod));
    let failed = late.instance.as_ref().unwrap().state.failed.as_ref().unwrap();
    assert_eq!(failed.reason, FailedReason::DeadlineExceeded);
    let ready = late.instance.as_ref().unwrap().state.condition(ConditionType::Ready).unwrap();
    assert_eq!(ready.reason, Some(ConditionReason::PodFailed));

    let text = include_str!("../../../tests/fixtures/checkpoint-with-pod-status/deadline.json");
    let text = text.replace("DeadlineExceeded", "CreatePodSandboxError");
    let without_sandbox = serde_json::from_str::<Checkpoint>(&text).unwrap();
    let state = &without_sandbox.instance.as_ref().unwrap().state;
    let reason = state.no_sandbox.as_ref().map(|waiting| waiting.reason.as_str());
    assert_eq!((state.failed.as_ref(), reason), (None, Some("CreatePodSandboxError")));
}

#[test]
fn an_instance_without_its_state_is_damaged() {
    let text = r#"{"instance":{"uid":"u","hash":"u","source":"File","life":"Completed"}}"#;
    assert!(serde_json::from_str::<Checkpoint>(text).is_err());
}

/// Flash wears out: what is written often is small.
#[test]
fn todays_form_is_about_half_of_the_old_one() {
    let old = include_str!("../../../tests/fixtures/checkpoint-with-pod-status/completed.json");
    let new = serde_json::to_string(&serde_json::from_str::<Checkpoint>(old).unwrap()).unwrap();
    assert!(new.len() * 5 < old.len() * 3, "{} of {} bytes: {new}", new.len(), old.len());
}

#[test]
fn an_instance_begins_with_its_first_sandbox_and_not_before() {
    use crate::pod::observed::Sandbox;
    let at = |second| Timestamp::from_second(second).unwrap();
    let sandbox = |uid: &str, second| Sandbox {
        id: SandboxId(format!("{uid}-{second}")),
        uid: uid.into(),
        hash: Some(uid.into()),
        attempt: 0,
        created_at: at(second),
        ready: true,
        ips: vec![],
    };
    let pod = pod("p", "u");
    let seen = |sandboxes| Observed { sandboxes, containers: vec![] };
    let shown = Arc::new(PodState { started_at: at(100), ..PodState::default() });
    let mut checkpoint = Checkpoint::default();
    checkpoint.note(&pod, Life::Open, shown.clone());
    assert_eq!(checkpoint.began(&pod, &seen(vec![])), None, "it was shown, and is not there yet");
    assert_eq!(checkpoint.began(&pod, &seen(vec![sandbox("old", 90)])), None, "its predecessor ends");
    let both = seen(vec![sandbox("u", 400), sandbox("u", 300)]);
    assert_eq!(checkpoint.began(&pod, &both), Some(at(300)));
    checkpoint.terminating_sandboxes.insert("u-300".into());
    assert_eq!(checkpoint.began(&pod, &both), Some(at(400)), "what is being ended goes first");
    checkpoint.note_began(|_| at(300));
    checkpoint.note(&pod, Life::Open, shown);
    assert_eq!(checkpoint.began(&pod, &seen(vec![])), Some(at(300)), "though the runtime has forgotten it");
}

#[test]
fn what_only_the_checkpoint_knows_is_kept_before_anything_is_done() {
    let of = |uid: &str, phase: Phase| {
        let mut checkpoint = Checkpoint::default();
        checkpoint.note(&pod("p", uid), Life::Open, state(phase, &[]));
        checkpoint
    };
    let ending = Checkpoint { terminating_sandboxes: ["s".into()].into(), ..of("u", Phase::Pending) };
    let create = Step::CreateSandbox { attempt: 0, images: vec![] };
    let remove = Step::RemoveSandbox("s".into());
    for (name, written, now, step, expect) in [
        ("an instance that is being made", Checkpoint::default(), of("u", Phase::Pending), &create, true),
        ("the successor of another", of("v", Phase::Running), of("u", Phase::Pending), &remove, true),
        (
            "one that is known, and starts again",
            of("u", Phase::Pending),
            of("u", Phase::Running),
            &create,
            true,
        ),
        (
            "one that is known, and is tidied up",
            of("u", Phase::Pending),
            of("u", Phase::Running),
            &remove,
            false,
        ),
        ("an end that was begun", Checkpoint::default(), ending, &create, false),
        ("one that completed", Checkpoint::default(), checkpoint(Life::Completed, &[]), &create, false),
    ] {
        assert_eq!(now.may_wait(&written, std::slice::from_ref(step)), expect, "{name}");
        assert!(!now.may_wait(&written, &[]), "{name}: at rest");
    }
}

#[test]
fn what_completed_while_sidecars_ran_is_shown_as_over() {
    let ended =
        |exit_code| RunState::Terminated(Box::new(Termination { exit_code, ..Termination::default() }));
    let waits = RunState::Waiting(Waiting { reason: "PodInitializing".into(), message: String::new() });
    for (container, phase, expect) in [
        (ended(0), Phase::Running, Phase::Succeeded),
        (ended(1), Phase::Running, Phase::Failed),
        (waits, Phase::Pending, Phase::Failed),
        (ended(1), Phase::Succeeded, Phase::Succeeded),
    ] {
        let mut last = PodState::clone(&state(phase, &["one"]));
        last.containers[0].state = container.clone();
        let mut checkpoint = Checkpoint::default();
        checkpoint.note(&pod("p", "u"), Life::Completed, Arc::new(last));
        let standing = checkpoint.standing(&pod("p", "u"), &Observed::default()).unwrap();
        assert_eq!(standing.phase, expect, "{container:?}, {phase:?}");
    }
}
