//! Whether the wanted instance may start, and what its annotations ask for.

use std::time::Duration;

use tracing::{info, warn};

use super::Worker;
use crate::plan::order::{self, Gate, Opened};
use crate::plan::{Desired, Want};
use crate::pod::observed::Observed;
use crate::pod::{Pod, annotations};

impl Worker {
    /// Warns of what a pod asks for in vain.
    pub(super) fn check_annotations(&self, pod: &Pod) {
        let key = annotations::MAX_RESTART_BACKOFF;
        let asked = annotations::duration(&pod.metadata, key).ok().flatten();
        let cap = self.context.crash_loop.cap;
        if let Some(asked) = asked.filter(|asked| *asked > cap) {
            warn!(pod = %self.name, annotation = key, ?asked, ?cap, "a pod can only lower the node's cap");
        }
    }

    /// Whether the wanted instance may start; logs only on change.
    pub(super) fn judge_gate(&mut self, desired: &Desired, observed: &Observed, uptime: Duration) -> Gate {
        let (Want::Run(pod), Some(instance)) = (&desired.want, &mut self.instance) else {
            return Gate::Open(Opened::InOrder);
        };
        let waited = uptime.saturating_sub(instance.wanted_since);
        let gate = Gate::judge(instance.gate.as_ref(), pod, observed, &desired.blocked_on, waited);
        match (&instance.gate, &gate) {
            (Some(Gate::Shut { unmet: logged, .. }), Gate::Shut { unmet, .. }) if logged == unmet => {}
            (_, Gate::Shut { unmet, .. }) => {
                info!(pod = %self.name, after = order::in_words(unmet), "waiting for other pods");
            }
            (Some(Gate::Open(_)), Gate::Open(_)) | (_, Gate::Open(Opened::InOrder)) => {}
            (_, Gate::Open(Opened::Late(unmet))) => {
                warn!(pod = %self.name, after = order::in_words(unmet), "waited long enough for other pods; starting without them");
            }
        }
        instance.gate = Some(gate.clone());
        gate
    }
}
