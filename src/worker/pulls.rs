//! Pulls, which run while the worker listens, and what it remembers of those that failed, also on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::warn;

use super::jobs::{JobKey, JobResult};
use super::start::{error_code, kind_of};
use super::{AfterPass, Worker};
use crate::host::state::StateError;
use crate::plan::{PullFailure, PullPermit, Waiting};
use crate::pod::{ContainerRef, Pod};
use crate::runtime::{Image, ImageError, SandboxContext};
use crate::status::events::EventType;
use crate::status::metrics::ContainerType;
use crate::text::chain;
use crate::time::duration::format_duration;
use crate::time::since::Since;

impl Worker {
    /// What may be done about the image of a container.
    pub(super) fn pull_permit(&self, container: &str) -> PullPermit {
        let failure = self.instance.as_ref().and_then(|instance| instance.history.pulls.get(container));
        failure.map_or(PullPermit::Pull, |failure| failure.permit(self.context.handles.clock.uptime()))
    }

    /// Looks for the image of a container that is still to be created, and pulls it if it is not there. Does nothing if
    /// that runs already, or was done.
    pub(super) fn fetch_image(&mut self, pod: &Arc<Pod>, which: ContainerRef, context: SandboxContext) {
        // A plan names containers of the pod that it was made for.
        let Some(spec) = pod.container(which) else { return };
        let name = spec.name.clone();
        let (permit, objects) = (self.pull_permit(&name), self.objects());
        let Some(instance) = &mut self.instance else { return };
        if instance.pulled.contains_key(&name) || !instance.history.pulling.insert(name.clone()) {
            return;
        }
        let (runtime, pod) = (self.context.runtime.clone(), pod.clone());
        let (events, clock) =
            (self.context.handles.telemetry.events.clone(), self.context.handles.clock.clone());
        self.jobs.start(JobKey::Future(name), async move {
            let Some(spec) = pod.container(which) else { return JobResult::Pulled(Err(ImageError::Absent)) };
            let note = |reason, message: String| {
                let (of, container) = ((&pod.name, &pod.uid), Some((which, spec.name.as_str())));
                events.note(EventType::Normal, of, container, reason, &message);
            };
            let image = spec.image.as_deref().unwrap_or_default();
            JobResult::Pulled(match runtime.look_for_image(&pod, spec, permit).await {
                Ok(Image::Present(found)) => {
                    note("Pulled", present_message(image));
                    Ok(found)
                }
                Ok(Image::ToBePulled) => {
                    note("Pulling", format!("Pulling image \"{image}\""));
                    let begun = clock.uptime();
                    let pulled = runtime.pull_image(&pod, spec, &objects, context).await;
                    if pulled.is_ok() {
                        let took = format_duration(clock.uptime().saturating_sub(begun));
                        note(
                            "Pulled",
                            format!("Successfully pulled image \"{image}\" in {took}, including waiting."),
                        );
                    }
                    pulled
                }
                Err(error) => Err(error),
            })
        });
    }

    /// A pull has finished.
    ///
    /// # Errors
    /// When the runtime is away.
    pub(super) async fn pull_finished(
        &mut self,
        name: String,
        pulled: Result<String, ImageError>,
    ) -> Result<(), AfterPass> {
        let Some(instance) = &mut self.instance else { return Ok(()) };
        instance.history.pulling.remove(&name);
        if instance.history.pulling.is_empty() {
            // An emptied set keeps its memory.
            instance.history.pulling = BTreeSet::new();
        }
        let pod = instance.pod.clone();
        match pulled {
            Ok(image) => {
                instance.pulled.insert(name.clone(), image);
                self.pull_succeeded(&pod, &name).await;
                Ok(())
            }
            Err(error) => {
                let which = pod.containers().find(|(_, spec)| spec.name == name).map(|(which, _)| which);
                let Some(which) = which else { return Ok(()) };
                self.image_failed(&pod, &name, kind_of(which), error).await
            }
        }
    }

    /// Gives up what is being pulled, and forgets what was.
    pub(super) fn drop_pulls(&mut self) {
        self.jobs.retain(|key| matches!(key, JobKey::Container(_)));
        if let Some(instance) = &mut self.instance {
            instance.history.pulling.clear();
            instance.pulled.clear();
        }
    }

    /// Notes why a container has no image. The others of the pod do not wait for it.
    ///
    /// # Errors
    /// When the runtime is away.
    pub(super) async fn image_failed(
        &mut self,
        pod: &Pod,
        name: &str,
        kind: ContainerType,
        error: ImageError,
    ) -> Result<(), AfterPass> {
        match error {
            ImageError::Start(error) => return self.start_failed(name, kind, error),
            ImageError::Absent => self.image_still_absent(name),
            ImageError::Pull(waiting) => {
                let metrics = &self.context.handles.telemetry.metrics;
                metrics.container_start_failed(kind, error_code(&waiting.reason));
                let spec = pod.containers().find(|(_, spec)| spec.name == name).map(|(_, spec)| spec);
                let image = spec.and_then(|spec| spec.image.as_deref()).unwrap_or_default();
                self.pull_failed(pod, name, image, waiting).await;
            }
        }
        Ok(())
    }

    async fn pull_failed(&mut self, pod: &Pod, container: &str, image: &str, waiting: Waiting) {
        let clock = self.context.handles.clock.clone();
        let Some(instance) = &mut self.instance else { return };
        let earlier = instance.history.pulls.get(container);
        if earlier.is_none_or(|failure| failure.waiting != waiting) {
            warn!(pod = %self.name, container, reason = waiting.reason, message = waiting.message, "cannot pull the image");
        }
        let message = format!("Failed to pull image \"{image}\": {}", waiting.message);
        let events = &self.context.handles.telemetry.events;
        events.note_container(EventType::Warning, pod, container, "Failed", &message);
        let failure = PullFailure::after(earlier, image, clock.uptime(), waiting);
        instance.history.starts.remove(container);
        let pull = failure.record(&pod.hash, clock.now());
        instance.history.pulls.insert(container.to_owned(), failure);
        let written = self.context.checkpoints.write_pull(&pod.uid, container, Some(pull)).await;
        self.log_unwritten(written);
    }

    fn image_still_absent(&mut self, container: &str) {
        let uptime = self.context.handles.clock.uptime();
        let Some(instance) = &mut self.instance else { return };
        instance.history.starts.remove(container);
        if let Some(failure) = instance.history.pulls.get_mut(container) {
            failure.looked = Some(Since::now(uptime));
        }
    }

    /// The image is there.
    pub(super) async fn pull_succeeded(&mut self, pod: &Pod, container: &str) {
        let failed = self.instance.as_mut().and_then(|instance| instance.history.pulls.remove(container));
        if failed.is_some() {
            let written = self.context.checkpoints.write_pull(&pod.uid, container, None).await;
            self.log_unwritten(written);
        }
    }

    /// What an earlier agent remembered of an instance's failed pulls.
    pub(super) async fn read_pulls(&self, pod: &Pod) -> BTreeMap<String, PullFailure> {
        let names = pod.containers().map(|(_, spec)| spec.name.clone()).collect();
        let clock = &self.context.handles.clock;
        let (now, uptime) = (clock.now(), clock.uptime());
        let mut failures = BTreeMap::new();
        for read in self.context.checkpoints.read_pulls(&pod.uid, names).await {
            match read {
                Ok((name, pull)) => {
                    let spec = pod.containers().find(|(_, spec)| spec.name == name).map(|(_, spec)| spec);
                    let image = spec.and_then(|spec| spec.image.as_deref()).unwrap_or_default();
                    failures
                        .extend(pull.revive(&pod.hash, image, now, uptime).map(|failure| (name, failure)));
                }
                Err(error) => self.log_unwritten(Err(error)),
            }
        }
        failures
    }

    /// A later agent that does not know of a failed pull pulls at once, and nothing worse.
    fn log_unwritten(&self, written: Result<(), StateError>) {
        if let Err(error) = written {
            warn!(pod = %self.name, error = chain(&error), "failed pulls are not remembered");
        }
    }
}

/// What kubelet says of an image that need not be pulled.
pub(super) fn present_message(image: &str) -> String {
    format!("Container image \"{image}\" already present on machine")
}
