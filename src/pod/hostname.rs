//! The names that a pod has on the network: its host name, and the domain that a subdomain puts it in.

use super::Pod;

/// The longest host name that is given to a pod, as in kubelet.
const MAX_NAME: usize = 63;
/// The longest name that the kernel takes.
const MAX_KERNEL_NAME: usize = 64;

/// The names of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostNames {
    /// The host name, without a domain.
    pub name: String,
    /// The domain, for a pod with a subdomain.
    pub domain: Option<String>,
}

/// `setHostnameAsFQDN` asks for a name that the kernel cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long \
     ({MAX_KERNEL_NAME} characters is the max, {} characters requested)",
    fqdn.len()
)]
pub(crate) struct FqdnTooLong {
    /// The name.
    pub fqdn: String,
}

/// The names of a pod in a cluster of this domain.
pub(crate) fn host_names(pod: &Pod, cluster_domain: &str) -> HostNames {
    let spec = &pod.spec;
    if let Some(name) = &spec.hostname_override {
        return HostNames { name: cut(name), domain: None };
    }
    let given = |name: &'_ Option<String>| name.clone().filter(|name| !name.is_empty());
    let name = given(&spec.hostname).unwrap_or_else(|| pod.name.name.clone());
    let domain = given(&spec.subdomain).map(|subdomain| {
        let service = format!("{subdomain}.{}.svc", pod.name.namespace);
        if cluster_domain.is_empty() { service } else { format!("{service}.{cluster_domain}") }
    });
    HostNames { name: cut(&name), domain }
}

impl HostNames {
    /// The name with its domain, if it has one.
    pub(crate) fn fqdn(&self) -> Option<String> {
        self.domain.as_ref().map(|domain| format!("{}.{domain}", self.name))
    }

    /// What the kernel is told: the host name, or all of it where the pod asks for that.
    ///
    /// # Errors
    /// When that is too long.
    pub(crate) fn kernel_name(&self, as_fqdn: Option<bool>) -> Result<String, FqdnTooLong> {
        match self.fqdn().filter(|_| as_fqdn == Some(true)) {
            Some(fqdn) if fqdn.len() > MAX_KERNEL_NAME => Err(FqdnTooLong { fqdn }),
            Some(fqdn) => Ok(fqdn),
            None => Ok(self.name.clone()),
        }
    }
}

/// Names are ASCII by now; one that is cut ends in neither '-' nor '.'.
fn cut(name: &str) -> String {
    let cut: String = name.chars().take(MAX_NAME).collect();
    if name.len() > MAX_NAME { cut.trim_end_matches(['-', '.']).to_owned() } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn names_by_what_the_manifest_says() {
        let (long, dashed) = ("a".repeat(65), format!("{}-.b", "a".repeat(61)));
        // hostname, subdomain, hostnameOverride, the cluster's domain; name and domain.
        type Row<'a> = ([Option<&'a str>; 3], &'a str, &'a str, Option<&'a str>);
        let rows: [Row<'_>; 9] = [
            ([None, None, None], "cluster.local", "web-node1", None),
            ([Some("db"), None, None], "cluster.local", "db", None),
            ([Some(""), Some(""), None], "cluster.local", "web-node1", None),
            ([Some("db"), Some("sub"), None], "cluster.local", "db", Some("sub.default.svc.cluster.local")),
            ([None, Some("sub"), None], "x.y", "web-node1", Some("sub.default.svc.x.y")),
            ([None, Some("sub"), None], "", "web-node1", Some("sub.default.svc")),
            ([Some("db"), Some("sub"), Some("my.own.name")], "cluster.local", "my.own.name", None),
            ([Some(&long), None, None], "cluster.local", &long[..63], None),
            ([None, None, Some(&dashed)], "cluster.local", &dashed[..61], None),
        ];
        for ([hostname, subdomain, instead], cluster, name, domain) in rows {
            let mut pod = pod("web-node1", "u");
            pod.spec.hostname = hostname.map(str::to_owned);
            pod.spec.subdomain = subdomain.map(str::to_owned);
            pod.spec.hostname_override = instead.map(str::to_owned);
            let expect = HostNames { name: name.into(), domain: domain.map(str::to_owned) };
            assert_eq!(host_names(&pod, cluster), expect, "{hostname:?} {subdomain:?} {instead:?}");
        }
    }

    #[test]
    fn the_kernels_name() {
        let names = |domain: Option<&str>| HostNames { name: "db".into(), domain: domain.map(str::to_owned) };
        let fits = "d".repeat(61);
        let rows = [
            (names(None), Some(true), Ok("db".to_owned())),
            (names(Some("sub.ns.svc")), None, Ok("db".to_owned())),
            (names(Some("sub.ns.svc")), Some(false), Ok("db".to_owned())),
            (names(Some("sub.ns.svc")), Some(true), Ok("db.sub.ns.svc".to_owned())),
            (names(Some(&fits)), Some(true), Ok(format!("db.{fits}"))),
            (names(Some(&format!("{fits}x"))), Some(true), Err(65)),
        ];
        for (names, as_fqdn, expect) in rows {
            let found = names.kernel_name(as_fqdn).map_err(|error| error.fqdn.len());
            assert_eq!(found, expect, "{names:?} {as_fqdn:?}");
        }
        let error = FqdnTooLong { fqdn: "db.x".into() };
        let said = "FQDN db.x is too long (64 characters is the max, 4 characters requested)";
        assert!(error.to_string().ends_with(said), "{error}");
    }
}
