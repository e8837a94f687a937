//! What is remembered, for how long, and what it is worth.

use super::*;
use crate::pod::testing::pod;

fn status(phase: &str, containers: &[&str]) -> Arc<PodStatus> {
    let each = containers.iter().map(|id| ContainerStatus {
        container_id: (!id.is_empty()).then(|| format!("containerd://{id}")),
        ..ContainerStatus::default()
    });
    let container_statuses = Some(each.collect());
    Arc::new(PodStatus { phase: Some(phase.into()), container_statuses, ..PodStatus::default() })
}

fn record(life: Life, ended: &[&str]) -> Record {
    let mut record =
        Record { ended: ended.iter().map(|id| SandboxId::from(*id)).collect(), ..Record::default() };
    record.note(&pod("p", "u"), life, status("Succeeded", &["one", "", "two"]));
    record
}

#[test]
fn it_is_one_instances_alone() {
    let (same, other) = (pod("p", "u"), pod("p", "v"));
    let mut record = record(Life::Completed, &[]);
    assert!(record.has_completed(&same));
    assert!(!record.has_completed(&other));
    record.turn_to(Some(&same));
    assert!(record.has_completed(&same));
    record.turn_to(Some(&other));
    assert!(record.is_empty(), "an edit is a new wish");
    record.note(&same, Life::Completed, status("Failed", &[]));
    record.turn_to(None);
    assert!(record.is_empty(), "and so is a removal");
}

#[test]
fn a_completed_status_stands_when_its_containers_are_pruned() {
    use crate::pod::observed::{Container, ContainerState};
    let held = |ids: &[&str]| Observed {
        sandboxes: vec![],
        containers: ids
            .iter()
            .map(|id| Container {
                id: (*id).into(),
                sandbox: "s".into(),
                uid: "u".into(),
                name: "main".into(),
                attempt: 0,
                hash: String::new(),
                crashes: 0,
                round: 0,
                sidecar: None,
                grace: None,
                pre_stop: None,
                stop_signal: None,
                earlier_boot: false,
                image: String::new(),
                image_ref: String::new(),
                created_at: jiff::Timestamp::UNIX_EPOCH,
                state: ContainerState::Unknown,
            })
            .collect(),
    };
    let cases = [
        (Life::Completed, vec!["one", "two"], false),
        (Life::Completed, vec!["one"], true),
        (Life::Completed, vec![], true),
        (Life::Open, vec![], false),
    ];
    for (life, ids, expect) in cases {
        let standing = record(life, &[]).standing(&pod("p", "u"), &held(&ids));
        assert_eq!(standing.is_some(), expect, "{life:?} with {ids:?}");
    }
    assert_eq!(record(Life::Completed, &[]).standing(&pod("p", "v"), &held(&[])), None, "another instance");
    let mut never_started = Record::default();
    never_started.note(&pod("p", "u"), Life::Completed, status("Failed", &[""]));
    assert!(never_started.standing(&pod("p", "u"), &held(&["one"])).is_some(), "it tells of no container");
}

#[test]
fn endings_and_completions_outlive_the_power() {
    use Durability::{Power, Process};
    let (open, completed) = (record(Life::Open, &[]), record(Life::Completed, &[]));
    let ready = Record { instance: None, ..open.clone() };
    let cases = [
        ("nothing new", &open, open.clone(), None),
        ("a first status", &Record::default(), open.clone(), Some(Process)),
        ("completed", &open, completed.clone(), Some(Power)),
        ("completed from the start", &Record::default(), completed.clone(), Some(Power)),
        ("an end begun", &open, record(Life::Open, &["s"]), Some(Power)),
        ("an end finished", &record(Life::Open, &["s"]), open.clone(), Some(Power)),
        ("a sandbox died", &open, Record { lost: ["c".into()].into(), ..open.clone() }, Some(Power)),
        ("a completion withdrawn", &completed, ready, Some(Process)),
    ];
    for (name, kept, now, expect) in cases {
        assert_eq!(now.durability(kept), expect, "{name}");
    }
}

#[test]
fn it_reads_as_it_was_written() {
    let written = record(Life::Completed, &["s"]);
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), written);
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
    let shown = Arc::new(PodStatus {
        start_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(100))),
        ..PodStatus::default()
    });
    let mut record = Record::default();
    record.note(&pod, Life::Open, shown.clone());
    assert_eq!(record.began(&pod, &seen(vec![])), None, "it was shown, and is not there yet");
    assert_eq!(record.began(&pod, &seen(vec![sandbox("old", 90)])), None, "its predecessor ends");
    let both = seen(vec![sandbox("u", 400), sandbox("u", 300)]);
    assert_eq!(record.began(&pod, &both), Some(at(300)));
    record.ended.insert("u-300".into());
    assert_eq!(record.began(&pod, &both), Some(at(400)), "what is being ended goes first");
    record.note_began(|_| at(300));
    record.note(&pod, Life::Open, shown);
    assert_eq!(record.began(&pod, &seen(vec![])), Some(at(300)), "though the runtime has forgotten it");
}

#[test]
fn what_only_the_record_knows_is_kept_before_anything_is_done() {
    let of = |uid: &str, phase: &str| {
        let mut record = Record::default();
        record.note(&pod("p", uid), Life::Open, status(phase, &[]));
        record
    };
    let ending = Record { ended: ["s".into()].into(), ..of("u", "Pending") };
    for (name, kept, now, expect) in [
        ("an instance that is being made", Record::default(), of("u", "Pending"), true),
        ("the successor of another", of("v", "Running"), of("u", "Pending"), true),
        ("one that is known", of("u", "Pending"), of("u", "Running"), false),
        ("an end that was begun", Record::default(), ending, false),
        ("one that completed", Record::default(), record(Life::Completed, &[]), false),
    ] {
        assert_eq!(now.may_wait(&kept), expect, "{name}");
    }
}
