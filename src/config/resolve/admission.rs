//! What the configuration says of the node itself: its labels, and how many pods it takes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Settings;
use crate::config::flags::Flags;
use crate::host::cpu_manager::ReservedCpus;
use crate::pod::cpu_set::CpuSet;
use crate::pod::quantity::Amount;

/// Settings that decide which pods the node takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdmissionSettings {
    /// The node's labels: kubelet's own, and those of `--node-labels`, which win.
    pub labels: BTreeMap<String, String>,
    /// The most pods (`maxPods`).
    max_pods: i64,
    /// The most pods per core (`podsPerCore`); zero for no such limit.
    pods_per_core: i64,
}

impl AdmissionSettings {
    /// From the merged settings, for a node of this name.
    pub(super) fn new(settings: &Settings<'_>, flags: &Flags, node: &str) -> Self {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            other => other,
        };
        let mut labels: BTreeMap<String, String> = [
            ("beta.kubernetes.io/arch", arch),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", arch),
            ("kubernetes.io/hostname", node),
            ("kubernetes.io/os", "linux"),
        ]
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
        .into();
        let own = flags.get("node-labels").and_then(Value::as_object);
        let own = own.into_iter().flatten().filter_map(|(label, value)| Some((label, value.as_str()?)));
        labels.extend(own.map(|(label, value)| (label.clone(), value.to_owned())));
        Self {
            labels,
            max_pods: settings.int("maxPods").filter(|most| *most > 0).unwrap_or(110),
            pods_per_core: settings.int("podsPerCore").unwrap_or(0),
        }
    }

    /// How many pods a node with so many cores takes.
    pub(crate) fn most_pods(&self, cores: i64) -> i64 {
        match self.pods_per_core {
            0 => self.max_pods,
            each => each.saturating_mul(cores).min(self.max_pods),
        }
    }
}

/// The CPUs that containers share in any case, where some may have others for themselves.
pub(super) fn reserved_cpus(settings: &Settings<'_>) -> Option<ReservedCpus> {
    settings.text("cpuManagerPolicy").filter(|policy| *policy == "static")?;
    if let Some(cpus) = settings.text("reservedSystemCPUs").and_then(CpuSet::parse) {
        return Some(ReservedCpus::These(cpus));
    }
    let amounts = ["kubeReserved", "systemReserved"].map(|field| {
        let cpu = settings.0.get(field).and_then(|map| map.get("cpu")).and_then(Value::as_str);
        cpu.and_then(|cpu| Amount::parse(cpu).ok()).unwrap_or(Amount::ZERO)
    });
    let [kube, system] = amounts;
    Some(ReservedCpus::Count(usize::try_from((kube + system).value()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(text: &str, arguments: &[&str]) -> AdmissionSettings {
        crate::config::tests::resolve_on("node1", text, arguments).unwrap().admission
    }

    #[test]
    fn pods_and_labels() {
        for (text, cores, expect) in [
            ("", 4, 110),
            ("maxPods: 0", 4, 110),
            ("maxPods: 7", 4, 7),
            ("podsPerCore: 3", 4, 12),
            ("podsPerCore: 3\nmaxPods: 5", 4, 5),
        ] {
            assert_eq!(settings(text, &[]).most_pods(cores), expect, "{text}");
        }
        for (text, expect) in [
            ("reservedSystemCPUs: '0'", None),
            ("cpuManagerPolicy: none", None),
            ("cpuManagerPolicy: static\nreservedSystemCPUs: '1'\nkubeReserved: {cpu: '3'}", Some("These 1")),
            ("cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\nsystemReserved: {cpu: 700m}", Some("2")),
        ] {
            let config = crate::config::tests::resolve_on("node1", text, &[]).unwrap();
            let shown = config.cpu_manager.map(|reserved| match reserved {
                ReservedCpus::These(cpus) => format!("These {cpus}"),
                ReservedCpus::Count(count) => count.to_string(),
            });
            assert_eq!(shown.as_deref(), expect, "{text}");
        }
        let labels = settings("", &["--node-labels=rack=a,kubernetes.io/os=plan9"]).labels;
        let shown = ["rack", "kubernetes.io/os", "kubernetes.io/hostname"].map(|label| &labels[label]);
        assert_eq!(json!(shown), json!(["a", "plan9", "node1"]));
    }
}
