//! What workers and the prober ask of the runtime, answered by the model.

mod starts;

use std::time::Duration;

use futures_lite::future;

use super::calls::{Caller, Request, error};
use super::world::{Sim, Slot, World, sleep};
use crate::plan::{RemoveContainer, Signalling};
use crate::pod::observed::Observed;
use crate::pod::{ContainerId, PodName, PodUid, SandboxId};
use crate::runtime::cri::{CriError, ErrorClass};
use crate::runtime::{Answer, Cache, Made, PodObserver, PodStopper, PriorityLimiter, StepError};

/// The runtime as one agent uses it.
#[derive(Debug)]
pub(super) struct SimRuntime {
    sim: Sim,
    agent: u32,
    permits: PriorityLimiter,
}

impl SimRuntime {
    pub(super) fn new(sim: Sim, agent: u32) -> Self {
        Self { sim, agent, permits: PriorityLimiter::new(2) }
    }

    fn request(&self, pod: &PodName, op: &'static str, by: Caller, takes: (u64, u64)) -> Request {
        let (sim, agent, pod) = (self.sim.clone(), self.agent, pod.clone());
        Request { sim, agent, pod, op, by, takes }
    }

    fn step(&self, pod: &PodName, op: &'static str) -> Request {
        self.request(pod, op, Caller::Worker, (1, 60))
    }

    /// The pod that a container belongs to.
    fn owner(&self, id: &ContainerId) -> PodName {
        let world = self.sim.lock();
        let found = world.node.containers.get(id).map(|container| container.pod.name.clone());
        found.unwrap_or_else(|| PodName::new("", "unknown"))
    }

    fn owner_of_sandbox(&self, id: &SandboxId) -> PodName {
        let world = self.sim.lock();
        let found = world.node.sandboxes.get(id).map(|sandbox| sandbox.pod.name.clone());
        found.unwrap_or_else(|| PodName::new("", "unknown"))
    }

    fn is_dead(&self) -> bool {
        self.sim.lock().agent != Some(self.agent)
    }
}

impl PodObserver for SimRuntime {
    fn observe<'a>(&'a self, pod: &'a PodName, _: &'a mut Cache) -> Answer<'a, Result<Observed, CriError>> {
        Box::pin(async move {
            let of = pod.clone();
            let mut observed = self.step(pod, "List").send(move |world| Ok(world.observed(&of))).await?;
            let again = self.sim.lock().chance(0.1);
            if again {
                // The two lists are of different moments.
                let of = pod.clone();
                let later = self.step(pod, "List").send(move |world| Ok(world.observed(&of))).await?;
                observed.containers = later.containers;
            }
            Ok(observed)
        })
    }

    fn observe_made<'a>(
        &'a self,
        before: Observed,
        made: &'a [Made],
        _: &'a mut Cache,
    ) -> Answer<'a, Result<Observed, CriError>> {
        let (made, mut observed) = (made.to_vec(), before);
        let of = observed.sandboxes.first().map(|sandbox| sandbox.id.clone());
        let of = of.or_else(|| match made.first() {
            Some(Made::Sandbox(id)) => Some(id.clone()),
            Some(Made::Container { sandbox, .. }) => Some(sandbox.clone()),
            None => None,
        });
        let pod = self.owner_of_sandbox(&of.unwrap());
        Box::pin(self.step(&pod, "Status").send(move |world| {
            let gone = || error("Status", ErrorClass::NotFound, "not found");
            for made in made {
                match made {
                    Made::Sandbox(id) => {
                        let found = world.node.sandboxes.get(&id).ok_or_else(gone)?;
                        observed.sandboxes.push(found.seen.clone());
                    }
                    Made::Container { id, .. } => {
                        let found = world.node.containers.get(&id).ok_or_else(gone)?;
                        observed.containers.push(found.seen.clone());
                    }
                }
            }
            Ok(observed)
        }))
    }

    fn node_ips(&self) -> Vec<String> {
        vec!["192.0.2.1".into()]
    }
}

impl PodStopper for SimRuntime {
    fn end_container<'a>(
        &'a self,
        id: &'a ContainerId,
        grace: u64,
        signal: Signalling,
    ) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move {
            if !self.is_dead() {
                self.sim.lock().check_end(id, "StopContainer");
            }
            let pod = self.owner(id);
            let request = self.request(&pod, "StopContainer", Caller::Job, (1, 30));
            let told = id.clone();
            match signal {
                Signalling::Sent => self.sim.lock().check_signalled(id),
                Signalling::Send(signal) => {
                    let terminate = move |world: &mut World| world.terminate(&told, Some(signal));
                    request.clone().send(move |world| world.done(terminate)).await?;
                }
                Signalling::Runtime => {
                    let terminate = move |world: &mut World| world.terminate(&told, None);
                    request.clone().send(move |world| world.done(terminate)).await?;
                }
            }
            let slot = Slot::default();
            self.sim.lock().await_exit(id, slot.clone());
            let exit = std::future::poll_fn(|context| slot.poll(context));
            future::or(exit, sleep(self.sim.clone(), Some(self.agent), Duration::from_secs(grace))).await;
            let killed = id.clone();
            Ok(request.send(move |world| world.done(|world| world.kill(&killed))).await?)
        })
    }

    fn remove_container<'a>(
        &'a self,
        pod: &'a PodName,
        container: &'a RemoveContainer,
    ) -> Answer<'a, Result<(), StepError>> {
        let id = container.id.clone();
        Box::pin(async move {
            if !self.is_dead() {
                let mut world = self.sim.lock();
                // One whose start came to nobody's knowledge may be removed as one that never ran.
                if world.node.containers.get(&id).is_some_and(|container| container.started_by.is_some()) {
                    world.check_end(&id, "RemoveContainer");
                }
            }
            let removed = self
                .step(pod, "RemoveContainer")
                .send(move |world| world.done(|world| world.remove_container(&id)));
            Ok(removed.await?)
        })
    }

    fn stop_sandbox<'a>(&'a self, id: &'a SandboxId) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move {
            if !self.is_dead() {
                self.sim.lock().check_end_of_sandbox(id);
            }
            let (pod, id) = (self.owner_of_sandbox(id), id.clone());
            Ok(self
                .step(&pod, "StopPodSandbox")
                .send(move |world| world.done(|world| world.stop_sandbox(&id)))
                .await?)
        })
    }

    fn remove_sandbox<'a>(&'a self, id: &'a SandboxId) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move {
            let (pod, id) = (self.owner_of_sandbox(id), id.clone());
            Ok(self.step(&pod, "RemovePodSandbox").send(move |world| world.remove_sandbox(&id)).await?)
        })
    }

    fn release_instance<'a>(
        &'a self,
        pod: &'a PodName,
        uid: &'a PodUid,
    ) -> Answer<'a, Result<(), StepError>> {
        let uid = uid.clone();
        Box::pin(async move {
            if !self.is_dead() {
                self.sim.lock().check_release(pod, &uid);
            }
            let released =
                self.step(pod, "Release").send(move |world| world.done(|world| world.remove_directory(&uid)));
            Ok(released.await?)
        })
    }
}
