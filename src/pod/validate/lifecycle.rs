//! Hooks and stop signals.

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, PodSpec};

use super::findings::Findings;
use super::probe::{one_action, validate_actions, validate_port};
use crate::pod::signal;
use crate::text::excerpt::quoted;

/// Validates what a container of this pod does after its start and before its end.
pub(super) fn validate_lifecycle(spec: &PodSpec, container: &Container, path: &str, findings: &mut Findings) {
    let Some(lifecycle) = &container.lifecycle else { return };
    let path = format!("{path}.lifecycle");
    let grace = spec.termination_grace_period_seconds;
    for (name, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(hook) = hook {
            validate_hook(hook, grace, &format!("{path}.{name}"), findings);
        }
    }
    if let Some(name) = &lifecycle.stop_signal {
        let field = format!("{path}.stopSignal");
        if spec.os.is_none() {
            findings.add(field, "may not be set for containers with empty `spec.os.name`");
        } else if signal::number(name).is_none() {
            findings.add(field, format!("{} is not a signal, such as SIGUSR1 or SIGRTMIN+3", quoted(name)));
        }
    }
}

fn validate_hook(hook: &LifecycleHandler, grace: Option<i64>, path: &str, findings: &mut Findings) {
    let actions =
        [hook.exec.is_some(), hook.http_get.is_some(), hook.tcp_socket.is_some(), hook.sleep.is_some()];
    one_action(&actions, path, findings);
    validate_actions(hook.exec.as_ref().map(|exec| &exec.command), hook.http_get.as_ref(), path, findings);
    // Kubernetes takes it in, and fails the hook when it is run.
    if let Some(tcp) = &hook.tcp_socket {
        validate_port(&tcp.port, &format!("{path}.tcpSocket.port"), findings);
    }
    if let (Some(sleep), Some(grace)) = (&hook.sleep, grace)
        && !(0..=grace.max(0)).contains(&sleep.seconds)
    {
        let reason = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        findings.add(format_args!("{path}.sleep"), reason);
    }
}
