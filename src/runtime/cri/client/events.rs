//! Which runtime answers, and the stream of its events.

use std::sync::{MutexGuard, PoisonError};

use super::{CriClient, op};
use crate::runtime::cri::error::CriError;
use crate::runtime::cri::events::{ExitFeed, RuntimeExits};
use crate::runtime::cri::proto::VersionRequest;
use crate::runtime::cri::version::RuntimeVersion;

impl CriClient {
    /// Name and version of the runtime.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn version(&self) -> Result<RuntimeVersion, CriError> {
        let mut client = self.runtime.clone();
        let request = VersionRequest { version: "v1".to_owned() };
        let answer = self
            .call(op("Version", "version"), self.timeouts.request, request, |r| async move {
                client.version(r).await
            })
            .await?;
        let version = RuntimeVersion { name: answer.runtime_name, version: answer.runtime_version };
        *self.known_version() = Some(version.clone());
        Ok(version)
    }

    /// The same, asked once for as long as the runtime answers: another may come back than went.
    ///
    /// # Errors
    /// When it is not known, and the runtime does not answer.
    pub async fn version_once(&self) -> Result<RuntimeVersion, CriError> {
        let known = self.known_version().clone();
        match known {
            Some(known) => Ok(known),
            None => self.version().await,
        }
    }

    /// Which runtime answers, if that is known.
    pub(super) fn known_version(&self) -> MutexGuard<'_, Option<RuntimeVersion>> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to the ends of containers. Errors, a dead socket included, come from [`RuntimeExits::next`].
    pub fn subscribe_exits(&self, feed: ExitFeed) -> RuntimeExits {
        match feed {
            ExitFeed::Cri => RuntimeExits::of_cri(self.runtime.clone()),
            ExitFeed::Containerd => RuntimeExits::of_containerd(self.events.clone()),
        }
    }
}
