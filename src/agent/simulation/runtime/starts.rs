//! The steps that start something.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::SimRuntime;
use crate::agent::simulation::calls::{Caller, error};
use crate::agent::simulation::world::{OnDrop, sleep};
use crate::host::volume::OldFiles;
use crate::plan::{PullPermit, StartContainer};
use crate::pod::hook::Hook;
use crate::pod::object::PodObjects;
use crate::pod::observed::Sandbox;
use crate::pod::priority::priority;
use crate::pod::state::Waiting;
use crate::pod::{ContainerId, Pod, PodName, SandboxId};
use crate::runtime::cri::{CriError, ErrorClass};
use crate::runtime::handlers::hooks::{HookError, POST_START_LIMIT};
use crate::runtime::{Answer, Image, ImageError, Permit, PodStarter, SandboxContext, StartError, StepError};
use crate::time::backoff::Backoff;

/// How long a sandbox in the making holds its permit.
const MAX_PERMIT: Duration = Duration::from_secs(5);

fn start_error(reason: &str, error: CriError) -> StartError {
    if error.is_away() {
        return StartError::Away(error);
    }
    StartError::Refused {
        backoff: Backoff::STEP,
        waiting: Waiting { reason: reason.into(), message: error.message },
    }
}

impl PodStarter for SimRuntime {
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

    fn update_volumes<'a>(
        &'a self,
        _: &'a Arc<Pod>,
        _: &'a Arc<PodObjects>,
        _: OldFiles,
    ) -> Answer<'a, Result<(), StepError>> {
        Box::pin(future::ready(Ok(())))
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
}
