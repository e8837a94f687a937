//! Sees to it that a container's image is there: looks, waits for its turn, and pulls with whatever credentials suit.
//!
//! An image that is present waits for nobody. One image is pulled once at a time, and as many images at a time as
//! configured: those of pods that matter more first, and else in the order in which they were asked for.

mod credentials;
mod plugin;
mod reason;
#[cfg(test)]
mod tests;
mod volumes;

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use tracing::{info, warn};

use self::credentials::Credentials;
use super::limiter::{PermitsByName, PriorityLimiter, hold_permit};
use super::{SandboxContext, StartError};
use crate::plan::{PullPermit, Waiting};
use crate::pod::Pod;
use crate::pod::image::keyring::Credential;
use crate::pod::image::name::ImageName;
use crate::pod::image::provider::Provider;
use crate::pod::object::PodObjects;
use crate::pod::priority::priority;
use crate::runtime::cri::proto::{AuthConfig, PodSandboxConfig};
use crate::runtime::cri::{CriClient, CriError};
use crate::time::backoff::Backoff;

/// How often to look for an image that may not be pulled: somebody is likely to bring it.
const ABSENT: Backoff = Backoff { base: Duration::from_secs(5), cap: Duration::from_secs(5) };
/// A name does not become better by waiting; only an edit helps.
const HOPELESS: Backoff = Backoff { base: Duration::from_secs(300), cap: Duration::from_secs(300) };

/// How long a pull may hold its permit: a registry that hangs must not hold up all the others.
const MAX_PERMIT: Duration = Duration::from_secs(5 * 60);

/// What pulls work with.
#[derive(Debug)]
pub(crate) struct Images {
    cri: CriClient,
    /// One pull at a time of each image.
    per_image: PermitsByName,
    /// Pulls of all images; none for no limit.
    all_pulls: Option<PriorityLimiter>,
    fallback: PullFallback,
    credentials: Credentials,
}

/// What becomes of a container whose image is to be pulled always, when no registry can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullFallback {
    /// It waits, as with kubelet.
    Never,
    /// It runs the image that is present, if one is.
    Present,
}

/// How pulls are configured.
#[derive(Debug, Clone)]
pub(crate) struct PullSettings {
    /// How many images may be pulled at a time; none for no limit.
    pub width: Option<usize>,
    /// What to do without a registry.
    pub fallback: PullFallback,
    /// Where docker's files are looked for first: the agent's root directory.
    pub root_dir: PathBuf,
    /// The plugins.
    pub providers: Vec<Provider>,
    /// Where the plugins' programs are.
    pub plugin_dir: PathBuf,
}

impl Images {
    /// From the configuration.
    pub(crate) fn new(cri: CriClient, settings: PullSettings) -> Self {
        Self {
            cri,
            per_image: PermitsByName::default(),
            all_pulls: settings.width.map(PriorityLimiter::new),
            fallback: settings.fallback,
            credentials: Credentials::new(
                credentials::search_paths(settings.root_dir, std::env::var_os("HOME")),
                settings.providers,
                settings.plugin_dir,
            ),
        }
    }
}

/// Why there is no image for a container.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// It cannot be had for a reason other than a pull.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The pull failed.
    #[error("{}: {}", .0.reason, .0.message)]
    Pull(Waiting),
    /// It is not there, and it is not yet time to pull it.
    #[error("the image is not there yet")]
    Absent,
}

/// An image that a container wants.
struct Wanted<'a> {
    /// As the manifest names it.
    written: &'a str,
    /// As the runtime is asked for it.
    reference: String,
    /// Registry and path in full.
    repository: String,
    /// The imagePullPolicy.
    policy: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn of(container: &'a Container) -> Result<Self, StartError> {
        let written = container.image.as_deref().unwrap_or_default();
        let name = ImageName::parse(written).map_err(|error| StartError::Refused {
            backoff: HOPELESS,
            waiting: reason::invalid_name(written, &error),
        })?;
        let policy = container.image_pull_policy.as_deref();
        Ok(Self { written, reference: name.with_default_tag(written), repository: name.repository, policy })
    }
}

/// Where a container's image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Image {
    /// On the node, under this reference of the runtime.
    Present(String),
    /// In a registry, and it is time to pull it.
    ToBePulled,
}

/// What to do about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// It is there; use it.
    Use,
    /// Get it.
    Pull,
    /// It is not there and may not be pulled.
    Refuse,
    /// It is not there and may not be pulled yet.
    Wait,
}

/// Chooses by imagePullPolicy, and by what failed before.
fn choose(policy: Option<&str>, permit: PullPermit, present: bool) -> Choice {
    match (policy, present, permit) {
        (Some("Always"), _, PullPermit::Pull) => Choice::Pull,
        (Some("Always"), _, PullPermit::Look) => Choice::Wait,
        (_, true, _) => Choice::Use,
        (Some("Never"), false, _) => Choice::Refuse,
        (_, false, PullPermit::Pull) => Choice::Pull,
        (_, false, PullPermit::Look) => Choice::Wait,
    }
}

impl Images {
    /// Looks whether a container's image is there, or may be pulled. Pulls nothing.
    ///
    /// # Errors
    /// When it is not there, and shall not be pulled.
    pub(crate) async fn look(&self, container: &Container, permit: PullPermit) -> Result<Image, ImageError> {
        let wanted = Wanted::of(container)?;
        let found = self.find_image(wanted.policy, &wanted.reference).await?;
        match (choose(wanted.policy, permit, found.is_some()), found) {
            (Choice::Use, Some(found)) => Ok(Image::Present(found)),
            (Choice::Wait, _) => Err(ImageError::Absent),
            (Choice::Refuse, _) => {
                let waiting = reason::never_pull(wanted.written);
                Err(StartError::Refused { backoff: ABSENT, waiting }.into())
            }
            (Choice::Pull | Choice::Use, _) => Ok(Image::ToBePulled),
        }
    }

    /// Waits for a permit and pulls a container's image, unless it comes meanwhile, for a sandbox of the pod.
    /// Returns the runtime's reference.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn pull(
        &self,
        pod: &Pod,
        container: &Container,
        objects: &PodObjects,
        context: SandboxContext,
    ) -> Result<String, ImageError> {
        let wanted = Wanted::of(container)?;
        let Wanted { written, reference, repository, policy } = &wanted;
        let own = self.per_image.acquire(reference).await;
        if own.waited
            && let Some(found) = self.find_image(*policy, reference).await?
        {
            return Ok(found);
        }
        // Asked for before the permit: a plugin that hangs keeps no other pull waiting.
        let mut known = self.credentials.find(repository).await;
        // Those of the pod itself are tried first, as in kubelet.
        let (keyring, mut complaints) = objects.pull_credentials(pod);
        known.credentials.splice(0..0, keyring.lookup(repository));
        complaints.append(&mut known.complaints);
        known.complaints = complaints;
        let permit = match &self.all_pulls {
            Some(limiter) => Some(limiter.acquire(priority(&pod.spec)).await),
            None => None,
        };
        if permit.as_ref().is_some_and(|permit| permit.waited)
            && let Some(found) = self.find_image(*policy, reference).await?
        {
            return Ok(found);
        }
        info!(pod = %pod.name, image = written, "pulling image");
        let pull = self.pull_with(reference, known.credentials, &context.0);
        let errors = match hold_permit(permit, MAX_PERMIT, pull).await? {
            Ok(image) => return Ok(image),
            Err(errors) => errors,
        };
        let waiting = reason::failed_pull(written, &errors, &known.complaints);
        if self.fallback == PullFallback::Present
            && reason::is_unreachable(&errors)
            && let Some(found) = self.find_image(None, reference).await?
        {
            let message = waiting.message;
            warn!(pod = %pod.name, image = written, message, "no registry can be reached; using the image that is present");
            return Ok(found);
        }
        Err(ImageError::Pull(waiting))
    }

    /// The image, unless the policy wants a fresh one.
    async fn find_image(&self, policy: Option<&str>, reference: &str) -> Result<Option<String>, StartError> {
        if policy == Some("Always") {
            return Ok(None);
        }
        let found = self.cri.image_status(reference).await;
        let found = found.map_err(|error| match error.is_away() {
            true => StartError::Away(error),
            false => {
                StartError::Refused { backoff: Backoff::STEP, waiting: reason::inspect(reference, &error) }
            }
        })?;
        Ok(found.map(|image| image.id))
    }

    /// Tries one credential after the other; without any, none. Returns why each of them failed.
    async fn pull_with(
        &self,
        reference: &str,
        credentials: Vec<Credential>,
        config: &PodSandboxConfig,
    ) -> Result<Result<String, Vec<CriError>>, StartError> {
        let mut tries: Vec<_> = credentials.into_iter().map(|found| Some(auth_config(found))).collect();
        if tries.is_empty() {
            tries.push(None);
        }
        let mut errors = Vec::new();
        for auth in tries {
            match self.cri.pull_image(reference, auth, config.clone()).await {
                Ok(image) => return Ok(Ok(image)),
                Err(error) if error.is_away() => return Err(StartError::Away(error)),
                Err(error) => errors.push(error),
            }
        }
        Ok(Err(errors))
    }
}

fn auth_config(credential: Credential) -> AuthConfig {
    match credential {
        Credential::Basic { username, password } => {
            AuthConfig { username, password, ..AuthConfig::default() }
        }
        Credential::Identity(identity_token) => AuthConfig { identity_token, ..AuthConfig::default() },
        Credential::Registry(registry_token) => AuthConfig { registry_token, ..AuthConfig::default() },
    }
}
