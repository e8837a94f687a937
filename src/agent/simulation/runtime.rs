//! What workers and the prober ask of the runtime, answered by the model.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::calls::{Caller, Request, error};
use super::world::{OnDrop, Sim, Slot, World, sleep};
use crate::host::volume::OldFiles;
use crate::plan::{PullPermit, RemoveContainer, Signalling, StartContainer};
use crate::pod::hook::Hook;
use crate::pod::object::PodObjects;
use crate::pod::observed::{Observed, Sandbox};
use crate::pod::priority::priority;
use crate::pod::state::Waiting;
use crate::pod::{ContainerId, Pod, PodName, PodUid, SandboxId};
use crate::runtime::cri::{CriError, ErrorClass};
use crate::runtime::handlers::hooks::{HookError, POST_START_LIMIT};
use crate::runtime::{
    Answer, Cache, Image, ImageError, Made, Permit, PodRuntime, PriorityLimiter, SandboxContext, StartError,
    StepError,
};
use crate::time::backoff::Backoff;

/// How long a sandbox in the making holds its permit.
const MAX_PERMIT: Duration = Duration::from_secs(5);

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

fn start_error(reason: &str, error: CriError) -> StartError {
    if error.is_away() {
        return StartError::Away(error);
    }
    StartError::Refused {
        backoff: Backoff::STEP,
        waiting: Waiting { reason: reason.into(), message: error.message },
    }
}

impl PodRuntime for SimRuntime {
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

    fn update_volumes<'a>(
        &'a self,
        _: &'a Arc<Pod>,
        _: &'a Arc<PodObjects>,
        _: OldFiles,
    ) -> Answer<'a, Result<(), StepError>> {
        Box::pin(future::ready(Ok(())))
    }

    fn prepare_instance<'a>(
        &'a self,
        pod: &'a Arc<Pod>,
        _: &'a Arc<PodObjects>,
    ) -> Answer<'a, Result<(), StartError>> {
        Box::pin(async move {
            let prepared = self.step(&pod.name, "Prepare").send(|_| Ok(())).await;
            prepared.map_err(|error| start_error("FailedMount", error))
        })
    }

    fn sandbox_context<'a>(
        &'a self,
        _: &'a Pod,
        attempt: u32,
    ) -> Answer<'a, Result<SandboxContext, StartError>> {
        Box::pin(future::ready(Ok(SandboxContext::of_attempt(attempt))))
    }

    fn sandbox_permit<'a>(&'a self, pod: &'a Pod) -> Answer<'a, Permit> {
        Box::pin(self.permits.acquire(priority(&pod.spec)))
    }

    fn create_sandbox<'a>(
        &'a self,
        pod: &'a Pod,
        context: SandboxContext,
        permit: Permit,
    ) -> Answer<'a, Result<SandboxId, StartError>> {
        let attempt = context.attempt();
        Box::pin(async move {
            let version = self.sim.lock().manifests.version(&pod.hash);
            if !self.is_dead() {
                self.sim.lock().check_start(&version, None);
            }
            let request = self.request(&pod.name, "RunPodSandbox", Caller::Worker, (20, 400));
            let run = request.send(move |world| world.run_sandbox(&version, attempt));
            let release = async {
                sleep(self.sim.clone(), Some(self.agent), MAX_PERMIT).await;
                drop(permit);
                future::pending().await
            };
            future::or(run, release).await.map_err(|error| start_error("CreatePodSandboxError", error))
        })
    }

    fn look_for_image<'a>(
        &'a self,
        _: &'a Pod,
        container: &'a ContainerSpec,
        permit: PullPermit,
    ) -> Answer<'a, Result<Image, ImageError>> {
        let image = container.image.clone().unwrap_or_default();
        let always = container.image_pull_policy.as_deref() == Some("Always");
        Box::pin(async move {
            // Asked by workers and by their jobs alike.
            let of = PodName::new("", "images");
            let looked = image.clone();
            let request = self.request(&of, "ImageStatus", Caller::Job, (1, 10));
            let there = request.send(move |world| Ok(world.node.images.contains(&looked))).await;
            let there = there.map_err(|error| ImageError::Start(start_error("ImageInspectError", error)))?;
            match (there && !always, permit) {
                (true, _) => Ok(Image::Present(image)),
                (false, PullPermit::Pull) => Ok(Image::ToBePulled),
                (false, PullPermit::Look) => Err(ImageError::Absent),
            }
        })
    }

    fn pull_image<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a ContainerSpec,
        _: &'a PodObjects,
        _: SandboxContext,
    ) -> Answer<'a, Result<String, ImageError>> {
        let image = container.image.clone().unwrap_or_default();
        Box::pin(async move {
            let pulled = image.clone();
            let takes = (100, if self.sim.lock().chance(0.2) { 40_000 } else { 2_000 });
            let request = self.request(&pod.name, "PullImage", Caller::Job, takes);
            let done = request.send(move |world| {
                let share = world.faults.pull_fails;
                if world.chance(share) {
                    return Err(error("PullImage", ErrorClass::Refused, "no such image"));
                }
                world.node.images.insert(pulled);
                Ok(())
            });
            match done.await {
                Ok(()) => Ok(image),
                Err(error) if error.is_away() => Err(ImageError::Start(StartError::Away(error))),
                Err(error) => {
                    Err(ImageError::Pull(Waiting { reason: "ErrImagePull".into(), message: error.message }))
                }
            }
        })
    }

    fn create_container<'a>(
        &'a self,
        pod: &'a Pod,
        start: &'a StartContainer,
        _: &'a PodObjects,
        _: &'a Sandbox,
        _: String,
        _: SandboxContext,
    ) -> Answer<'a, Result<ContainerId, StartError>> {
        let start = start.clone();
        Box::pin(async move {
            let version = self.sim.lock().manifests.version(&pod.hash);
            if !self.is_dead() {
                self.sim.lock().check_start(&version, Some(&start));
            }
            let request = self.step(&pod.name, "CreateContainer");
            let created = request.send(move |world| world.create_container(&version, &start)).await;
            created.map_err(|error| start_error("CreateContainerError", error))
        })
    }

    fn start_container<'a>(
        &'a self,
        pod: &'a Pod,
        _: &'a StartContainer,
        id: &'a ContainerId,
    ) -> Answer<'a, Result<(), StartError>> {
        Box::pin(async move {
            let started = id.clone();
            let request = self.step(&pod.name, "StartContainer");
            let answer = request.send(move |world| world.start_container(&started)).await;
            if answer.is_ok()
                && let Some(container) = self.sim.lock().node.containers.get_mut(id)
            {
                container.started_by = Some(self.agent);
            }
            answer.map_err(|error| start_error("RunContainerError", error))
        })
    }

    fn run_hook<'a>(
        &'a self,
        id: &'a ContainerId,
        _: &'a Hook,
        _: Option<&'a str>,
        limit: Duration,
    ) -> Answer<'a, Result<(), HookError>> {
        Box::pin(async move {
            let (wait, fails) = {
                let mut world = self.sim.lock();
                let (hangs, fails) = (world.faults.hook_hangs, world.faults.hook_fails);
                match world.chance(hangs) {
                    true => (limit.min(world.millis(20_000, 200_000)), true),
                    false => (limit.min(world.millis(10, 3_000)), world.chance(fails)),
                }
            };
            if limit != POST_START_LIMIT
                && let Some(container) = self.sim.lock().node.containers.get_mut(id)
            {
                // Its end has begun.
                container.disturbed = true;
            }
            self.sim.lock().hooking += 1;
            let _over = OnDrop(|| self.sim.lock().hooking -= 1);
            sleep(self.sim.clone(), Some(self.agent), wait).await;
            if !fails || self.is_dead() {
                return Ok(());
            }
            if let Some(container) = self.sim.lock().node.containers.get_mut(id) {
                container.hook_failed = true;
            }
            Err(HookError::Late(wait))
        })
    }

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

    fn node_ips(&self) -> Vec<String> {
        vec!["192.0.2.1".into()]
    }
}
