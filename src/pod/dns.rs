//! The resolver configuration of a pod, from its dnsPolicy, its dnsConfig and the node's.

use k8s_openapi::api::core::v1::PodSpec;

/// How many name servers a resolver uses; kubelet writes no more.
pub(crate) const MAX_NAME_SERVERS: usize = 3;

/// What a pod's resolv.conf says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// Name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Options, as `name` or `name:value`.
    pub options: Vec<String>,
}

/// The cluster's resolver, as configured.
#[derive(Debug, Clone, Default)]
pub struct ClusterDns {
    /// `clusterDNS`; without it, ClusterFirst means the node's own.
    pub servers: Vec<String>,
    /// `clusterDomain`.
    pub domain: String,
}

/// Reads a resolv.conf.
pub fn parse_resolv_conf(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
            // The last one of these lines counts.
            Some("search" | "domain") => {
                dns.searches = words.filter(|w| *w != ".").map(str::to_owned).collect()
            }
            Some("options") => dns.options = words.map(str::to_owned).collect(),
            _ => {}
        }
    }
    dns
}

/// The resolver of one pod; `host` is the node's.
pub fn pod_dns(spec: &PodSpec, namespace: &str, cluster: &ClusterDns, host: Dns) -> Dns {
    let host_network = spec.host_network == Some(true);
    let wants_cluster = match spec.dns_policy.as_deref() {
        Some("ClusterFirstWithHostNet") => true,
        Some("Default" | "None") => false,
        _ => !host_network,
    };
    let mut dns = match spec.dns_policy.as_deref() {
        Some("None") => Dns::default(),
        _ if wants_cluster && !cluster.servers.is_empty() => of_cluster(namespace, cluster, host),
        _ => host,
    };
    if let Some(config) = &spec.dns_config {
        append_new(&mut dns.servers, config.nameservers.iter().flatten().cloned());
        append_new(&mut dns.searches, config.searches.iter().flatten().cloned());
        for option in config.options.iter().flatten() {
            let Some(name) = &option.name else { continue };
            dns.options.retain(|o| o.split(':').next() != Some(name));
            dns.options.push(match &option.value {
                Some(value) => format!("{name}:{value}"),
                None => name.clone(),
            });
        }
    }
    dns.servers.truncate(MAX_NAME_SERVERS);
    dns
}

fn of_cluster(namespace: &str, cluster: &ClusterDns, host: Dns) -> Dns {
    let domain = &cluster.domain;
    let mut searches = Vec::new();
    if !domain.is_empty() {
        searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    }
    append_new(&mut searches, host.searches);
    Dns { servers: cluster.servers.clone(), searches, options: vec!["ndots:5".into()] }
}

fn append_new(list: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodDNSConfig, PodDNSConfigOption};

    use super::*;

    #[test]
    fn policies_as_kubelet_has_them() {
        let host = parse_resolv_conf("# ours\nnameserver 192.0.2.53\nsearch lan .\noptions edns0\n");
        assert_eq!(host.searches, ["lan"]);
        let cluster = ClusterDns { servers: vec!["10.96.0.10".into()], domain: "cluster.local".into() };
        let first = ["10.96.0.10 | default.svc.cluster.local svc.cluster.local cluster.local lan | ndots:5"];
        let own = ["192.0.2.53 | lan | edns0"];
        let cases = [
            ("ClusterFirst", false, true, first),
            ("ClusterFirst", true, true, own),
            ("ClusterFirstWithHostNet", true, true, first),
            ("Default", false, true, own),
            ("ClusterFirst", false, false, own),
            ("None", false, true, [" |  | "]),
        ];
        for (policy, host_network, has_cluster, expect) in cases {
            let spec = PodSpec {
                dns_policy: Some(policy.into()),
                host_network: Some(host_network),
                ..PodSpec::default()
            };
            let cluster = if has_cluster { cluster.clone() } else { ClusterDns::default() };
            let dns = pod_dns(&spec, "default", &cluster, host.clone());
            let line = [dns.servers.join(" "), dns.searches.join(" "), dns.options.join(" ")].join(" | ");
            assert_eq!(
                [line.as_str()],
                expect,
                "{policy}, hostNetwork {host_network}, clusterDNS {has_cluster}"
            );
        }
    }

    #[test]
    fn no_more_name_servers_than_resolvers_use() {
        let servers: Vec<String> = (1..=5).map(|last| format!("10.0.0.{last}")).collect();
        let cluster = ClusterDns { servers, domain: String::new() };
        let dns = pod_dns(&PodSpec::default(), "default", &cluster, Dns::default());
        assert_eq!(dns.servers, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    }

    #[test]
    fn a_pods_own_config_adds_and_overrides() {
        let spec = PodSpec {
            dns_policy: Some("None".into()),
            dns_config: Some(PodDNSConfig {
                nameservers: Some(vec!["9.9.9.9".into()]),
                searches: Some(vec!["a.b".into()]),
                options: Some(vec![PodDNSConfigOption {
                    name: Some("ndots".into()),
                    value: Some("2".into()),
                }]),
            }),
            ..PodSpec::default()
        };
        let dns = pod_dns(&spec, "edge", &ClusterDns::default(), Dns::default());
        let expect = Dns {
            servers: vec!["9.9.9.9".into()],
            searches: vec!["a.b".into()],
            options: vec!["ndots:2".into()],
        };
        assert_eq!(dns, expect);

        let spec = PodSpec { dns_policy: Some("Default".into()), ..spec };
        let host = Dns { options: vec!["ndots:5".into(), "rotate".into()], ..Dns::default() };
        assert_eq!(pod_dns(&spec, "edge", &ClusterDns::default(), host).options, ["rotate", "ndots:2"]);
    }
}
