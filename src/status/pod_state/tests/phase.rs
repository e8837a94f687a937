//! Phases with restart policies of containers' own.

use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes};

use super::*;

/// What to do after exit code 42.
pub(super) fn rule(action: &str) -> Option<ContainerRestartRule> {
    let exit_codes = ContainerRestartRuleOnExitCodes { operator: "In".into(), values: Some(vec![42]) };
    Some(ContainerRestartRule { action: action.into(), exit_codes: Some(exit_codes) })
}

#[test]
fn a_pod_is_over_when_none_of_its_containers_restarts() {
    // The pod's policy, a's own policy and rule; the exit codes of a and b; the phase.
    let rows = [
        ("Never", "Always", None, [0, 0], "Running"),
        ("Always", "Never", None, [0, 0], "Running"),
        ("Never", "OnFailure", None, [1, 0], "Running"),
        ("Never", "OnFailure", None, [0, 0], "Succeeded"),
        ("Never", "OnFailure", None, [0, 1], "Failed"),
        ("OnFailure", "Never", None, [1, 0], "Failed"),
        ("Never", "Never", rule("Restart"), [42, 0], "Running"),
        ("Never", "Never", rule("Restart"), [41, 0], "Failed"),
        ("Never", "Never", rule("RestartAllContainers"), [42, 1], "Running"),
    ];
    for (policy, own, rule, codes, phase) in rows {
        let mut pod = pod_with("p", "u", policy, &["a", "b"]);
        pod.spec.containers[0].restart_policy = Some(own.into());
        pod.spec.containers[0].restart_policy_rules = rule.clone().map(|rule| vec![rule]);
        let found = ["a", "b"].into_iter().zip(codes).map(|(name, code)| container(name, 0, exited(code)));
        let status = status(&pod, found.collect(), &[]);
        assert_eq!(status.phase.as_deref(), Some(phase), "{policy}, {own}, {rule:?}, {codes:?}");
    }
}

#[test]
fn what_was_ended_with_its_sandbox_has_not_succeeded() {
    let plan = Plan { killed: [ContainerId::from("main-0")].into(), ..Plan::default() };
    let observed = Observed {
        sandboxes: vec![sandbox(0, false, &[])],
        containers: vec![container("main", 0, exited(0))],
    };
    for (policy, phase) in [("Always", "Running"), ("OnFailure", "Running"), ("Never", "Succeeded")] {
        let pod = pod_with("p", "u", policy, &["main"]);
        let status = pod_status(&pod, &observed, &plan, &Verdicts::default(), None, &[], at(200));
        assert_eq!(status.phase.as_deref(), Some(phase), "{policy}");
    }
}
