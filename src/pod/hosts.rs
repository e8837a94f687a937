//! The contents of a pod's /etc/hosts.

use std::fmt::Write;

use super::Pod;
use super::hostname::HostNames;

const HEADER: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

/// What /etc/hosts says in a pod; `node_hosts` is the node's own, which pods on its network share.
pub(crate) fn hosts_file(pod: &Pod, names: &HostNames, ips: &[String], node_hosts: &str) -> String {
    let mut text = if pod.spec.host_network == Some(true) {
        format!("# Kubernetes-managed hosts file (host network).\n{node_hosts}")
    } else {
        let full = names.fqdn().map(|fqdn| format!("{fqdn}\t")).unwrap_or_default();
        let own: String = ips.iter().map(|ip| format!("{ip}\t{full}{}\n", names.name)).collect();
        format!("{HEADER}{own}")
    };
    let aliases = pod.spec.host_aliases.iter().flatten();
    for (index, alias) in aliases.enumerate() {
        if index == 0 {
            text.push_str("\n# Entries added by HostAliases.\n");
        }
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}\t{names}", alias.ip);
    }
    text
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::HostAlias;

    use super::*;
    use crate::pod::hostname::host_names;
    use crate::pod::testing::pod;

    #[test]
    fn names_the_pod_and_its_aliases() {
        let mut pod = pod("web-node1", "u");
        let aliases =
            HostAlias { ip: "1.2.3.4".into(), hostnames: Some(vec!["db.local".into(), "db".into()]) };
        pod.spec.host_aliases = Some(vec![aliases]);
        let text = hosts_file(&pod, &host_names(&pod, "c"), &["10.88.0.4".into()], "ignored");
        assert!(text.contains("\n10.88.0.4\tweb-node1\n"), "{text}");
        assert!(text.ends_with("\n1.2.3.4\tdb.local\tdb\n"), "{text}");
        assert!(text.contains("127.0.0.1\tlocalhost\n") && !text.contains("ignored"));

        pod.spec.subdomain = Some("sub".into());
        let ips = ["10.88.0.4".into(), "fd00::4".into()];
        let text = hosts_file(&pod, &host_names(&pod, "c"), &ips, "");
        for ip in ips {
            assert!(text.contains(&format!("\n{ip}\tweb-node1.sub.default.svc.c\tweb-node1\n")), "{text}");
        }

        pod.spec.host_network = Some(true);
        let text = hosts_file(&pod, &host_names(&pod, "c"), &[], "127.0.0.1 localhost\n");
        assert!(text.contains("127.0.0.1 localhost\n") && text.ends_with("db.local\tdb\n"), "{text}");
    }
}
