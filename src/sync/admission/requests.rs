//! Requests of pods, as sums are made of them.

use std::collections::BTreeMap;

use crate::pod::Pod;
use crate::pod::node_allocatable::ResourceAmounts;
use crate::pod::quantity::Amount;
use crate::pod::resources::total::pod_resources;

use super::PODS;

/// Resources by name: thousandths of CPUs, bytes, or a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Requests(BTreeMap<String, i64>);

impl Requests {
    /// What a pod requests, itself as one pod.
    pub(crate) fn of(pod: &Pod) -> Self {
        let all = pod_resources(&pod.spec).requests.unwrap_or_default();
        let amounts = all.iter().filter_map(|(name, quantity)| {
            let amount = Amount::parse(&quantity.0).ok()?;
            Some((name.clone(), in_units(name, amount)))
        });
        amounts.chain([(PODS.to_owned(), 1)]).collect()
    }

    /// These amounts.
    pub(crate) fn of_amounts(amounts: &ResourceAmounts) -> Self {
        amounts.iter().map(|(name, amount)| (name.clone(), in_units(name, *amount))).collect()
    }

    /// How much of a resource.
    pub(crate) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The resources that it names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Has these instead of what it had of them; true if that is another amount.
    pub(crate) fn replace(&mut self, amounts: &BTreeMap<String, usize>) -> bool {
        let mut changed = false;
        for (name, amount) in amounts {
            let amount = i64::try_from(*amount).unwrap_or(i64::MAX);
            changed |= self.0.insert(name.clone(), amount) != Some(amount);
        }
        changed
    }

    /// The sum of both.
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        self
    }

    /// The greater of both, for each resource: two instances of a name never run at the same time.
    pub(crate) fn max(mut self, other: &Self) -> Self {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_default();
            *most = (*most).max(*amount);
        }
        self
    }
}

impl FromIterator<(String, i64)> for Requests {
    fn from_iter<I: IntoIterator<Item = (String, i64)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

/// An amount in the unit that sums of the resource are made in.
fn in_units(name: &str, amount: Amount) -> i64 {
    if name == "cpu" { amount.milli_value() } else { amount.value() }
}
