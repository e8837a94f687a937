//! Probes: one action each, sane numbers, ports that exist.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::findings::Findings;
use super::names;

/// Validates the probes of a container.
pub(super) fn validate_probes(container: &Container, path: &str, findings: &mut Findings) {
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (name, probe) in probes {
        if let Some(probe) = probe {
            let path = format!("{path}.{name}");
            validate_probe(probe, &path, findings);
            if name != "readinessProbe" && probe.success_threshold.is_some_and(|threshold| threshold > 1) {
                findings.add(format_args!("{path}.successThreshold"), "must be 1");
            }
        }
    }
    if container.readiness_probe.as_ref().is_some_and(|p| p.termination_grace_period_seconds.is_some()) {
        let field = format!("{path}.readinessProbe.terminationGracePeriodSeconds");
        findings.add(field, "may not be set: a readiness probe ends nothing");
    }
}

fn validate_probe(probe: &Probe, path: &str, findings: &mut Findings) {
    let actions =
        [probe.exec.is_some(), probe.http_get.is_some(), probe.tcp_socket.is_some(), probe.grpc.is_some()];
    one_action(&actions, path, findings);
    validate_actions(probe.exec.as_ref().map(|exec| &exec.command), probe.http_get.as_ref(), path, findings);
    if let Some(tcp) = &probe.tcp_socket {
        validate_port(&tcp.port, &format!("{path}.tcpSocket.port"), findings);
    }
    if let Some(grpc) = &probe.grpc {
        findings.port(format_args!("{path}.grpc.port"), grpc.port);
    }
    let numbers = [
        ("initialDelaySeconds", probe.initial_delay_seconds, 0),
        ("timeoutSeconds", probe.timeout_seconds, 1),
        ("periodSeconds", probe.period_seconds, 1),
        ("successThreshold", probe.success_threshold, 1),
        ("failureThreshold", probe.failure_threshold, 1),
    ];
    for (name, value, least) in numbers {
        findings.at_least(format_args!("{path}.{name}"), value.map(i64::from), least);
    }
    findings.at_least(
        format_args!("{path}.terminationGracePeriodSeconds"),
        probe.termination_grace_period_seconds,
        1,
    );
}

/// Checks that exactly one action of a probe or a hook is set.
pub(super) fn one_action(actions: &[bool], path: &str, findings: &mut Findings) {
    match actions.iter().filter(|present| **present).count() {
        1 => {}
        0 => findings.add(path, "must have an action (exec, httpGet, tcpSocket, ...)"),
        _ => findings.add(path, "may have one action only"),
    }
}

/// Checks the actions that probes and hooks have in common.
pub(super) fn validate_actions(
    command: Option<&Option<Vec<String>>>,
    http_get: Option<&HTTPGetAction>,
    path: &str,
    findings: &mut Findings,
) {
    if command.is_some_and(|command| command.as_ref().is_none_or(Vec::is_empty)) {
        findings.add(format_args!("{path}.exec.command"), "must not be empty");
    }
    if let Some(http) = http_get {
        validate_port(&http.port, &format!("{path}.httpGet.port"), findings);
        findings.one_of(format_args!("{path}.httpGet.scheme"), http.scheme.as_deref(), &["HTTP", "HTTPS"]);
        for header in http.http_headers.iter().flatten() {
            findings.check(format_args!("{path}.httpGet.httpHeaders"), names::not_header_name(&header.name));
        }
    }
}

/// Checks a port, given as a number or by name.
pub(super) fn validate_port(port: &IntOrString, field: &str, findings: &mut Findings) {
    match port {
        IntOrString::Int(number) => findings.port(field, *number),
        IntOrString::String(name) => findings.check(field, names::not_port_name(name)),
    }
}
