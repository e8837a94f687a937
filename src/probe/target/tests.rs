//! Which probes are found, whether they run, and which verdict is known already.

use super::*;
use crate::pod::observed::Exit;
use crate::pod::state::{CreatedContainer, Waiting};
use crate::pod::testing::{self, pod_with};
use crate::pod::{ConfigHash, PodUid, SandboxId};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A container `main` and a sidecar `proxy` with all three probes, and an init container with none that counts.
fn pod() -> Pod {
    let mut pod = pod_with("p", "u", "Always", &["main", "proxy", "init"]);
    for container in &mut pod.spec.containers {
        container.liveness_probe = Some(Default::default());
        container.readiness_probe = Some(Default::default());
        container.startup_probe = Some(Default::default());
    }
    let mut init = pod.spec.containers.split_off(1);
    init[0].restart_policy = Some("Always".into());
    pod.spec.init_containers = Some(init);
    pod
}

fn container(name: &str, attempt: u32, state: ContainerState) -> Container {
    Container {
        id: ContainerId(format!("{name}-{attempt}")),
        attempt,
        created_at: at(1),
        ..testing::container(name, state)
    }
}

fn running() -> ContainerState {
    ContainerState::Running { started_at: at(50) }
}

fn exited() -> ContainerState {
    let (reason, message) = (String::new(), String::new());
    ContainerState::Exited(Exit { started_at: None, finished_at: at(60), code: 0, reason, message })
}

fn observed(hash: &str, containers: Vec<Container>) -> Observed {
    let (id, uid) = (SandboxId::from("s"), PodUid::from("u"));
    let hash = Some(ConfigHash::from(hash));
    let sandbox = Sandbox { id, uid, hash, attempt: 0, created_at: at(1), ready: true, ips: vec![] };
    Observed { sandboxes: vec![sandbox], containers }
}

/// Each as `id Kind`, with `!` for what is held and the verdict that is known.
fn found(
    observed: &Observed,
    previous: Option<&PodState>,
    starting: &[&str],
    ending: &[&str],
    goal: PodGoal,
) -> Vec<String> {
    let ids = |ids: &[&str]| ids.iter().map(|id| ContainerId::from(*id)).collect::<BTreeSet<_>>();
    let (starting, ending) = (ids(starting), ids(ending));
    let probed = ProbedPod {
        pod: &pod(),
        observed,
        previous,
        starting: &starting,
        ending: &ending,
        goal,
        host: &ProbeHost::Node,
    };
    let word = |target: Target| {
        let held = if target.activity == ProbeActivity::Paused { "!" } else { "" };
        let known = target.known.map(|known| format!(" {known:?}")).unwrap_or_default();
        format!("{} {}{held}{known}", target.id, target.kind.as_str())
    };
    targets(&probed).into_iter().map(word).collect()
}

#[test]
fn the_newest_container_of_each_name_is_probed() {
    let all = |id: &str, held: [&str; 3]| -> Vec<String> {
        Kind::ALL.iter().zip(held).map(|(kind, held)| format!("{id} {}{held}", kind.as_str())).collect()
    };
    let (none, only_readiness, held) = (["", "", ""], ["!", "", "!"], ["!", "!", "!"]);
    let main = || vec![container("main", 0, running())];
    let ended = || vec![container("main", 0, exited())];
    let twice = || vec![container("main", 0, running()), container("main", 1, running())];
    for (name, containers, starting, ending, goal, expect) in [
        ("nothing runs", vec![], &[][..], &[][..], PodGoal::Run, vec![]),
        ("one runs", main(), &[], &[], PodGoal::Run, all("main-0", none)),
        ("its hook runs", main(), &["main-0"], &[], PodGoal::Run, all("main-0", held)),
        ("its pod ends", main(), &[], &[], PodGoal::Stop, all("main-0", only_readiness)),
        ("it ends alone", main(), &[], &["main-0"], PodGoal::Run, all("main-0", only_readiness)),
        ("another ends", main(), &[], &["other"], PodGoal::Run, all("main-0", none)),
        ("it has ended", ended(), &[], &[], PodGoal::Run, all("main-0", held)),
        ("it was restarted", twice(), &[], &[], PodGoal::Run, all("main-1", none)),
        (
            "a sidecar, no init container",
            vec![container("proxy", 0, running()), container("init", 0, running())],
            &[],
            &[],
            PodGoal::Run,
            all("proxy-0", none),
        ),
    ] {
        assert_eq!(found(&observed("u", containers), None, starting, ending, goal), expect, "{name}");
    }
    assert_eq!(
        found(&observed("other", main()), None, &[], &[], PodGoal::Run),
        [""; 0],
        "of another version"
    );
}

#[test]
fn what_was_shown_of_the_same_container_is_known() {
    let state = |id: &str, state: RunState, started: bool, ready: bool| {
        let created = CreatedContainer { id: id.into(), image: String::new(), image_ref: String::new() };
        let main = ContainerSummary {
            name: "main".into(),
            created: Some(created),
            state,
            last_termination: None,
            restarts: 0,
            started,
            ready,
        };
        PodState { containers: vec![main], ..PodState::default() }
    };
    let runs = || RunState::Running { started_at: at(50) };
    let waiting =
        || RunState::Waiting(Waiting { reason: "ContainerCreating".into(), message: String::new() });
    let ended = || RunState::Terminated(Box::default());
    let observed = observed("u", vec![container("main", 0, running())]);
    let none = ["main-0 Startup", "main-0 Readiness", "main-0 Liveness"];
    for (name, previous, expect) in [
        (
            "ready",
            state("main-0", runs(), true, true),
            ["main-0 Startup Success", "main-0 Readiness Success", none[2]],
        ),
        (
            "not ready",
            state("main-0", runs(), true, false),
            ["main-0 Startup Success", "main-0 Readiness Failure", none[2]],
        ),
        ("not started", state("main-0", runs(), false, false), none),
        ("its hook ran", state("main-0", waiting(), false, false), none),
        ("it had ended", state("main-0", ended(), true, true), none),
        ("another", state("main-1", runs(), true, true), none),
    ] {
        assert_eq!(found(&observed, Some(&previous), &[], &[], PodGoal::Run), expect, "{name}");
    }
}

#[test]
fn where_a_pod_is_reached() {
    let node = ["192.0.2.10".to_owned()];
    let mut sandbox = observed("u", vec![]).sandboxes.remove(0);
    sandbox.ips = vec!["10.0.0.1".into()];
    let dead = Sandbox { ready: false, ..sandbox.clone() };
    let bare = Sandbox { ips: vec![], ..sandbox.clone() };
    let own = ProbeHost::Address("10.0.0.1".into());
    for (name, host_network, found, expect) in [
        ("at its own address", false, Some(&sandbox), own),
        ("nowhere, with a sandbox that died", false, Some(&dead), ProbeHost::None),
        ("nowhere, without a network", false, Some(&bare), ProbeHost::None),
        ("nowhere, without a sandbox", false, None, ProbeHost::None),
        ("where the node is", true, Some(&bare), ProbeHost::Node),
        ("where the node is, whatever became of its sandbox", true, Some(&dead), ProbeHost::Node),
    ] {
        let mut pod = pod();
        pod.spec.host_network = Some(host_network);
        assert_eq!(ProbeHost::of(&pod, found, &node), expect, "{name}");
    }
}
