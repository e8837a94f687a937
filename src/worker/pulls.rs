//! Pulls, which go on while the worker listens, and what it remembers of those that failed, also on disk: in the
//! instance's directory, so that it goes with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tracing::warn;

use super::errands::{Outcome, Whose};
use super::start::{error_code, kind_of};
use super::{Next, Worker};
use crate::host::state::{Durability, StateError, Store};
use crate::plan::{PullFailure, PullPermit, PullRecord, Waiting};
use crate::pod::{ContainerRef, Pod};
use crate::runtime::{Image, ImageError};
use crate::status::metrics::ContainerType;
use crate::text::chain;

impl Worker {
    /// What may be done about the image of a container.
    pub(super) fn pull_permit(&self, container: &str) -> PullPermit {
        self.history.pulls.get(container).map_or(PullPermit::Pull, |failure| failure.permit(Timestamp::now()))
    }

    /// Looks for the image of a container to be, and pulls it if it is not there, for the pod's sandbox of this attempt.
    /// Does nothing if that goes on already, or was done.
    pub(super) fn fetch_image(&mut self, pod: &Arc<Pod>, which: ContainerRef, attempt: u32) {
        // A plan names containers of the pod that it was made for.
        let Some(spec) = pod.container(which) else { return };
        let name = spec.name.clone();
        if self.pulled.contains_key(&name) || !self.history.pulling.insert(name.clone()) {
            return;
        }
        let (runtime, pod, permit) = (self.context.runtime.clone(), pod.clone(), self.pull_permit(&name));
        self.errands.begin(Whose::ToBe(name), async move {
            let Some(spec) = pod.container(which) else { return Outcome::Pulled(Err(ImageError::Absent)) };
            Outcome::Pulled(match runtime.look_for_image(spec, permit).await {
                Ok(Image::Present(image)) => Ok(image),
                Ok(Image::ToBePulled) => runtime.pull_image(&pod, spec, attempt).await,
                Err(error) => Err(error),
            })
        });
    }

    /// A pull has come to its end.
    ///
    /// # Errors
    /// When the runtime is away.
    pub(super) async fn pull_is_over(
        &mut self,
        name: String,
        pulled: Result<String, ImageError>,
    ) -> Result<(), Next> {
        self.history.pulling.remove(&name);
        match (pulled, self.shown.clone()) {
            (Ok(image), pod) => {
                if let Some(pod) = pod {
                    self.pull_succeeded(&pod, &name).await;
                }
                self.pulled.insert(name, image);
                Ok(())
            }
            (Err(error), Some(pod)) => {
                let which = pod.containers().find(|(_, spec)| spec.name == name).map(|(which, _)| which);
                let Some(which) = which else { return Ok(()) };
                self.image_failed(&pod, &name, kind_of(which), error).await
            }
            (Err(_), None) => Ok(()),
        }
    }

    /// Gives up what is being pulled, and forgets what was.
    pub(super) fn forget_pulls(&mut self) {
        self.errands.retain(|whose| matches!(whose, Whose::Made(_)));
        self.history.pulling.clear();
        self.pulled.clear();
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
    ) -> Result<(), Next> {
        match error {
            ImageError::Start(error) => return self.start_failed(name, kind, error),
            ImageError::Absent => self.pull_waits(name),
            ImageError::Pull(waiting) => {
                self.context.runtime.metrics.container_start_failed(kind, error_code(&waiting.reason));
                let spec = pod.containers().find(|(_, spec)| spec.name == name).map(|(_, spec)| spec);
                let image = spec.and_then(|spec| spec.image.as_deref()).unwrap_or_default();
                self.pull_failed(pod, name, image, waiting).await;
            }
        }
        Ok(())
    }

    /// A pull failed.
    async fn pull_failed(&mut self, pod: &Pod, container: &str, image: &str, waiting: Waiting) {
        let earlier = self.history.pulls.get(container);
        if earlier.is_none_or(|failure| failure.waiting != waiting) {
            warn!(pod = %self.name, container, reason = waiting.reason, message = waiting.message, "cannot pull the image");
        }
        let failure = PullFailure::after(earlier, image, Timestamp::now(), waiting);
        self.history.starts.remove(container);
        self.history.pulls.insert(container.to_owned(), failure.clone());
        let record = PullRecord { hash: pod.hash.to_string(), failure };
        let (store, name) = (self.pull_store(pod), container.to_owned());
        let written = smol::unblock(move || store.write(&name, &record, Durability::Process)).await;
        self.excuse(written);
    }

    /// The image was looked for in vain.
    fn pull_waits(&mut self, container: &str) {
        self.history.starts.remove(container);
        if let Some(failure) = self.history.pulls.get_mut(container) {
            failure.looked = Timestamp::now();
        }
    }

    /// The image is there.
    pub(super) async fn pull_succeeded(&mut self, pod: &Pod, container: &str) {
        if self.history.pulls.remove(container).is_some() {
            let (store, name) = (self.pull_store(pod), container.to_owned());
            let removed = smol::unblock(move || store.remove(&name)).await;
            self.excuse(removed);
        }
    }

    /// What an earlier agent left of an instance's failed pulls.
    pub(super) async fn recall_pulls(&self, pod: &Pod) -> BTreeMap<String, PullFailure> {
        let specs = pod.spec.init_containers.iter().flatten().chain(&pod.spec.containers);
        let images: Vec<_> = specs.map(|c| (c.name.clone(), c.image.clone().unwrap_or_default())).collect();
        let store = self.pull_store(pod);
        let read = smol::unblock(move || -> Vec<_> {
            images.into_iter().map(|(name, image)| (store.read::<PullRecord>(&name), name, image)).collect()
        });
        let now = Timestamp::now();
        let mut failures = BTreeMap::new();
        for (record, name, image) in read.await {
            match record {
                Ok(record) => {
                    let failure = record.and_then(|record| record.revive(&pod.hash, &image, now));
                    failures.extend(failure.map(|failure| (name, failure)));
                }
                Err(error) => self.excuse(Err(error)),
            }
        }
        failures
    }

    fn pull_store(&self, pod: &Pod) -> Store {
        Store::new(&self.context.runtime.dirs.pod(&pod.uid), "pulls")
    }

    /// Without a record, an agent that is started again pulls at once: that is all there is to it.
    fn excuse(&self, outcome: Result<(), StateError>) {
        if let Err(error) = outcome {
            warn!(pod = %self.name, error = chain(&error), "failed pulls are not remembered");
        }
    }
}
