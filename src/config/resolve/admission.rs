//! What the configuration says of the node itself: its labels, and which CPUs are reserved.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Settings;
use crate::config::flags::Flags;
use crate::host::cpu_manager::ReservedCpus;
use crate::pod::cpu_set::CpuSet;
use crate::pod::quantity::Amount;

/// The node's labels: kubelet's own, and those of `--node-labels`, which win.
pub(super) fn node_labels(flags: &Flags, node: &str) -> BTreeMap<String, String> {
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
    labels
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

    #[test]
    fn labels_and_reserved_cpus() {
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
        let flags = ["--node-labels=rack=a,kubernetes.io/os=plan9"];
        let labels = crate::config::tests::resolve_on("node1", "", &flags).unwrap().node_labels;
        let shown = ["rack", "kubernetes.io/os", "kubernetes.io/hostname"].map(|label| &labels[label]);
        assert_eq!(json!(shown), json!(["a", "plan9", "node1"]));
    }
}
