//! Containers: names, images, ports, variables, mounts and resources.

use core::net::IpAddr;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, FileKeySelector, PodSpec, VolumeMount};

use super::findings::Findings;
use super::objects::{validate_env_from, validate_variable_source};
use super::volume::backwards;
use super::{lifecycle, names, not_an_ip, probe, resources, restart, security};
use crate::pod::field_ref::{is_env_field, subscript};
use crate::pod::resource_field::wrong_reference;
use crate::pod::{ContainerRef, containers_of, is_sidecar};
use crate::text::excerpt::quoted;

/// Validates all containers of a pod, which has volumes of these names.
pub(super) fn validate_containers(spec: &PodSpec, volumes: &BTreeSet<String>, findings: &mut Findings) {
    if spec.containers.is_empty() {
        findings.add("spec.containers", "must have at least one container");
    }
    let host_network = spec.host_network == Some(true);
    let mut seen = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for (which, container) in containers_of(spec) {
        let path = which.to_string();
        findings.check(format_args!("{path}.name"), names::not_label(&container.name));
        if !container.name.is_empty() && !seen.insert(&container.name) {
            findings.add(format_args!("{path}.name"), format!("{} is used twice", quoted(&container.name)));
        }
        // Init containers run one after the other, so they may use the same ports; sidecars stay.
        let alone = matches!(which, ContainerRef::Init(_)) && !is_sidecar(container);
        let mut own = BTreeSet::new();
        let taken = if alone { &mut own } else { &mut host_ports };
        validate_ports(container.ports.as_deref().unwrap_or_default(), &path, host_network, taken, findings);
        validate_container(container, &path, volumes, findings);
        security::validate_container_security(spec, container, &path, findings);
        if alone {
            ends_by_itself(container, &path, findings);
        } else {
            probe::validate_probes(container, &path, findings);
            lifecycle::validate_lifecycle(spec, container, &path, findings);
        }
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|containers| !containers.is_empty()) {
        findings.add("spec.ephemeralContainers", "may not be in a manifest");
    }
    resources::validate_pod_resources(spec, findings);
}

/// What is waited for is neither probed nor told to stop.
fn ends_by_itself(container: &Container, path: &str, findings: &mut Findings) {
    let present = [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ];
    for (name, _) in present.into_iter().filter(|(_, present)| *present) {
        findings.add(
            format_args!("{path}.{name}"),
            "may not be set for init containers without restartPolicy=Always",
        );
    }
}

fn validate_container(
    container: &Container,
    path: &str,
    volumes: &BTreeSet<String>,
    findings: &mut Findings,
) {
    let image = container.image.as_deref().unwrap_or_default();
    if image.is_empty() {
        findings.add(format_args!("{path}.image"), "must not be empty");
    } else if image.trim() != image {
        findings.add(
            format_args!("{path}.image"),
            format!("{} must not begin or end with a space", quoted(image)),
        );
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    let policy = container.image_pull_policy.as_deref();
    findings.one_of(format_args!("{path}.imagePullPolicy"), policy, &policies);
    let policies = ["File", "FallbackToLogsOnError"];
    let policy = container.termination_message_policy.as_deref();
    findings.one_of(format_args!("{path}.terminationMessagePolicy"), policy, &policies);
    restart::validate_restart(container, path, findings);
    validate_env_from(container, path, findings);
    for (index, variable) in container.env.iter().flatten().enumerate() {
        validate_variable(variable, volumes, &format!("{path}.env[{index}]"), findings);
    }
    validate_mounts(container, path, volumes, findings);
    if let Some(resources) = &container.resources {
        resources::validate_resources(resources, &format!("{path}.resources"), findings);
    }
}

fn validate_ports<'a>(
    ports: &'a [ContainerPort],
    path: &str,
    host_network: bool,
    taken: &mut BTreeSet<(i32, &'a str, &'a str)>,
    findings: &mut Findings,
) {
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            findings.check(format_args!("{path}.name"), names::not_port_name(name));
            if !seen.insert(name) {
                findings.add(format_args!("{path}.name"), format!("{} is used twice", quoted(name)));
            }
        }
        findings.port(format_args!("{path}.containerPort"), port.container_port);
        let protocol = port.protocol.as_deref().unwrap_or_default();
        findings.one_of(format_args!("{path}.protocol"), Some(protocol), &["TCP", "UDP", "SCTP"]);
        let address = port.host_ip.as_deref().unwrap_or_default();
        if !address.is_empty() && address.parse::<IpAddr>().is_err() {
            findings.add(format_args!("{path}.hostIP"), not_an_ip(address));
        }
        let Some(host_port) = port.host_port.filter(|host_port| *host_port != 0) else { continue };
        let field = format!("{path}.hostPort");
        findings.port(&field, host_port);
        if host_network && host_port != port.container_port {
            findings.add(
                &field,
                format!("must be containerPort ({}) when hostNetwork is set", port.container_port),
            );
        }
        if !taken.insert((host_port, protocol, address)) {
            findings.add(&field, format!("{host_port} is used twice"));
        }
    }
}

fn validate_variable(variable: &EnvVar, volumes: &BTreeSet<String>, path: &str, findings: &mut Findings) {
    findings.check(format_args!("{path}.name"), names::not_env_name(&variable.name));
    let Some(source) = &variable.value_from else { return };
    let path = format!("{path}.valueFrom");
    if variable.value.as_deref().is_some_and(|value| !value.is_empty()) {
        findings.add(&path, "may not be set together with a value");
    }
    let sources = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    match sources.iter().filter(|present| **present).count() {
        1 => {}
        0 => findings.add(&path, "must have a source, such as fieldRef"),
        _ => findings.add(&path, "may have one source only"),
    }
    if let Some(reference) = &source.field_ref {
        let version = reference.api_version.as_deref();
        findings.one_of(format_args!("{path}.fieldRef.apiVersion"), version, &["v1"]);
        if !is_env_field(&reference.field_path) {
            let reason = format!("{} is not a field that a variable can have", quoted(&reference.field_path));
            findings.add(format_args!("{path}.fieldRef.fieldPath"), reason);
        } else if let Some((_, key)) = subscript(&reference.field_path) {
            let reason = names::not_qualified_name(&key.to_lowercase());
            findings.check(format_args!("{path}.fieldRef.fieldPath"), reason);
        }
    }
    validate_variable_source(source, &path, findings);
    if let Some(reference) = &source.file_key_ref {
        validate_file_key(reference, volumes, &format!("{path}.fileKeyRef"), findings);
    }
    if let Some((field, reason)) = source.resource_field_ref.as_ref().and_then(wrong_reference) {
        findings.add(format_args!("{path}.resourceFieldRef.{field}"), reason);
    }
}

fn validate_file_key(
    reference: &FileKeySelector,
    volumes: &BTreeSet<String>,
    path: &str,
    findings: &mut Findings,
) {
    if !volumes.contains(&reference.volume_name) {
        let reason = format!("there is no volume {}", quoted(&reference.volume_name));
        findings.add(format_args!("{path}.volumeName"), reason);
    }
    findings.check(format_args!("{path}.key"), names::not_env_name(&reference.key));
    findings.check(format_args!("{path}.path"), super::volume::not_relative(&reference.path));
}

fn validate_mounts(container: &Container, path: &str, volumes: &BTreeSet<String>, findings: &mut Findings) {
    let privileged =
        container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true));
    let mut seen = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        if mount.name.is_empty() {
            findings.add(format_args!("{path}.name"), "must not be empty");
        } else if !volumes.contains(&mount.name) {
            findings.add(format_args!("{path}.name"), format!("there is no volume {}", quoted(&mount.name)));
        }
        let field = format!("{path}.mountPath");
        if mount.mount_path.is_empty() {
            findings.add(&field, "must not be empty");
        } else if !seen.insert(&mount.mount_path) {
            findings.add(&field, format!("{} is used twice", quoted(&mount.mount_path)));
        }
        let propagations = ["None", "HostToContainer", "Bidirectional"];
        let propagation = mount.mount_propagation.as_deref();
        findings.one_of(format_args!("{path}.mountPropagation"), propagation, &propagations);
        if propagation == Some("Bidirectional") && !privileged {
            findings
                .add(format_args!("{path}.mountPropagation"), "Bidirectional is for privileged containers");
        }
        validate_recursion(mount, &path, findings);
        let subpaths = [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)];
        for (name, subpath) in subpaths {
            let Some(subpath) = subpath.as_deref() else { continue };
            let absolute = subpath.starts_with('/').then(|| format!("{} must be relative", quoted(subpath)));
            findings.check(format_args!("{path}.{name}"), absolute.or_else(|| backwards(subpath)));
        }
        let says = |path: &Option<String>| path.as_ref().is_some_and(|path| !path.is_empty());
        if says(&mount.sub_path) && says(&mount.sub_path_expr) {
            findings.add(format_args!("{path}.subPathExpr"), "may not be set together with subPath");
        }
    }
}

fn validate_recursion(mount: &VolumeMount, path: &str, findings: &mut Findings) {
    let field = format!("{path}.recursiveReadOnly");
    let recursion = mount.recursive_read_only.as_deref();
    findings.one_of(&field, recursion, &["Disabled", "IfPossible", "Enabled"]);
    if matches!(recursion, Some("IfPossible" | "Enabled")) && mount.read_only != Some(true) {
        findings.add(&field, "needs readOnly: true");
    } else if recursion == Some("Enabled")
        && !matches!(mount.mount_propagation.as_deref(), None | Some("" | "None"))
    {
        findings.add(&field, "needs mountPropagation: None");
    }
}
