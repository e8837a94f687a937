//! What the prober asks for, answered by the model.

use std::time::Duration;

use super::world::{OnDrop, Sim, sleep};
use crate::probe::check::Check;
use crate::probe::schedule::{ProbeKey, ProbeResult, Ran};
use crate::probe::target::ProbeHost;
use crate::runtime::{Answer, ProbeRunner};

/// The probes as one agent runs them.
#[derive(Debug)]
pub(super) struct SimProbes {
    pub(super) sim: Sim,
    pub(super) agent: u32,
}

impl ProbeRunner for SimProbes {
    fn run_probe<'a>(
        &'a self,
        key: &'a ProbeKey,
        _: &'a Check,
        _: &'a ProbeHost,
        timeout: Duration,
    ) -> Answer<'a, Ran> {
        Box::pin(async move {
            let wait = self.sim.lock().millis(1, 900).min(timeout);
            self.sim.lock().probing += 1;
            let _over = OnDrop(|| self.sim.lock().probing -= 1);
            sleep(self.sim.clone(), Some(self.agent), wait).await;
            let mut world = self.sim.lock();
            let ran = |result| Ran { result, output: String::new() };
            if world.agent != Some(self.agent) || world.node.away {
                return ran(ProbeResult::Unknown);
            }
            let share = world.faults.probe_fails;
            let fails = world.chance(share);
            match world.node.containers.get_mut(&key.id).filter(|container| container.runs()) {
                None => ran(ProbeResult::Unknown),
                Some(container) if fails => {
                    container.failed_probes += 1;
                    ran(ProbeResult::Failure)
                }
                Some(_) => ran(ProbeResult::Success),
            }
        })
    }
}
