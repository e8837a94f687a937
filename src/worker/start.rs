//! The steps that start something: what failed is noted in the instance's history, and shown.

use std::sync::Arc;

use futures_lite::future;
use tracing::{info, warn};

use super::instance::Instance;
use super::pulls::present_message;
use super::{AfterPass, Worker};
use crate::host::volume::are_slow;
use crate::plan::{Desired, Failure, MadeSandbox, StartContainer};
use crate::pod::hook::Hook;
use crate::pod::observed::Observed;
use crate::pod::{ContainerId, ContainerRef, Pod};
use crate::runtime::{Image, Made, SandboxContext, StartError};
use crate::status::events::EventType;
use crate::status::events::changes::start_failure;
use crate::status::metrics::ContainerType;
use crate::sync::message::Report;

impl Worker {
    /// Makes the sandbox, and fetches the images of these containers meanwhile.
    pub(super) async fn create_sandbox(
        &mut self,
        pod: &Arc<Pod>,
        attempt: u32,
        images: &[ContainerRef],
        desired: &Desired,
    ) -> Result<(), AfterPass> {
        self.uids_on_disk.insert(pod.uid.clone());
        self.context.handles.telemetry.metrics.pod_started();
        let runtime = self.context.runtime.clone();
        // A server that is away keeps nobody else waiting for a permit.
        if are_slow(pod)
            && let Err(error) = self.prepare_sandbox(pod, attempt).await
        {
            return self.sandbox_failed(error);
        }
        let permit = match self.unless_changed(desired, runtime.sandbox_permit(pod)).await {
            Some(permit) => permit,
            None => return Err(AfterPass::Again),
        };
        let context = match self.prepare_sandbox(pod, attempt).await {
            Ok(context) => context,
            Err(error) => return self.sandbox_failed(error),
        };
        // Not before it has its permit: of many pods at once, all would ask at once.
        images.iter().for_each(|which| self.fetch_image(pod, *which, context.clone()));
        // A network that hangs holds up no newer desired state; the runtime gives up what is not awaited any more.
        let create = runtime.create_sandbox(pod, context, permit);
        match self.unless_changed(desired, create).await {
            Some(Ok(id)) => {
                info!(pod = %self.name, uid = %pod.uid, sandbox = %id, attempt, "sandbox is up");
                if attempt > 0 {
                    let message = "Pod sandbox changed, it will be killed and re-created.";
                    self.note_of_pod(EventType::Normal, "SandboxChanged", message);
                }
                let uptime = self.context.handles.clock.uptime();
                if let Some(Instance { history, .. }) = &mut self.instance {
                    history.sandbox = None;
                    history.made = Some(MadeSandbox::after(history.made.as_ref(), uptime));
                }
                // Its end finds its owner, however soon it comes.
                let id_in_events = ContainerId(id.0.clone());
                self.send(Report::Created { pod: self.name.clone(), container: id_in_events }).await;
                self.observer.note_made(Made::Sandbox(id));
                Ok(())
            }
            Some(Err(error)) => self.sandbox_failed(error),
            None => Err(AfterPass::Again),
        }
    }

    /// Waits for an answer, or for a newer desired state, which need not wait for a slow runtime: then there is none.
    async fn unless_changed<T>(&mut self, desired: &Desired, answer: impl Future<Output = T>) -> Option<T> {
        let interrupt = async {
            self.mailbox.other_than(desired).await;
            None
        };
        future::or(async { Some(answer.await) }, interrupt).await
    }

    /// Prepares what the instance needs on the node, once, and how the runtime is told of its sandbox.
    async fn prepare_sandbox(&mut self, pod: &Arc<Pod>, attempt: u32) -> Result<SandboxContext, StartError> {
        let runtime = self.context.runtime.clone();
        if self.instance.as_ref().is_some_and(|instance| !instance.prepared) {
            runtime.prepare_instance(pod, &self.objects()).await?;
            self.instance.iter_mut().for_each(|instance| instance.prepared = true);
            self.note_projected();
        }
        if let Some((_, context)) = self.sandbox_context.as_ref().filter(|(of, _)| *of == attempt) {
            return Ok(context.clone());
        }
        let context = runtime.sandbox_context(pod, attempt).await?;
        self.sandbox_context = Some((attempt, context.clone()));
        Ok(context)
    }

    fn sandbox_failed(&mut self, error: StartError) -> Result<(), AfterPass> {
        let (backoff, waiting) = match error {
            StartError::Away(error) => return Err(self.retry_later("create the sandbox", &error.into())),
            StartError::Refused { backoff, waiting } => (backoff, waiting),
        };
        let (reason, message) = start_failure(&waiting.reason, &waiting.message);
        self.note_of_pod(EventType::Warning, reason, &message);
        let uptime = self.context.handles.clock.uptime();
        let Some(instance) = &mut self.instance else { return Err(AfterPass::Again) };
        let earlier = instance.history.sandbox.as_ref();
        if earlier.is_none_or(|failure| failure.waiting != waiting) {
            warn!(pod = %self.name, reason = waiting.reason, message = waiting.message, "cannot create the sandbox");
        }
        self.context.handles.telemetry.metrics.pod_start_failed();
        instance.history.sandbox = Some(Failure::after(earlier, uptime, backoff, waiting));
        Err(AfterPass::Again)
    }

    /// Creates and starts a container, or begins to pull its image.
    pub(super) async fn start(
        &mut self,
        pod: &Arc<Pod>,
        start: &StartContainer,
        desired: &Desired,
        observed: &Observed,
    ) -> Result<(), AfterPass> {
        let runtime = self.context.runtime.clone();
        // A plan names containers of the pod that it was made for.
        let Some(spec) = pod.container(start.container) else { return Err(AfterPass::Again) };
        let kind = kind_of(start.container);
        let name = spec.name.clone();
        let Some(sandbox) = observed.sandboxes.iter().find(|s| s.id == start.sandbox) else {
            return Err(AfterPass::Again);
        };
        let context = match self.prepare_sandbox(pod, sandbox.attempt).await {
            Ok(context) => context,
            Err(error) => return self.start_failed(&name, kind, error),
        };
        let pulled = self.instance.as_mut().and_then(|instance| instance.take_pulled(&name));
        let events = self.context.handles.telemetry.events.clone();
        let permit = self.pull_permit(&name);
        let objects = self.objects();
        self.tell_skipped_keys(pod, start.container);
        let create = async {
            let image = match pulled {
                Some(image) => Ok(Image::Present(image)),
                None => {
                    let found = runtime.look_for_image(pod, spec, permit).await;
                    if let Ok(Image::Present(_)) = found {
                        let message = present_message(spec.image.as_deref().unwrap_or_default());
                        events.note_container(EventType::Normal, pod, &spec.name, "Pulled", &message);
                    }
                    found
                }
            };
            match image {
                Ok(Image::Present(image)) => Ok(Some(
                    runtime.create_container(pod, start, &objects, sandbox, image, context.clone()).await,
                )),
                Ok(Image::ToBePulled) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let Some(created) = self.unless_changed(desired, create).await else { return Err(AfterPass::Again) };
        let created = match created {
            Ok(Some(created)) => {
                self.pull_succeeded(pod, &name).await;
                created
            }
            Ok(None) => {
                self.fetch_image(pod, start.container, context);
                return Err(AfterPass::Again);
            }
            Err(error) => return self.image_failed(pod, &name, kind, error).await,
        };
        let started = match created {
            Ok(id) => {
                self.note_of_container(EventType::Normal, &name, "Created", "Container created");
                // Told before it starts, so that its exit finds its owner however soon it comes.
                self.send(Report::Created { pod: self.name.clone(), container: id.clone() }).await;
                runtime.start_container(pod, start, &id).await.map(|()| id)
            }
            Err(error) => Err(error),
        };
        match started {
            Ok(id) => {
                info!(pod = %self.name, container = name, id = %id, attempt = start.attempt, "container is running");
                self.note_of_container(EventType::Normal, &name, "Started", "Container started");
                self.context.handles.telemetry.metrics.container_started(kind);
                self.instance.iter_mut().for_each(|instance| drop(instance.history.starts.remove(&name)));
                self.exits.note_started(id.clone());
                self.observer.note_made(Made::Container { id: id.clone(), sandbox: sandbox.id.clone() });
                let lifecycle = spec.lifecycle.as_ref();
                if let Some(handler) = lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref()) {
                    let hook = Hook::of(handler, spec.ports.as_deref().unwrap_or_default());
                    self.run_start_hook(pod, &name, hook, id, sandbox.ips.first().cloned());
                }
                Ok(())
            }
            Err(error) => self.start_failed(&name, kind, error),
        }
    }

    /// Notes why a container was not started. The others of the pod do not wait for it.
    ///
    /// # Errors
    /// When the runtime is away.
    pub(super) fn start_failed(
        &mut self,
        name: &str,
        kind: ContainerType,
        error: StartError,
    ) -> Result<(), AfterPass> {
        let (backoff, waiting) = match error {
            StartError::Away(error) => return Err(self.retry_later("start a container", &error.into())),
            StartError::Refused { backoff, waiting } => (backoff, waiting),
        };
        let (reason, message) = start_failure(&waiting.reason, &waiting.message);
        self.note_of_container(EventType::Warning, name, reason, &message);
        let uptime = self.context.handles.clock.uptime();
        let Some(instance) = &mut self.instance else { return Ok(()) };
        let earlier = instance.history.starts.get(name);
        if earlier.is_none_or(|failure| failure.waiting != waiting) {
            warn!(pod = %self.name, container = name, reason = waiting.reason, message = waiting.message, "cannot start the container");
        }
        self.context.handles.telemetry.metrics.container_start_failed(kind, error_code(&waiting.reason));
        let failure = Failure::after(earlier, uptime, backoff, waiting);
        instance.history.starts.insert(name.to_owned(), failure);
        Ok(())
    }
}

/// What the metrics call a container.
pub(super) fn kind_of(container: ContainerRef) -> ContainerType {
    match container {
        ContainerRef::Init(_) => ContainerType::InitContainer,
        ContainerRef::Main(_) => ContainerType::Container,
    }
}

/// The value of the metric's label `code`: kubelet's reasons are a closed set.
pub(super) fn error_code(reason: &str) -> &'static str {
    match reason {
        "ErrImageNeverPull" => "ErrImageNeverPull",
        "ErrImagePull" => "ErrImagePull",
        "ImageInspectError" => "ImageInspectError",
        "InvalidImageName" => "InvalidImageName",
        "RegistryUnavailable" => "RegistryUnavailable",
        "SignatureValidationFailed" => "SignatureValidationFailed",
        "CreateContainerConfigError" => "CreateContainerConfigError",
        "CreateContainerError" => "CreateContainerError",
        "RunContainerError" => "RunContainerError",
        _ => "Unknown",
    }
}
