//! The seam between a worker and the runtime: what a worker asks for, and nothing else.
//!
//! [`Runtime`](super::Runtime) answers from CRI and the node; the simulation of the whole agent answers from a model.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::cri::CriError;
use super::cri::proto::PodSandboxConfig;
use super::handlers::hooks::HookError;
use super::limiter::Permit;
use super::{Cache, Image, ImageError, Made, StartError, StepError};
use crate::host::volume::OldFiles;
use crate::plan::{PullPermit, RemoveContainer, Signalling, StartContainer};
use crate::pod::hook::Hook;
use crate::pod::object::PodObjects;
use crate::pod::observed::{Observed, Sandbox};
use crate::pod::{ContainerId, Pod, PodName, PodUid, SandboxId};
use crate::probe::check::Check;
use crate::probe::schedule::{ProbeKey, Ran};
use crate::probe::target::ProbeHost;

/// The future of a call. Boxed: an idle worker must not hold the large future.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The CRI configuration of a sandbox, which goes with every call that concerns it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SandboxContext(pub(super) Arc<PodSandboxConfig>);

#[cfg(test)]
impl SandboxContext {
    /// What a simulated runtime needs to know: the attempt.
    pub(crate) fn of_attempt(attempt: u32) -> Self {
        let metadata = super::cri::proto::PodSandboxMetadata { attempt, ..Default::default() };
        Self(Arc::new(PodSandboxConfig { metadata: Some(metadata), ..Default::default() }))
    }

    /// The attempt.
    pub(crate) fn attempt(&self) -> u32 {
        self.0.metadata.as_ref().map_or(0, |metadata| metadata.attempt)
    }
}

/// What a worker asks of the runtime and of the node. Every answer comes in bounded time; an answer that is not awaited any
/// more is given up.
pub(crate) trait PodRuntime: PodObserver + PodStarter + PodStopper {}

impl<T: PodObserver + PodStarter + PodStopper> PodRuntime for T {}

/// What there is.
pub(crate) trait PodObserver: Debug + Send + Sync {
    /// All that the runtime holds of a pod name.
    fn observe<'a>(
        &'a self,
        pod: &'a PodName,
        cache: &'a mut Cache,
    ) -> Answer<'a, Result<Observed, CriError>>;

    /// What [`PodObserver::observe`] would find, if nothing has happened since `before` but that these were made.
    fn observe_made<'a>(
        &'a self,
        before: Observed,
        made: &'a [Made],
        cache: &'a mut Cache,
    ) -> Answer<'a, Result<Observed, CriError>>;

    /// The addresses of the node; none while it has none.
    fn node_ips(&self) -> Vec<String>;
}

/// The steps that start something.
pub(crate) trait PodStarter: Debug + Send + Sync {
    /// Prepares what an instance needs on the node, with these ConfigMaps and Secrets. May be repeated.
    fn prepare_instance<'a>(
        &'a self,
        pod: &'a Arc<Pod>,
        objects: &'a Arc<PodObjects>,
    ) -> Answer<'a, Result<(), StartError>>;

    /// Brings the volumes of an instance up to date that are made of ConfigMaps and Secrets. What these do not hold any more
    /// stays in them.
    fn update_volumes<'a>(
        &'a self,
        pod: &'a Arc<Pod>,
        objects: &'a Arc<PodObjects>,
        old: OldFiles,
    ) -> Answer<'a, Result<(), StepError>>;

    /// The CRI configuration of the sandbox of this attempt.
    fn sandbox_context<'a>(
        &'a self,
        pod: &'a Pod,
        attempt: u32,
    ) -> Answer<'a, Result<SandboxContext, StartError>>;

    /// Waits until the pod may make its sandbox.
    fn sandbox_permit<'a>(&'a self, pod: &'a Pod) -> Answer<'a, Permit>;

    /// Creates a sandbox.
    fn create_sandbox<'a>(
        &'a self,
        pod: &'a Pod,
        context: SandboxContext,
        permit: Permit,
    ) -> Answer<'a, Result<SandboxId, StartError>>;

    /// Looks whether a container's image is there, or may be pulled. Pulls nothing.
    fn look_for_image<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a ContainerSpec,
        permit: PullPermit,
    ) -> Answer<'a, Result<Image, ImageError>>;

    /// Pulls a container's image; returns the runtime's reference.
    fn pull_image<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a ContainerSpec,
        objects: &'a PodObjects,
        context: SandboxContext,
    ) -> Answer<'a, Result<String, ImageError>>;

    /// Creates a container of an image that is there.
    fn create_container<'a>(
        &'a self,
        pod: &'a Pod,
        start: &'a StartContainer,
        objects: &'a PodObjects,
        sandbox: &'a Sandbox,
        image: String,
        context: SandboxContext,
    ) -> Answer<'a, Result<ContainerId, StartError>>;

    /// Starts a created container.
    fn start_container<'a>(
        &'a self,
        pod: &'a Pod,
        start: &'a StartContainer,
        id: &'a ContainerId,
    ) -> Answer<'a, Result<(), StartError>>;

    /// Runs a lifecycle hook of a container, for no longer than `limit`.
    fn run_hook<'a>(
        &'a self,
        id: &'a ContainerId,
        hook: &'a Hook,
        pod_ip: Option<&'a str>,
        limit: Duration,
    ) -> Answer<'a, Result<(), HookError>>;
}

/// The steps that end something.
pub(crate) trait PodStopper: Debug + Send + Sync {
    /// Tells a container to end, and kills it when `grace` seconds have passed. May be given up, and asked again with less.
    fn end_container<'a>(
        &'a self,
        id: &'a ContainerId,
        grace: u64,
        signal: Signalling,
    ) -> Answer<'a, Result<(), StepError>>;

    /// Removes a dead container, its log and its termination message.
    fn remove_container<'a>(
        &'a self,
        pod: &'a PodName,
        container: &'a RemoveContainer,
    ) -> Answer<'a, Result<(), StepError>>;

    /// Stops a sandbox and frees its network.
    fn stop_sandbox<'a>(&'a self, id: &'a SandboxId) -> Answer<'a, Result<(), StepError>>;

    /// Removes a stopped sandbox.
    fn remove_sandbox<'a>(&'a self, id: &'a SandboxId) -> Answer<'a, Result<(), StepError>>;

    /// Releases what an instance has on the node.
    fn release_instance<'a>(&'a self, pod: &'a PodName, uid: &'a PodUid)
    -> Answer<'a, Result<(), StepError>>;
}

/// What the prober asks for.
pub(crate) trait ProbeRunner: Debug + Send + Sync {
    /// Runs what a probe does, for no longer than its `timeout`.
    fn run_probe<'a>(
        &'a self,
        key: &'a ProbeKey,
        check: &'a Check,
        place: &'a ProbeHost,
        timeout: Duration,
    ) -> Answer<'a, Ran>;
}
