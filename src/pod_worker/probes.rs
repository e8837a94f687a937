//! Which probes the pod has now, and what they have found.

use std::collections::BTreeSet;

use super::Worker;
use crate::observed::Observed;
use crate::plan::Want;
use crate::pod::status::pod_ips;
use crate::probe::target::{Course, Scene, Verdicts, targets};
use crate::runtime::hooks::LOOPBACK;

impl Worker {
    /// Tells the prober, and reads what it knows.
    pub(super) fn watch_probes(&self, want: &Want, observed: &Observed) -> Verdicts {
        let Some(pod) = &self.shown else { return Verdicts::default() };
        let starting: BTreeSet<_> = self.start_hooks.keys().cloned().collect();
        let node_ips = self.context.runtime.node_ips.get();
        let sandbox = observed.newest_sandbox(&pod.uid);
        let ips = pod_ips(pod, sandbox, &node_ips);
        let ends = *want == Want::Stop || sandbox.is_some_and(|s| self.record.ended.contains(&s.id));
        let targets = targets(&Scene {
            pod,
            observed,
            previous: self.status.as_deref(),
            starting: &starting,
            course: if ends { Course::Ends } else { Course::Lives },
            host: ips.first().map_or(LOOPBACK, String::as_str),
        });
        self.context.prober.watch(&self.name, &pod.uid, targets)
    }
}
