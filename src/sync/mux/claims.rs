//! What only one pod of the node can have: a UID, a port of the host. Who had it keeps it, else the source of higher
//! precedence has it.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::order::Pods;
use crate::pod::{Finding, HostPort, Pod, PodName, PodUid};

/// Every address of the host.
const ANY: [&str; 3] = ["", "0.0.0.0", "::"];

/// Something that two pods cannot both have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sync) enum Claim {
    Uid(String),
    HostPort { protocol: String, port: i32, ip: String },
}

impl Claim {
    /// Both cannot be had at the same time.
    pub(in crate::sync) fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Uid(own), Self::Uid(other)) => own == other,
            (
                Self::HostPort { protocol, port, ip },
                Self::HostPort { protocol: other_protocol, port: other_port, ip: other_ip },
            ) => {
                let any = |ip: &String| ANY.contains(&ip.as_str());
                protocol == other_protocol
                    && port == other_port
                    && (ip == other_ip || any(ip) || any(other_ip))
            }
            _ => false,
        }
    }

    /// What a pod is told that waits for it.
    pub(in crate::sync) fn in_words(&self, owner: &PodName) -> String {
        match self {
            Self::Uid(uid) => format!("starts when nothing is left of pod {owner}, which has the UID {uid}"),
            Self::HostPort { protocol, port, .. } => {
                format!(
                    "starts when nothing is left of pod {owner}, which has port {port}/{protocol} of the host"
                )
            }
        }
    }

    /// Why a pod is refused that wants what another one has.
    fn finding(&self, owner: &PodName) -> Finding {
        match self {
            Self::Uid(uid) => {
                Finding::new("metadata.uid", format!("UID {uid} is already that of pod {owner}"))
            }
            Self::HostPort { protocol, port, .. } => Finding::new(
                "spec.containers.ports.hostPort",
                format!("NodePorts: port {port}/{protocol} of the host is already that of pod {owner}"),
            ),
        }
    }

    /// What is looked up before [`Claim::excludes`] is asked.
    fn key(&self) -> ClaimKey {
        match self {
            Self::Uid(uid) => ClaimKey::Uid(uid.clone()),
            Self::HostPort { port, .. } => ClaimKey::Port(*port),
        }
    }
}

/// Claims with different keys do not exclude each other.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimKey {
    Uid(String),
    Port(i32),
}

/// All that a pod claims.
pub(in crate::sync) fn claims(pod: &Pod) -> BTreeSet<Claim> {
    claims_of(&pod.uid, pod.host_ports())
}

/// All that an instance with this UID and these ports claims.
pub(in crate::sync) fn claims_of(uid: &PodUid, ports: impl IntoIterator<Item = HostPort>) -> BTreeSet<Claim> {
    let ports =
        ports.into_iter().map(|HostPort { protocol, port, ip }| Claim::HostPort { protocol, port, ip });
    ports.chain([Claim::Uid(uid.to_string())]).collect()
}

/// Refuses pods that claim what another one has. In place of a refused one stays the version of `before`, if it claims only
/// what nobody else has.
pub(super) fn refuse_claimed(wanted: Pods, before: &Pods) -> (Pods, BTreeMap<PodName, Finding>) {
    let mut claimed = ClaimTable::default();
    let (mut merged, mut refused, mut left_over) = (Pods::new(), BTreeMap::new(), Vec::new());
    let kept =
        |pod: &Pod| before.get(&pod.name).is_some_and(|before| claims(before).is_superset(&claims(pod)));
    let mut in_turn: Vec<_> = wanted.into_values().collect();
    in_turn.sort_by_key(|pod| (!kept(pod), pod.source));
    for pod in in_turn {
        match claimed.add(&pod) {
            Ok(()) => drop(merged.insert(pod.name.clone(), pod)),
            Err(finding) => {
                left_over.extend(before.get(&pod.name).cloned());
                refused.insert(pod.name.clone(), finding);
            }
        }
    }
    for pod in left_over {
        if claimed.add(&pod).is_ok() {
            merged.insert(pod.name.clone(), pod);
        }
    }
    (merged, refused)
}

/// Who has what.
#[derive(Debug, Default)]
struct ClaimTable(BTreeMap<ClaimKey, Vec<(Claim, PodName)>>);

impl ClaimTable {
    /// Notes all that a pod claims, or nothing of it.
    fn add(&mut self, pod: &Pod) -> Result<(), Finding> {
        let all = claims(pod);
        for claim in &all {
            let others = self.0.get(&claim.key()).into_iter().flatten();
            if let Some((_, owner)) = others.into_iter().find(|(other, _)| claim.excludes(other)) {
                return Err(claim.finding(owner));
            }
        }
        for claim in all {
            self.0.entry(claim.key()).or_default().push((claim, pod.name.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;
    use crate::pod::testing::pod;

    fn with_port(name: &str, host_port: i32, protocol: Option<&str>, ip: Option<&str>) -> Arc<Pod> {
        let mut pod = pod(name, name);
        pod.spec.containers[0].ports = Some(vec![ContainerPort {
            host_port: Some(host_port),
            protocol: protocol.map(str::to_owned),
            host_ip: ip.map(str::to_owned),
            ..ContainerPort::default()
        }]);
        Arc::new(pod)
    }

    fn pods(all: &[&Arc<Pod>]) -> Pods {
        all.iter().map(|pod| (pod.name.clone(), (*pod).clone())).collect()
    }

    #[test]
    fn a_port_of_the_host_belongs_to_one_pod() {
        let tcp = Some("TCP");
        let rows = [
            ("another port", with_port("b", 81, None, None), true),
            ("the same port", with_port("b", 80, None, None), false),
            ("the same, written out", with_port("b", 80, tcp, Some("0.0.0.0")), false),
            ("another protocol", with_port("b", 80, Some("UDP"), None), true),
            ("one address of all", with_port("b", 80, tcp, Some("192.0.2.1")), false),
        ];
        let first = with_port("a", 80, None, None);
        for (name, second, fits) in &rows {
            let (merged, refused) = refuse_claimed(pods(&[&first, second]), &Pods::new());
            assert_eq!((merged.len() == 2, refused.is_empty()), (*fits, *fits), "{name}");
        }
        let (one, other) = (Some("192.0.2.1"), Some("192.0.2.2"));
        for (name, first, second, fits) in [
            ("different addresses", (80, one), (80, other), true),
            ("the same address", (80, one), (80, one), false),
            ("all addresses, after one of them", (80, one), (80, Some("::")), false),
            ("no port of the host", (0, None), (0, None), true),
        ] {
            let (first, second) =
                (with_port("a", first.0, None, first.1), with_port("b", second.0, None, second.1));
            let (_, refused) = refuse_claimed(pods(&[&first, &second]), &Pods::new());
            assert_eq!(refused.is_empty(), fits, "{name}");
        }
    }

    #[test]
    fn who_has_it_keeps_it() {
        let (a, b) = (with_port("a", 80, None, None), with_port("b", 80, None, None));
        let (merged, refused) = refuse_claimed(pods(&[&a, &b]), &pods(&[&b]));
        assert_eq!(merged.keys().collect::<Vec<_>>(), [&b.name]);
        let why = refused[&a.name].to_string();
        assert!(why.contains("NodePorts: port 80/TCP of the host is already that of pod default/b"), "{why}");
        // An edit towards a port that is taken: the last good version stays.
        let before = with_port("a", 81, None, None);
        let (merged, refused) = refuse_claimed(pods(&[&a, &b]), &pods(&[&before, &b]));
        assert_eq!((merged[&a.name].clone(), refused.len()), (before.clone(), 1));
        // Both move at once: nobody has what the other wants.
        let moved = with_port("b", 81, None, None);
        let (merged, refused) = refuse_claimed(pods(&[&a, &moved]), &pods(&[&before, &b]));
        assert_eq!((merged.len(), refused.len()), (2, 0));
    }
}
