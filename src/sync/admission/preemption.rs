//! Who makes room for a pod of higher priority: kubelet's choice.
//!
//! As few Guaranteed pods as possible, then as few Burstable ones; within a class whoever comes nearest to what is missing.

use super::{Requests, Shortage};
use crate::pod::PodName;
use crate::pod::qos::QosClass;

/// A pod that could make room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: PodName,
    pub(crate) class: QosClass,
    pub(crate) requests: Requests,
}

/// Something of which more must be free.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    resource: String,
    quantity: i64,
}

/// Chooses pods whose requests together are at least what is missing; none if all of them are not enough.
pub(crate) fn select_victims(candidates: &[Candidate], shortages: &[Shortage]) -> Option<Vec<PodName>> {
    let missing: Vec<_> = shortages
        .iter()
        .map(|shortage| Requirement { resource: shortage.resource.clone(), quantity: shortage.missing() })
        .collect();
    let of = |class| candidates.iter().filter(move |c| c.class == class).collect::<Vec<_>>();
    let (best_effort, burstable) = (of(QosClass::BestEffort), of(QosClass::Burstable));
    // What must go though all of the lower classes go.
    let lower = [&best_effort[..], &burstable[..]].concat();
    let guaranteed = select_nearest(of(QosClass::Guaranteed), subtract(&missing, &lower))?;
    let beside = [&best_effort[..], &guaranteed[..]].concat();
    let burstable = select_nearest(burstable, subtract(&missing, &beside))?;
    let beside = [&burstable[..], &guaranteed[..]].concat();
    let best_effort = select_nearest(best_effort, subtract(&missing, &beside))?;
    let all = best_effort.into_iter().chain(burstable).chain(guaranteed);
    Some(all.map(|candidate| candidate.name.clone()).collect())
}

fn select_nearest(mut pods: Vec<&Candidate>, mut missing: Vec<Requirement>) -> Option<Vec<&Candidate>> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let nearest = pods.iter().enumerate().min_by(|(_, a), (_, b)| {
            let by_size = |name| a.requests.get(name).cmp(&b.requests.get(name));
            let by_distance = distance(&missing, a).total_cmp(&distance(&missing, b));
            by_distance.then_with(|| by_size("memory")).then_with(|| by_size("cpu"))
        });
        let pod = pods.remove(nearest?.0);
        missing = subtract(&missing, &[pod]);
        chosen.push(pod);
    }
    Some(chosen)
}

/// How far the pod alone is from meeting the requirements, each of which counts the same.
fn distance(missing: &[Requirement], pod: &Candidate) -> f64 {
    let each = missing.iter().map(|Requirement { resource, quantity }| {
        let rest = quantity.saturating_sub(pod.requests.get(resource)).max(0);
        // Only compared: the precision of large numbers does not matter.
        let fraction = rest as f64 / *quantity as f64;
        fraction * fraction
    });
    each.sum()
}

/// What is still missing when these pods are gone.
fn subtract(missing: &[Requirement], pods: &[&Candidate]) -> Vec<Requirement> {
    let each = missing.iter().map(|Requirement { resource, quantity }| {
        let freed = pods.iter().map(|pod| pod.requests.get(resource)).fold(0, i64::saturating_add);
        Requirement { resource: resource.clone(), quantity: quantity.saturating_sub(freed) }
    });
    each.filter(|requirement| requirement.quantity > 0).collect()
}
