//! What follows from probes: who is restarted, with which grace, and who waits for whom.

use k8s_openapi::api::core::v1::Probe;

use super::*;
use crate::plan::ending::{ProbedRole, StopReason};
use crate::pod::restart::RestartPolicy;
use crate::probe::threshold::{Kind, ProbeOutcome};

/// A container `main` with a liveness probe that has a grace period of its own, and a startup probe that has none.
fn pod(policy: &str) -> Pod {
    let mut pod = pod_with("p", "u", policy, &["main"]);
    let liveness = Probe { termination_grace_period_seconds: Some(3), ..Probe::default() };
    pod.spec.containers[0].liveness_probe = Some(liveness);
    pod.spec.containers[0].startup_probe = Some(Probe::default());
    pod
}

type Found = (&'static str, Kind, Option<ProbeOutcome>);

fn plan(pod: &Pod, containers: Vec<Container>, found: &[Found]) -> Plan {
    plan_after(&Plan::default(), pod, containers, found)
}

/// The plan that follows another one, of which is remembered what must be.
fn plan_after(before: &Plan, pod: &Pod, containers: Vec<Container>, found: &[Found]) -> Plan {
    let verdicts = found.iter().map(|(id, kind, verdict)| ((ContainerId::from(*id), *kind), *verdict));
    let checkpoint = Checkpoint { killed_containers: before.killed.clone(), ..Checkpoint::default() };
    let inputs = Inputs { probes: verdicts.collect(), checkpoint, ..Inputs::default() };
    let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers };
    plan_pod(&inputs.situation(&Want::Run(Arc::new(pod.clone())), &observed))
}

const LIVES: Found = ("u-main-0", Kind::Liveness, Some(ProbeOutcome::Success));
const DEAD: Found = ("u-main-0", Kind::Liveness, Some(ProbeOutcome::Failure));
const STARTS: Found = ("u-main-0", Kind::Startup, None);
const STARTED: Found = ("u-main-0", Kind::Startup, Some(ProbeOutcome::Success));
const STUCK: Found = ("u-main-0", Kind::Startup, Some(ProbeOutcome::Failure));

#[test]
fn a_container_is_ended_for_a_probe_with_the_grace_of_the_probe() {
    for (name, found, expect) in [
        ("no result yet", &[STARTS][..], &[][..]),
        ("all is well", &[STARTED, LIVES], &[]),
        ("liveness", &[STARTED, DEAD], &["stop u-main-0@3"]),
        ("startup, without a grace of its own", &[STUCK], &["stop u-main-0@7"]),
        ("unreadiness ends nobody", &[("u-main-0", Kind::Readiness, Some(ProbeOutcome::Failure))], &[]),
        ("of another container", &[("u-main-7", Kind::Liveness, Some(ProbeOutcome::Failure))], &[]),
    ] {
        let plan = plan(&pod("Always"), vec![container("u", 0, "main", 0, running())], found);
        assert_eq!(words(&plan), expect, "{name}");
    }
}

#[test]
fn the_reason_is_told_in_kubelets_words() {
    for (policy, found, expect) in [
        ("Always", DEAD, "Container main failed liveness probe, will be restarted"),
        ("OnFailure", STUCK, "Container main failed startup probe, will be restarted"),
        ("Never", DEAD, "Container main failed liveness probe"),
    ] {
        let plan = plan(&pod(policy), vec![container("u", 0, "main", 0, running())], &[found]);
        let [Step::StopContainers(stops)] = plan.steps.as_slice() else { panic!("{plan:?}") };
        assert_eq!(stops[0].why.message("main").as_deref(), Some(expect));
    }
    assert_eq!(StopReason::NotWanted.message("main"), None);
    let sidecar = StopReason::Unhealthy {
        probe: Kind::Startup,
        policy: RestartPolicy::Always,
        role: ProbedRole::Sidecar,
    };
    assert_eq!(sidecar.message("proxy").as_deref(), Some("Init container proxy failed startup probe"));
}

#[test]
fn what_was_ended_for_a_probe_is_restarted_by_policy_whatever_its_exit_code() {
    const AGAIN: &[&str] = &["start 0 #1 in u-s0 after 1"];
    const OVER: &[&str] = &["stop-sandbox u-s0"];
    for (policy, code, found, expect) in [
        ("Always", 0, &[DEAD][..], AGAIN),
        ("OnFailure", 0, &[DEAD], AGAIN),
        ("OnFailure", 0, &[STUCK], AGAIN),
        ("OnFailure", 0, &[LIVES], OVER),
        ("OnFailure", 137, &[LIVES], AGAIN),
        ("Never", 0, &[DEAD], OVER),
        ("Never", 137, &[DEAD], OVER),
    ] {
        let ends = plan(&pod(policy), vec![container("u", 0, "main", 0, running())], found);
        // Long enough ago for no back-off.
        let ended = vec![container("u", 0, "main", 0, exited(code, 50))];
        let plan = plan_after(&ends, &pod(policy), ended, found);
        assert_eq!(words(&plan), expect, "{policy} {code} {found:?}");
        // Remembered, for a restart of the agent.
        assert_eq!(
            plan.killed.contains(&ContainerId::from("u-main-0")),
            policy != "Never" && found != [LIVES]
        );
        let completed = plan.lifecycle == PodLifecycle::Completed;
        assert_eq!(completed, expect == OVER, "{policy} {code} {found:?}");
    }
}

#[test]
fn what_ended_by_itself_before_it_was_told_to_is_judged_by_its_exit_code() {
    for (policy, code, again) in [("OnFailure", 0, false), ("OnFailure", 1, true), ("Always", 0, true)] {
        let ended = vec![container("u", 0, "main", 0, exited(code, 50))];
        let plan = plan(&pod(policy), ended, &[DEAD]);
        assert_eq!(plan.lifecycle == PodLifecycle::Completed, !again, "{policy} {code}");
        assert_eq!(plan.killed, [].into(), "{policy} {code}");
    }
}

#[test]
fn a_sidecar_has_started_when_its_startup_probe_has_succeeded() {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    let mut sidecar = pod_with("p", "u", "Always", &["proxy"]).spec.containers.remove(0);
    sidecar.restart_policy = Some("Always".into());
    sidecar.startup_probe = Some(Probe::default());
    pod.spec.init_containers = Some(vec![sidecar]);
    pod.container_hashes =
        [("proxy".into(), "hash-proxy".into())].into_iter().chain(pod.container_hashes).collect();
    let proxy = || Container { sidecar: Some(0), ..container("u", 0, "proxy", 0, running()) };
    let verdict = |verdict| [("u-proxy-0", Kind::Startup, verdict)];
    let waiting = plan(&pod, vec![proxy()], &verdict(None));
    assert_eq!((words(&waiting), waiting.init), (vec![], Init::Pending));
    let started = plan(&pod, vec![proxy()], &verdict(Some(ProbeOutcome::Success)));
    assert_eq!((words(&started), started.init), (vec!["start 0 #0 in u-s0 after 0".into()], Init::Passed));
    // Whether it lives counts only for itself.
    let found = [
        ("u-proxy-0", Kind::Startup, Some(ProbeOutcome::Success)),
        ("u-proxy-0", Kind::Liveness, Some(ProbeOutcome::Failure)),
    ];
    let dead = plan(&pod, vec![proxy()], &found);
    assert_eq!(words(&dead), ["stop u-proxy-0@7", "start 0 #0 in u-s0 after 0"]);
    let stuck = plan(&pod, vec![proxy()], &verdict(Some(ProbeOutcome::Failure)));
    assert_eq!((words(&stuck), stuck.init), (vec!["stop u-proxy-0@7".into()], Init::Pending));
    // One that is restarted later holds up nobody.
    let beside = vec![proxy(), container("u", 0, "main", 0, exited(1, 50))];
    assert_eq!(words(&plan(&pod, beside, &verdict(None))), ["start 0 #1 in u-s0 after 1"]);
}
