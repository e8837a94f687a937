//! What a pass has to tell: the status to the sync loop, and to the disk what must outlive the agent.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use tracing::warn;

use super::Worker;
use crate::plan::checkpoint::Life;
use crate::plan::{Outlook, Plan, Want};
use crate::pod::Pod;
use crate::pod::observed::Observed;
use crate::probe::target::Verdicts;
use crate::status::pod_status::pod_status;
use crate::sync::message::Report;
use crate::sync::node_list::fingerprint;
use crate::text::chain;

impl Worker {
    /// Tells the sync loop what was seen, and notes it in the record.
    pub(super) async fn report(
        &mut self,
        want: &Want,
        observed: &Observed,
        plan: &Plan,
        probes: &Verdicts,
        now: Timestamp,
    ) {
        let mut running = false;
        let mut shown = None;
        // A pod that ends is shown as it is, until nothing is left of it.
        let is_gone = *want == Want::Stop && observed.is_empty();
        if let Some(pod) = self.shown.clone().filter(|_| !is_gone) {
            let status = self.status_of(&pod, observed, plan, probes, now);
            self.status = Some(status.clone());
            if let Want::Run(pod) = want {
                let life = if plan.outlook == Outlook::Completed { Life::Completed } else { Life::Open };
                self.record.note(pod, life, status.clone());
            }
            running = observed.sandboxes.iter().any(|s| s.is_of(&pod) && s.ready);
            shown = Some((pod, status));
        }
        self.send(Report::Synced {
            pod: self.name.clone(),
            status: shown,
            seen: fingerprint(observed),
            running,
        })
        .await;
    }

    fn status_of(
        &self,
        pod: &Pod,
        observed: &Observed,
        plan: &Plan,
        probes: &Verdicts,
        now: Timestamp,
    ) -> Arc<PodStatus> {
        if let Some(standing) = self.record.standing(pod, observed) {
            return standing;
        }
        // What is being ended is no part of the instance that follows it.
        let nothing = Observed::default();
        let observed = if plan.outlook == Outlook::EndsFirst { &nothing } else { observed };
        let node_ips = self.context.runtime.node_ips.get();
        Arc::new(pod_status(pod, observed, plan, probes, self.status.as_ref(), &node_ips, now))
    }

    /// Keeps what must outlive the agent. Pods matter more than records: without a disk they are run all the same.
    pub(super) async fn keep_record(&mut self, plan: &Plan) {
        let Some(durability) = self.record.durability(&self.kept).filter(|_| !self.record.is_empty()) else {
            return;
        };
        let goes_on = !plan.steps.is_empty() && self.setback.count == 0;
        if goes_on && self.record.may_wait(&self.kept) {
            return;
        }
        match self.context.records.write(&self.name, self.record.clone(), durability).await {
            Ok(()) => {
                self.kept = self.record.clone();
                self.unkept.clear();
            }
            Err(error) => {
                let error = chain(&error);
                if self.unkept != error {
                    warn!(pod = %self.name, error, "cannot keep what must outlive the agent; trying again");
                    self.unkept = error;
                }
            }
        }
    }
}
