//! Devices of plugins for containers: who gets which, as kubelet's device manager gives them. Pure.
//!
//! Invariant: no device is given to two pods; within a pod, only those of an init container that ends are given again to
//! containers that run after it.

pub(crate) mod checkpoint;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Container;

use super::quantity::Amount;
use super::validate::names::not_qualified_name;
use super::{ContainerRef, Pod, PodUid, containers_of, is_sidecar};

/// The key of devices without a NUMA node.
pub(crate) const NO_NODE: i64 = -1;

/// One device of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) healthy: bool,
    /// The NUMA nodes that it is near to.
    pub(crate) nodes: Vec<i64>,
}

/// What there is of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Its plugin is there: without it, nothing can be given.
    pub(crate) connected: bool,
    /// By their ids, as last heard.
    pub(crate) devices: BTreeMap<String, Device>,
}

impl Offer {
    /// What can be given or is given.
    fn healthy(&self) -> BTreeSet<String> {
        let healthy = self.devices.iter().filter(|(_, device)| self.connected && device.healthy);
        healthy.map(|(id, _)| id.clone()).collect()
    }
}

/// What a container has of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Ids by NUMA node.
    pub(crate) devices: BTreeMap<i64, Vec<String>>,
    /// The plugin's answer, as it came.
    pub(crate) answer: Vec<u8>,
}

impl Grant {
    /// The ids, each once.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.devices.values().flatten().cloned().collect()
    }
}

/// By the name of the resource.
pub(crate) type Grants = BTreeMap<String, Grant>;
/// The health of the devices that containers have: pod, container, resource, device.
pub(crate) type DeviceHealth = BTreeMap<PodUid, BTreeMap<String, BTreeMap<String, BTreeMap<String, bool>>>>;

/// Why devices cannot be given: kubelet's sentences.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeviceShortage {
    /// No plugin has ever offered any.
    #[error("cannot allocate unregistered device {0}")]
    Unregistered(String),
    /// All are ill, or the plugin is gone.
    #[error("no healthy devices present; cannot allocate unhealthy devices {0}")]
    Unhealthy(String),
    /// Others have them.
    #[error(
        "requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}"
    )]
    TooFew { resource: String, requested: usize, available: usize },
}

/// Which devices may be given to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceChoice {
    /// What is taken in any case.
    pub(crate) taken: BTreeSet<String>,
    /// What else may be taken.
    pub(crate) free: BTreeSet<String>,
    /// How many it is to have in all.
    pub(crate) count: usize,
}

impl DeviceChoice {
    /// All that the plugin may choose from; none if there is nothing to choose.
    pub(crate) fn alternatives(&self) -> Option<BTreeSet<String>> {
        (self.taken.len() < self.count).then(|| &self.taken | &self.free)
    }

    /// Follows the plugin's preference as far as it can be followed.
    pub(crate) fn settle(self, preferred: &[String]) -> BTreeSet<String> {
        let Self { mut taken, free, count } = self;
        let preferred = preferred.iter().filter(|id| free.contains(*id));
        for id in preferred.chain(&free) {
            if taken.len() >= count {
                break;
            }
            taken.insert(id.clone());
        }
        taken
    }
}

/// Who has which devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeviceAssignments {
    /// What plugins offer, by resource.
    pub(crate) offers: BTreeMap<String, Offer>,
    /// By UID and name of the container.
    pub(crate) granted: BTreeMap<PodUid, BTreeMap<String, Grants>>,
}

impl DeviceAssignments {
    /// A plugin tells all its devices. Returns the pods that have one whose health is not what it was.
    pub(crate) fn update(&mut self, resource: &str, devices: BTreeMap<String, Device>) -> BTreeSet<PodUid> {
        let offer = self.offers.entry(resource.to_owned()).or_default();
        let before = std::mem::replace(offer, Offer { connected: true, devices });
        let changed: BTreeSet<String> = offer
            .devices
            .iter()
            .filter(|(id, device)| before.devices.get(*id).is_none_or(|old| old.healthy != device.healthy))
            .map(|(id, _)| id.clone())
            .collect();
        let has =
            |grants: &Grants| grants.get(resource).is_some_and(|grant| !grant.ids().is_disjoint(&changed));
        let pods = self.granted.iter().filter(|(_, containers)| containers.values().any(has));
        pods.map(|(uid, _)| uid.clone()).collect()
    }

    /// The plugin of a resource is gone. Who has its devices keeps them.
    pub(crate) fn disconnect(&mut self, resource: &str) {
        if let Some(offer) = self.offers.get_mut(resource) {
            offer.connected = false;
        }
    }

    /// How many devices of each resource pods may request.
    pub(crate) fn allocatable(&self) -> BTreeMap<String, usize> {
        let count =
            |offer: &Offer| offer.devices.values().filter(|device| offer.connected && device.healthy).count();
        self.offers.iter().map(|(resource, offer)| (resource.clone(), count(offer))).collect()
    }

    /// The health of all devices that containers have; of those that no plugin has told of, nothing bad is known.
    pub(crate) fn health(&self) -> DeviceHealth {
        let of_grant = |(resource, grant): (&String, &Grant)| {
            let offer = self.offers.get(resource);
            let healthy = |id: &String| {
                offer.and_then(|offer| offer.devices.get(id)).is_none_or(|device| device.healthy)
            };
            let each = grant.ids().into_iter().map(|id| (id.clone(), healthy(&id)));
            (resource.clone(), each.collect())
        };
        let of_container =
            |(name, grants): (&String, &Grants)| (name.clone(), grants.iter().map(of_grant).collect());
        let of_pod = |(uid, containers): (&PodUid, &BTreeMap<String, Grants>)| {
            (uid.clone(), containers.iter().map(of_container).collect())
        };
        self.granted.iter().map(of_pod).collect()
    }

    /// What a container has.
    pub(crate) fn of(&self, uid: &PodUid, container: &str) -> Option<&Grants> {
        self.granted.get(uid)?.get(container)
    }

    /// Which devices may be given to a container; none if it has its own already.
    ///
    /// # Errors
    /// When there are too few.
    pub(crate) fn choose(
        &self,
        pod: &Pod,
        container: &str,
        resource: &str,
        count: usize,
    ) -> Result<Option<DeviceChoice>, DeviceShortage> {
        if self.of(&pod.uid, container).is_some_and(|grants| grants.contains_key(resource)) {
            return Ok(None);
        }
        let offer = self.offers.get(resource);
        let offer = offer.ok_or_else(|| DeviceShortage::Unregistered(resource.to_owned()))?;
        let healthy = offer.healthy();
        if healthy.is_empty() {
            return Err(DeviceShortage::Unhealthy(resource.to_owned()));
        }
        let again = self.reusable(pod, container, resource);
        let taken: BTreeSet<_> = again.intersection(&healthy).take(count).cloned().collect();
        let in_use = self.in_use(resource);
        let free: BTreeSet<_> = healthy.difference(&in_use).cloned().collect();
        let requested = count.saturating_sub(taken.len());
        if free.len() < requested {
            let resource = resource.to_owned();
            return Err(DeviceShortage::TooFew { resource, requested, available: free.len() });
        }
        Ok(Some(DeviceChoice { taken, free, count }))
    }

    /// Notes what a container was given.
    pub(crate) fn grant(
        &mut self,
        uid: &PodUid,
        container: &str,
        resource: &str,
        ids: BTreeSet<String>,
        answer: Vec<u8>,
    ) {
        let mut devices = BTreeMap::<i64, Vec<String>>::new();
        let offer = self.offers.get(resource);
        for id in ids {
            let nodes = offer.and_then(|offer| offer.devices.get(&id)).map(|device| device.nodes.clone());
            let nodes = nodes.filter(|nodes| !nodes.is_empty()).unwrap_or_else(|| vec![NO_NODE]);
            nodes.into_iter().for_each(|node| devices.entry(node).or_default().push(id.clone()));
        }
        let containers = self.granted.entry(uid.clone()).or_default();
        let grants = containers.entry(container.to_owned()).or_default();
        grants.insert(resource.to_owned(), Grant { devices, answer });
    }

    /// Takes back what a pod has. True if it had anything.
    pub(crate) fn release(&mut self, uid: &PodUid) -> bool {
        self.granted.remove(uid).is_some()
    }

    fn in_use(&self, resource: &str) -> BTreeSet<String> {
        let grants = self.granted.values().flat_map(BTreeMap::values);
        grants.filter_map(|grants| grants.get(resource)).flat_map(Grant::ids).collect()
    }

    /// What init containers that end have, and no container after them that runs before this one.
    fn reusable(&self, pod: &Pod, container: &str, resource: &str) -> BTreeSet<String> {
        let mut again = BTreeSet::new();
        for (place, before) in containers_of(&pod.spec) {
            if before.name == container {
                break;
            }
            let ids = self.of(&pod.uid, &before.name).and_then(|grants| grants.get(resource)).map(Grant::ids);
            let ids = ids.unwrap_or_default();
            let ends = matches!(place, ContainerRef::Init(_)) && !is_sidecar(before);
            again = if ends { &again | &ids } else { &again - &ids };
        }
        again
    }
}

/// The devices that a container is to have: how many of which resource.
pub(crate) fn wanted_devices(container: &Container) -> Vec<(String, usize)> {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let each = limits.into_iter().flatten().filter(|(name, _)| is_extended_resource(name));
    let counted = each.filter_map(|(name, quantity)| {
        let count = usize::try_from(Amount::parse(&quantity.0).ok()?.value()).ok()?;
        (count > 0).then(|| (name.clone(), count))
    });
    counted.collect()
}

/// Whether a name is that of a resource that plugins offer: one with a domain that is not Kubernetes' own.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && not_qualified_name(&format!("requests.{name}")).is_none()
}
