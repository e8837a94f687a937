//! CRI messages in the JSON form that containerd keeps: the fields by name, without those that are empty.
//!
//! Every message is taken apart in full, so that a field that comes to be set cannot escape the comparison.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::runtime::cri::proto::{
    Capability, ContainerConfig, DnsConfig, Int64Value, LinuxContainerConfig, LinuxContainerResources,
    LinuxContainerSecurityContext, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, Mount,
    NamespaceOption, PodSandboxConfig, SeLinuxOption, SecurityProfile,
};

/// Fields that are not empty; a message that is there counts, whatever it holds.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        let empty = match &value {
            Value::Null | Value::Bool(false) => true,
            Value::Number(number) => number.as_i64() == Some(0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(true) => false,
        };
        if !empty {
            self.0.insert(name.into(), value);
        }
        self
    }

    fn put_map(self, name: &str, map: &BTreeMap<String, String>) -> Self {
        self.put(name, json!(map))
    }

    fn put_message<M>(mut self, name: &str, message: &Option<M>, convert: impl Fn(&M) -> Value) -> Self {
        if let Some(message) = message {
            self.0.insert(name.into(), convert(message));
        }
        self
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

/// A message that we never send yet: whoever begins to send it completes the comparison.
fn unsent<M>(_: &M) -> Value {
    panic!("this message is not compared yet")
}

pub(super) fn sandbox(config: &PodSandboxConfig) -> Value {
    let PodSandboxConfig {
        metadata,
        hostname,
        log_directory,
        dns_config,
        port_mappings,
        labels,
        annotations,
        linux,
        windows,
    } = config;
    let ports: Vec<_> = port_mappings
        .iter()
        .map(|port| {
            Fields::default()
                .put("protocol", port.protocol)
                .put("container_port", port.container_port)
                .put("host_port", port.host_port)
                .put("host_ip", port.host_ip.as_str())
                .done()
        })
        .collect();
    Fields::default()
        .put_message("metadata", metadata, |metadata| {
            Fields::default()
                .put("name", metadata.name.as_str())
                .put("uid", metadata.uid.as_str())
                .put("namespace", metadata.namespace.as_str())
                .put("attempt", metadata.attempt)
                .done()
        })
        .put("hostname", hostname.as_str())
        .put("log_directory", log_directory.as_str())
        .put_message("dns_config", dns_config, |DnsConfig { servers, searches, options }| {
            Fields::default()
                .put("servers", servers.clone())
                .put("searches", searches.clone())
                .put("options", options.clone())
                .done()
        })
        .put("port_mappings", ports)
        .put_map("labels", labels)
        .put_map("annotations", annotations)
        .put_message("linux", linux, linux_sandbox)
        .put_message("windows", windows, unsent)
        .done()
}

fn linux_resources(resources: &LinuxContainerResources) -> Value {
    let LinuxContainerResources {
        cpu_period,
        cpu_quota,
        cpu_shares,
        memory_limit_in_bytes,
        oom_score_adj,
        cpuset_cpus,
        cpuset_mems,
        hugepage_limits,
        unified,
        memory_swap_limit_in_bytes,
    } = resources;
    let pages: Vec<_> = hugepage_limits
        .iter()
        .map(|pages| {
            Fields::default().put("page_size", pages.page_size.as_str()).put("limit", pages.limit).done()
        })
        .collect();
    Fields::default()
        .put("cpu_period", *cpu_period)
        .put("cpu_quota", *cpu_quota)
        .put("cpu_shares", *cpu_shares)
        .put("memory_limit_in_bytes", *memory_limit_in_bytes)
        .put("oom_score_adj", *oom_score_adj)
        .put("cpuset_cpus", cpuset_cpus.as_str())
        .put("cpuset_mems", cpuset_mems.as_str())
        .put("hugepage_limits", pages)
        .put_map("unified", unified)
        .put("memory_swap_limit_in_bytes", *memory_swap_limit_in_bytes)
        .done()
}

fn linux_sandbox(linux: &LinuxPodSandboxConfig) -> Value {
    let LinuxPodSandboxConfig { cgroup_parent, security_context, sysctls, overhead, resources } = linux;
    Fields::default()
        .put("cgroup_parent", cgroup_parent.as_str())
        .put_message("security_context", security_context, sandbox_security)
        .put_map("sysctls", sysctls)
        .put_message("overhead", overhead, linux_resources)
        .put_message("resources", resources, linux_resources)
        .done()
}

#[expect(deprecated, reason = "taken apart in full")]
fn sandbox_security(context: &LinuxSandboxSecurityContext) -> Value {
    let LinuxSandboxSecurityContext {
        namespace_options,
        selinux_options,
        run_as_user,
        run_as_group,
        readonly_rootfs,
        supplemental_groups,
        supplemental_groups_policy,
        privileged,
        seccomp,
        apparmor,
        seccomp_profile_path,
    } = context;
    Fields::default()
        .put_message("namespace_options", namespace_options, namespaces)
        .put_message("selinux_options", selinux_options, se_linux)
        .put_message("run_as_user", run_as_user, number)
        .put_message("run_as_group", run_as_group, number)
        .put("readonly_rootfs", *readonly_rootfs)
        .put("supplemental_groups", supplemental_groups.clone())
        .put("supplemental_groups_policy", *supplemental_groups_policy)
        .put("privileged", *privileged)
        .put_message("seccomp", seccomp, profile)
        .put_message("apparmor", apparmor, profile)
        .put("seccomp_profile_path", seccomp_profile_path.as_str())
        .done()
}

pub(super) fn container(config: &ContainerConfig) -> Value {
    let ContainerConfig {
        metadata,
        image,
        command,
        args,
        working_dir,
        envs,
        mounts,
        devices,
        labels,
        annotations,
        log_path,
        stdin,
        stdin_once,
        tty,
        linux,
        windows,
        cdi_devices,
        stop_signal,
    } = config;
    assert!(devices.is_empty() && cdi_devices.is_empty(), "devices are not compared yet");
    let env = |variable: &crate::runtime::cri::proto::KeyValue| {
        let value = String::from_utf8(variable.value.clone()).unwrap();
        Fields::default().put("key", variable.key.as_str()).put("value", value).done()
    };
    Fields::default()
        .put_message("metadata", metadata, |metadata| {
            Fields::default().put("name", metadata.name.as_str()).put("attempt", metadata.attempt).done()
        })
        .put_message("image", image, |image| {
            Fields::default()
                .put("image", image.image.as_str())
                .put_map("annotations", &image.annotations)
                .put("user_specified_image", image.user_specified_image.as_str())
                .put("runtime_handler", image.runtime_handler.as_str())
                .put("image_ref", image.image_ref.as_str())
                .done()
        })
        .put("command", command.clone())
        .put("args", args.clone())
        .put("working_dir", working_dir.as_str())
        .put("envs", envs.iter().map(env).collect::<Vec<_>>())
        .put("mounts", mounts.iter().map(mount).collect::<Vec<_>>())
        .put_map("labels", labels)
        .put_map("annotations", annotations)
        .put("log_path", log_path.as_str())
        .put("stdin", *stdin)
        .put("stdin_once", *stdin_once)
        .put("tty", *tty)
        .put_message("linux", linux, |LinuxContainerConfig { resources, security_context }| {
            Fields::default()
                .put_message("resources", resources, linux_resources)
                .put_message("security_context", security_context, container_security)
                .done()
        })
        .put_message("windows", windows, unsent)
        .put("stop_signal", *stop_signal)
        .done()
}

fn mount(mount: &Mount) -> Value {
    let Mount {
        container_path,
        host_path,
        readonly,
        selinux_relabel,
        propagation,
        uid_mappings,
        gid_mappings,
        recursive_read_only,
        image,
        image_sub_path,
        mount_options,
    } = mount;
    assert!(uid_mappings.is_empty() && gid_mappings.is_empty(), "mappings are not compared yet");
    Fields::default()
        .put("container_path", container_path.as_str())
        .put("host_path", host_path.as_str())
        .put("readonly", *readonly)
        .put("selinux_relabel", *selinux_relabel)
        .put("propagation", *propagation)
        .put("recursive_read_only", *recursive_read_only)
        .put_message("image", image, unsent)
        .put("image_sub_path", image_sub_path.as_str())
        .put("mount_options", mount_options.clone())
        .done()
}

#[expect(deprecated, reason = "taken apart in full")]
fn container_security(context: &LinuxContainerSecurityContext) -> Value {
    let LinuxContainerSecurityContext {
        capabilities,
        privileged,
        namespace_options,
        selinux_options,
        run_as_user,
        run_as_group,
        run_as_username,
        readonly_rootfs,
        supplemental_groups,
        supplemental_groups_policy,
        no_new_privs,
        masked_paths,
        readonly_paths,
        seccomp,
        apparmor,
        apparmor_profile,
        seccomp_profile_path,
    } = context;
    Fields::default()
        .put_message("capabilities", capabilities, capability)
        .put("privileged", *privileged)
        .put_message("namespace_options", namespace_options, namespaces)
        .put_message("selinux_options", selinux_options, se_linux)
        .put_message("run_as_user", run_as_user, number)
        .put_message("run_as_group", run_as_group, number)
        .put("run_as_username", run_as_username.as_str())
        .put("readonly_rootfs", *readonly_rootfs)
        .put("supplemental_groups", supplemental_groups.clone())
        .put("supplemental_groups_policy", *supplemental_groups_policy)
        .put("no_new_privs", *no_new_privs)
        .put("masked_paths", masked_paths.clone())
        .put("readonly_paths", readonly_paths.clone())
        .put_message("seccomp", seccomp, profile)
        .put_message("apparmor", apparmor, profile)
        .put("apparmor_profile", apparmor_profile.as_str())
        .put("seccomp_profile_path", seccomp_profile_path.as_str())
        .done()
}

fn namespaces(options: &NamespaceOption) -> Value {
    let NamespaceOption { network, pid, ipc, target_id, userns_options } = options;
    Fields::default()
        .put("network", *network)
        .put("pid", *pid)
        .put("ipc", *ipc)
        .put("target_id", target_id.as_str())
        .put_message("userns_options", userns_options, |users| {
            assert!(users.uids.is_empty() && users.gids.is_empty(), "mappings are not compared yet");
            Fields::default().put("mode", users.mode).done()
        })
        .done()
}

fn profile(SecurityProfile { profile_type, localhost_ref }: &SecurityProfile) -> Value {
    Fields::default().put("profile_type", *profile_type).put("localhost_ref", localhost_ref.as_str()).done()
}

fn capability(names: &Capability) -> Value {
    let Capability { add_capabilities, drop_capabilities, add_ambient_capabilities } = names;
    Fields::default()
        .put("add_capabilities", add_capabilities.clone())
        .put("drop_capabilities", drop_capabilities.clone())
        .put("add_ambient_capabilities", add_ambient_capabilities.clone())
        .done()
}

fn se_linux(SeLinuxOption { user, role, r#type, level }: &SeLinuxOption) -> Value {
    Fields::default()
        .put("user", user.as_str())
        .put("role", role.as_str())
        .put("type", r#type.as_str())
        .put("level", level.as_str())
        .done()
}

fn number(Int64Value { value }: &Int64Value) -> Value {
    Fields::default().put("value", *value).done()
}
