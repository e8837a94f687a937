//! Pods that nobody wants any more, and pods of sources that this agent was not given. Pure.

use std::collections::BTreeSet;

use super::{Command, SyncLoop};
use crate::plan::Want;
use crate::plan::checkpoint::Remembered;
use crate::pod::{PodName, Source};

impl SyncLoop {
    /// Pods that run and are not wanted end, once their own source has said all that it holds. A pod that names
    /// no source was not made by a kubelet from a source of ours: it is left alone.
    pub(super) fn end_orphans(&mut self) -> Vec<Command> {
        let Some(list) = &self.listed else { return Vec::new() };
        let is_over = |source| source != Source::Api && self.config.is_settled(source);
        // A name may have sandboxes of two sources, if its pod moved: neither may still want it.
        let all_over = |sources: &BTreeSet<Option<Source>>| {
            !sources.is_empty() && sources.iter().all(|source| source.is_some_and(is_over))
        };
        let held = list.iter().filter(|(_, listed)| all_over(&listed.sources));
        // A checkpoint without an instance is worth nothing once the runtime holds nothing of the pod.
        let forgotten = |past: &Remembered| {
            let last = past.checkpoint.instance.as_ref();
            last.is_none_or(|last| is_over(last.source))
        };
        let remembered =
            self.remembered.iter().filter(|(name, past)| !list.contains_key(name) && forgotten(past));
        let is_wanted = |name: &PodName| self.config.get(name).is_some() || self.config.refuses(name);
        let orphans: Vec<_> = held
            .map(|(name, _)| name)
            .chain(remembered.map(|(name, _)| name))
            .filter(|name| !self.workers.contains_key(name) && !is_wanted(name))
            .cloned()
            .collect();
        let orphans: Vec<_> =
            orphans.into_iter().map(|name| self.set_desired(name, Want::Stop { grace: None })).collect();
        orphans.iter().filter_map(|name| self.tell(name)).collect()
    }

    /// Pods of a source that this agent was not given: they run, and nobody looks after them.
    pub(crate) fn left_alone(&self) -> Vec<&PodName> {
        let listed = self.listed.iter().flatten();
        listed
            .filter(|(_, l)| l.sources.iter().flatten().any(|source| !self.config.expects(*source)))
            .map(|(name, _)| name)
            .collect()
    }
}
