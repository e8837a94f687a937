//! The configuration that containerd before 2.0 shows in its answer to `Status`: what later ones say by themselves. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::proto::StatusResponse;

/// The part that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerdConfig {
    default_runtime_name: String,
    runtimes: BTreeMap<String, ContainerdRuntime>,
}

#[derive(Deserialize)]
struct WholeConfig {
    containerd: ContainerdConfig,
}

#[derive(Debug, Deserialize)]
struct ContainerdRuntime {
    options: Option<RuncOptions>,
}

#[derive(Debug, Deserialize)]
struct RuncOptions {
    #[serde(rename = "SystemdCgroup")]
    systemd_cgroup: Option<bool>,
}

impl ContainerdConfig {
    /// None if the runtime shows none, or another one.
    pub(super) fn of(answer: &StatusResponse) -> Option<Self> {
        let whole: WholeConfig = serde_json::from_str(answer.info.get("config")?).ok()?;
        Some(whole.containerd)
    }

    /// The names of its handlers.
    pub(super) fn into_handlers(self) -> impl Iterator<Item = String> {
        self.runtimes.into_keys()
    }

    /// Whether its default handler has systemd make the cgroups, if it says so.
    pub(super) fn uses_systemd(&self) -> Option<bool> {
        self.runtimes.get(&self.default_runtime_name)?.options.as_ref()?.systemd_cgroup
    }
}
