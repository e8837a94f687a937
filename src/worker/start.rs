//! The steps that start something: what failed is noted in the history, and shown.

use std::sync::Arc;

use futures_lite::future;
use jiff::Timestamp;
use tracing::{info, warn};

use super::{Next, Worker};
use crate::plan::{Failure, Plan, StartContainer, Step, Wish};
use crate::pod::hook::Hook;
use crate::pod::observed::Observed;
use crate::pod::priority::priority;
use crate::pod::{ContainerRef, Pod};
use crate::runtime::{Image, Made, StartError};
use crate::status::metrics::ContainerType;
use crate::sync::message::Report;

impl Worker {
    /// Makes the sandbox, and sees to the images of these containers meanwhile.
    pub(super) async fn create_sandbox(
        &mut self,
        pod: &Arc<Pod>,
        attempt: u32,
        images: &[ContainerRef],
    ) -> Result<(), Next> {
        self.made.insert(pod.uid.clone());
        self.context.runtime.metrics.pod_started();
        let turn = self.context.runtime.sandboxes.take(priority(&pod.spec)).await;
        // Not before it has its turn: of many pods at once, all would ask at once.
        images.iter().for_each(|which| self.fetch_image(pod, *which, attempt));
        match self.context.runtime.create_sandbox(pod, attempt, turn).await {
            Ok(id) => {
                info!(pod = %self.name, uid = %pod.uid, sandbox = %id, attempt, "sandbox is up");
                self.history.sandbox = None;
                self.just_made.push(Made::Sandbox(id));
                Ok(())
            }
            Err(StartError::Away(error)) => Err(self.set_back("create the sandbox", &error.into())),
            Err(StartError::Refused { backoff, waiting }) => {
                let earlier = self.history.sandbox.as_ref();
                if earlier.is_none_or(|failure| failure.waiting != waiting) {
                    warn!(pod = %self.name, reason = waiting.reason, message = waiting.message, "cannot create the sandbox");
                }
                self.context.runtime.metrics.pod_start_failed();
                let failure = Failure::after(earlier, Timestamp::now(), backoff, waiting);
                self.history.sandbox = Some(failure);
                Err(Next::Again)
            }
        }
    }

    pub(super) async fn start(
        &mut self,
        pod: &Arc<Pod>,
        start: &StartContainer,
        wish: &Wish,
        observed: &Observed,
    ) -> Result<(), Next> {
        let runtime = self.context.runtime.clone();
        // A plan names containers of the pod that it was made for.
        let Some(spec) = pod.container(start.container) else { return Err(Next::Again) };
        let kind = kind_of(start.container);
        let name = spec.name.clone();
        let Some(sandbox) = observed.sandboxes.iter().find(|s| s.id == start.sandbox) else {
            return Err(Next::Again);
        };
        let (pulled, permit) = (self.pulled.remove(&name), self.pull_permit(&name));
        let create = async {
            let image = match pulled {
                Some(image) => Ok(Image::Present(image)),
                None => runtime.look_for_image(spec, permit).await,
            };
            Some(match image {
                Ok(Image::Present(image)) => {
                    Ok(Some(runtime.create_container(pod, spec, start, sandbox, image).await))
                }
                Ok(Image::ToBePulled) => Ok(None),
                Err(error) => Err(error),
            })
        };
        // The runtime may be slow; a newer wish need not wait for it.
        let interrupt = async {
            self.mailbox.other_than(wish).await;
            None
        };
        let Some(outcome) = future::or(create, interrupt).await else { return Err(Next::Again) };
        let created = match outcome {
            Ok(Some(created)) => {
                self.pull_succeeded(pod, &name).await;
                created
            }
            Ok(None) => {
                self.fetch_image(pod, start.container, sandbox.attempt);
                return Err(Next::Again);
            }
            Err(error) => return self.image_failed(pod, &name, kind, error).await,
        };
        let started = match created {
            Ok(id) => {
                // Told before it starts, so that its exit finds its owner however soon it comes.
                self.send(Report::Created { pod: self.name.clone(), container: id.clone() }).await;
                runtime.start_container(pod, &name, start, &id).await.map(|()| id)
            }
            Err(error) => Err(error),
        };
        match started {
            Ok(id) => {
                info!(pod = %self.name, container = name, id = %id, attempt = start.attempt, "container is running");
                runtime.metrics.container_started(kind);
                self.history.starts.remove(&name);
                self.just_made.push(Made::Container { id: id.clone(), sandbox: sandbox.id.clone() });
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

    /// Where all steps made something, and did, the next pass need not look at everything again. What else has happened
    /// meanwhile is told, and then it does.
    pub(super) async fn foresee(&mut self, observed: Observed, plan: &Plan) {
        let made = std::mem::take(&mut self.just_made);
        let makes = |step: &Step| matches!(step, Step::CreateSandbox { .. } | Step::StartContainer(_));
        if made.len() == plan.steps.len() && plan.steps.iter().all(makes) {
            let sequel = self.context.runtime.observe_made(observed, &made, &mut self.cache).await;
            // What is not there as it should be is looked for by the next pass.
            self.sequel = sequel.ok();
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
    ) -> Result<(), Next> {
        match error {
            StartError::Away(error) => Err(self.set_back("start a container", &error.into())),
            StartError::Refused { backoff, waiting } => {
                let earlier = self.history.starts.get(name);
                if earlier.is_none_or(|failure| failure.waiting != waiting) {
                    warn!(pod = %self.name, container = name, reason = waiting.reason, message = waiting.message, "cannot start the container");
                }
                self.context.runtime.metrics.container_start_failed(kind, error_code(&waiting.reason));
                let failure = Failure::after(earlier, Timestamp::now(), backoff, waiting);
                self.history.starts.insert(name.to_owned(), failure);
                Ok(())
            }
        }
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
