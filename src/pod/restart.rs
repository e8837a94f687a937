//! What follows the end of a container: the restart policies of pods and containers, and the rules of containers.
//!
//! A container's first rule that matches the exit code decides, then its own policy, then the pod's.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, PodSpec};

/// When a container is started again, exit codes aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    /// Whenever it ended.
    Always,
    /// When it failed.
    OnFailure,
    /// It runs once.
    Never,
}

/// What follows an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterExit {
    /// The container is not started again.
    Stays,
    /// The container is started again.
    Restarts,
    /// Every container of the pod is, the init containers first.
    RestartsAll,
}

impl RestartPolicy {
    /// The policy of a container: its own, or else the pod's.
    pub(crate) fn of(spec: &PodSpec, container: &Container) -> Self {
        container.restart_policy.as_deref().map_or_else(|| Self::of_pod(spec), Self::named)
    }

    /// The policy of a pod.
    pub(crate) fn of_pod(spec: &PodSpec) -> Self {
        spec.restart_policy.as_deref().map_or(Self::Always, Self::named)
    }

    fn named(name: &str) -> Self {
        match name {
            "Never" => Self::Never,
            "OnFailure" => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

/// What follows when a container of a pod ends with an exit code.
pub(crate) fn after_exit(spec: &PodSpec, container: &Container, code: i32) -> AfterExit {
    let mut rules = container.restart_policy_rules.iter().flatten();
    match rules.find(|rule| matches(rule, code)).map(|rule| rule.action.as_str()) {
        Some("Restart") => return AfterExit::Restarts,
        Some("RestartAllContainers") => return AfterExit::RestartsAll,
        _ => {}
    }
    match RestartPolicy::of(spec, container) {
        RestartPolicy::Always => AfterExit::Restarts,
        RestartPolicy::OnFailure if code != 0 => AfterExit::Restarts,
        RestartPolicy::OnFailure | RestartPolicy::Never => AfterExit::Stays,
    }
}

/// A rule of the container may restart all of its pod.
pub(crate) fn may_restart_all(container: &Container) -> bool {
    container.restart_policy_rules.iter().flatten().any(|rule| rule.action == "RestartAllContainers")
}

/// A container whose sandbox died under it is started again in the next one, unless neither its own policy nor its pod's
/// wants that. Its exit code is then of our making, and says nothing.
pub(crate) fn outlives_sandbox(spec: &PodSpec, container: &Container) -> bool {
    RestartPolicy::of_pod(spec) != RestartPolicy::Never
        || RestartPolicy::of(spec, container) != RestartPolicy::Never
}

/// A container that has run is run again in every new sandbox of its pod: it may run once only, and its pod more often.
pub(crate) fn runs_once_per_sandbox(spec: &PodSpec, container: &Container) -> bool {
    RestartPolicy::of(spec, container) == RestartPolicy::Never && outlives_sandbox(spec, container)
}

fn matches(rule: &ContainerRestartRule, code: i32) -> bool {
    let Some(codes) = &rule.exit_codes else { return false };
    let named = codes.values.iter().flatten().any(|value| *value == code);
    match codes.operator.as_str() {
        "In" => named,
        "NotIn" => !named,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerRestartRuleOnExitCodes;

    use super::*;

    fn rule(action: &str, operator: &str, values: &[i32]) -> ContainerRestartRule {
        let exit_codes =
            Some(ContainerRestartRuleOnExitCodes { operator: operator.into(), values: Some(values.into()) });
        ContainerRestartRule { action: action.into(), exit_codes }
    }

    #[test]
    fn rules_come_before_the_containers_policy_and_that_before_the_pods() {
        use AfterExit::{Restarts, RestartsAll, Stays};
        let in_42 = || vec![rule("Restart", "In", &[42, 43])];
        let cases = [
            ("Always", None, vec![], [Restarts, Restarts]),
            ("OnFailure", None, vec![], [Stays, Restarts]),
            ("Never", None, vec![], [Stays, Stays]),
            ("Never", Some("Always"), vec![], [Restarts, Restarts]),
            ("Never", Some("OnFailure"), vec![], [Stays, Restarts]),
            ("Always", Some("Never"), vec![], [Stays, Stays]),
            ("Always", Some("Never"), in_42(), [Stays, Restarts]),
            ("Always", Some("Never"), vec![rule("Restart", "NotIn", &[42])], [Restarts, Stays]),
            ("Always", Some("Never"), vec![rule("Restart", "NotIn", &[])], [Restarts, Restarts]),
            ("Never", Some("Never"), vec![rule("RestartAllContainers", "In", &[42])], [Stays, RestartsAll]),
            (
                "Never",
                Some("Never"),
                [in_42(), vec![rule("RestartAllContainers", "NotIn", &[])]].concat(),
                [RestartsAll, Restarts],
            ),
            ("Always", Some("Never"), vec![rule("Restart", "Near", &[42])], [Stays, Stays]),
        ];
        for (pod, own, rules, expect) in cases {
            let spec = PodSpec { restart_policy: Some(pod.into()), ..PodSpec::default() };
            let container = Container {
                restart_policy: own.map(Into::into),
                restart_policy_rules: Some(rules.clone()),
                ..Container::default()
            };
            let found = [0, 42].map(|code| after_exit(&spec, &container, code));
            assert_eq!(found, expect, "{pod}, {own:?}, {rules:?}");
        }
    }
}
