//! Which probes the pod has now, and what they have found.

use std::collections::BTreeSet;

use super::Worker;
use crate::plan::Want;
use crate::pod::observed::Observed;
use crate::probe::target::{PodGoal, ProbeHost, ProbedPod, Verdicts, targets};

impl Worker {
    /// Tells the prober, and reads what it knows.
    pub(super) fn watch_probes(&self, want: &Want, observed: &Observed) -> Verdicts {
        let Some(instance) = &self.instance else { return Verdicts::default() };
        let pod = &instance.pod;
        let starting: BTreeSet<_> = self.start_hooks.keys().cloned().collect();
        let node_ips = self.context.runtime.node_ips();
        let sandbox = observed.newest_sandbox(&pod.uid);
        let host = ProbeHost::of(pod, sandbox, &node_ips);
        let ids = observed.containers.iter().map(|container| &container.id);
        let ending: BTreeSet<_> = ids.filter(|id| self.terminations.has_begun(id)).cloned().collect();
        let checkpoint = &self.checkpoint.current;
        let ends = !matches!(want, Want::Run(_))
            || sandbox.is_some_and(|s| checkpoint.terminating_sandboxes.contains(&s.id));
        let targets = targets(&ProbedPod {
            pod,
            observed,
            previous: instance.state.as_deref(),
            starting: &starting,
            ending: &ending,
            goal: if ends { PodGoal::Stop } else { PodGoal::Run },
            host: &host,
        });
        self.context.prober.watch(&self.name, &pod.uid, targets)
    }
}
