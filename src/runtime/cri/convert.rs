//! Pods as CRI messages. Pure: what kubelet sends for the same pod, field by field, is the model.

mod resources;
mod security;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, VolumeMount};

use super::proto::{
    CdiDevice, ContainerConfig, ContainerMetadata, Device, DnsConfig, ImageSpec, KeyValue,
    LinuxContainerConfig, LinuxPodSandboxConfig, Mount, MountPropagation, PodSandboxConfig,
    PodSandboxMetadata, PortMapping, Protocol, Signal,
};
use crate::host::volume::{ImagePart, absolute};
use crate::pod::dns::Dns;
use crate::pod::{Pod, keys};

pub(crate) use resources::add_cpus;
pub use resources::{add_container_resources, add_sandbox_resources};
pub use security::Surroundings;

/// The mount of a volume at a path on the node.
pub fn volume_mount(host_path: &Path, mount: &VolumeMount) -> Mount {
    Mount {
        container_path: absolute(&mount.mount_path),
        host_path: host_path.to_string_lossy().into_owned(),
        readonly: mount.read_only.unwrap_or_default(),
        propagation: match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => MountPropagation::PropagationHostToContainer,
            Some("Bidirectional") => MountPropagation::PropagationBidirectional,
            _ => MountPropagation::PropagationPrivate,
        } as i32,
        ..Mount::default()
    }
}

/// The mount of an image, which is never written to.
pub(crate) fn image_mount(image: &ImagePart, mount: &VolumeMount) -> Mount {
    Mount {
        container_path: absolute(&mount.mount_path),
        readonly: true,
        image: Some(ImageSpec {
            image: image.resolved.clone(),
            user_specified_image: image.reference.clone(),
            ..ImageSpec::default()
        }),
        image_sub_path: image.sub_path.clone(),
        ..Mount::default()
    }
}

/// The sandbox of a pod; `hostname` is for the kernel, and left out on the node's network.
pub fn sandbox_config(
    pod: &Pod,
    attempt: u32,
    log_directory: &str,
    dns: Dns,
    hostname: String,
) -> PodSandboxConfig {
    let host_network = pod.spec.host_network == Some(true);
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(pod_labels(pod));
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: pod.name.name.clone(),
            uid: pod.uid.0.clone(),
            namespace: pod.name.namespace.clone(),
            attempt,
        }),
        hostname: if host_network { String::new() } else { hostname },
        log_directory: log_directory.to_owned(),
        dns_config: Some(DnsConfig { servers: dns.servers, searches: dns.searches, options: dns.options }),
        port_mappings: if host_network { Vec::new() } else { port_mappings(&pod.spec) },
        labels,
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        linux: Some(LinuxPodSandboxConfig {
            security_context: Some(security::sandbox_context(&pod.spec)),
            sysctls: security::sysctls(&pod.spec),
            ..Default::default()
        }),
        windows: None,
    }
}

/// What the effects found out before a container can be described.
#[derive(Debug, Clone, Default)]
pub struct Prepared {
    /// Counts the containers of this name in this instance.
    pub attempt: u32,
    /// Crashes in a row before it.
    pub crashes: u32,
    /// How often all containers of the pod were restarted before it.
    pub round: u32,
    /// Which boot of the machine this is; empty if the kernel does not say.
    pub boot_id: String,
    /// Its place among the init containers, for a sidecar.
    pub sidecar: Option<usize>,
    /// The image, as the runtime resolved it.
    pub image_ref: String,
    /// Environment, expanded.
    pub env: Vec<(String, String)>,
    /// Command, expanded.
    pub command: Vec<String>,
    /// Arguments, expanded.
    pub args: Vec<String>,
    /// Mounts, with paths on the node.
    pub mounts: Vec<Mount>,
    /// What its security depends on besides the manifest.
    pub security: Surroundings,
    /// Devices, with paths on the node.
    pub devices: Vec<Device>,
    /// Devices that the runtime finds by their names.
    pub cdi_devices: Vec<CdiDevice>,
    /// Annotations for the runtime, beside those by which the agent knows the container.
    pub annotations: BTreeMap<String, String>,
}

/// A container of a pod.
pub fn container_config(pod: &Pod, container: &Container, prepared: Prepared) -> ContainerConfig {
    let name = &container.name;
    let mut labels = pod_labels(pod);
    labels.insert(keys::CONTAINER_NAME.into(), name.clone());
    let annotations = container_annotations(pod, container, &prepared);
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.clone(), attempt: prepared.attempt }),
        image: Some(ImageSpec {
            image: prepared.image_ref.clone(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command: prepared.command,
        args: prepared.args,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: prepared.env.into_iter().map(|(key, value)| KeyValue { key, value: value.into() }).collect(),
        mounts: prepared.mounts,
        devices: prepared.devices,
        cdi_devices: prepared.cdi_devices,
        labels,
        annotations,
        log_path: format!("{name}/{}.log", prepared.attempt),
        stdin: container.stdin.unwrap_or_default(),
        stdin_once: container.stdin_once.unwrap_or_default(),
        tty: container.tty.unwrap_or_default(),
        linux: Some(LinuxContainerConfig {
            security_context: Some(security::container_context(pod, container, &prepared.security)),
            ..Default::default()
        }),
        stop_signal: stop_signal(container).map_or(0, |name| cri_signal(name) as i32),
        ..Default::default()
    }
}

fn stop_signal(container: &Container) -> Option<&str> {
    container.lifecycle.as_ref()?.stop_signal.as_deref()
}

/// CRI's word for a signal; its default for one that it does not know.
fn cri_signal(name: &str) -> Signal {
    let name = format!("SIGNAL_{}", name.replace('+', "PLUS").replace('-', "MINUS"));
    Signal::from_str_name(&name).unwrap_or(Signal::RuntimeDefault)
}

fn pod_labels(pod: &Pod) -> BTreeMap<String, String> {
    BTreeMap::from([
        (keys::POD_NAME.to_owned(), pod.name.name.clone()),
        (keys::POD_NAMESPACE.to_owned(), pod.name.namespace.clone()),
        (keys::POD_UID.to_owned(), pod.uid.0.clone()),
    ])
}

fn container_annotations(pod: &Pod, container: &Container, prepared: &Prepared) -> BTreeMap<String, String> {
    let mut annotations = prepared.annotations.clone();
    let mut put = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    put(keys::CONTAINER_HASH, pod.container_hash(&container.name).unwrap_or_default().to_owned());
    put(keys::RESTART_COUNT, prepared.attempt.to_string());
    put(keys::TERMINATION_MESSAGE_PATH, container.termination_message_path.clone().unwrap_or_default());
    put(keys::TERMINATION_MESSAGE_POLICY, container.termination_message_policy.clone().unwrap_or_default());
    if let Some(grace) = pod.spec.termination_grace_period_seconds {
        put(keys::GRACE_PERIOD, grace.to_string());
    }
    let pre_stop = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    // What was read from JSON can be written as such.
    if let Some(handler) = pre_stop.and_then(|handler| serde_json::to_string(handler).ok()) {
        put(keys::PRE_STOP_HANDLER, handler);
    }
    if let Some(signal) = stop_signal(container) {
        put(keys::STOP_SIGNAL, signal.to_owned());
    }
    let ports = container.ports.as_deref().unwrap_or_default();
    if !ports.is_empty() {
        put(keys::CONTAINER_PORTS, ports_annotation(ports));
    }
    if prepared.crashes > 0 {
        put(keys::CRASHES, prepared.crashes.to_string());
    }
    if !prepared.boot_id.is_empty() {
        put(keys::BOOT_ID, prepared.boot_id.clone());
    }
    if prepared.round > 0 {
        put(keys::ROUND, prepared.round.to_string());
    }
    if let Some(place) = prepared.sidecar {
        put(keys::SIDECAR, place.to_string());
    }
    annotations
}

/// Ports as Go writes them: the fields in the order of the type, without the empty ones.
fn ports_annotation(ports: &[ContainerPort]) -> String {
    let each = ports.iter().map(|port| {
        let mut fields = Vec::new();
        let text = |value: &str| serde_json::Value::from(value).to_string();
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            fields.push(format!("\"name\":{}", text(name)));
        }
        if let Some(host_port) = port.host_port.filter(|p| *p != 0) {
            fields.push(format!("\"hostPort\":{host_port}"));
        }
        fields.push(format!("\"containerPort\":{}", port.container_port));
        if let Some(protocol) = &port.protocol {
            fields.push(format!("\"protocol\":{}", text(protocol)));
        }
        if let Some(ip) = port.host_ip.as_deref().filter(|ip| !ip.is_empty()) {
            fields.push(format!("\"hostIP\":{}", text(ip)));
        }
        format!("{{{}}}", fields.join(","))
    });
    format!("[{}]", each.collect::<Vec<_>>().join(","))
}

fn port_mappings(spec: &PodSpec) -> Vec<PortMapping> {
    let ports = spec.containers.iter().flat_map(|c| c.ports.iter().flatten());
    ports
        .filter(|port| port.host_port.is_some_and(|p| p > 0))
        .map(|port| PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                _ => Protocol::Tcp,
            } as i32,
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or_default(),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}
