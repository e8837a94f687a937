//! Whether the node, the runtime and an image allow what a pod's security context demands.

use k8s_openapi::api::core::v1::Container;

use super::cri::convert::Surroundings;
use super::{Runtime, StartError};
use crate::plan::Waiting;
use crate::pod::Pod;
use crate::pod::security::admission::{NotAdmitted, needs_strict_groups, no_strict_groups};
use crate::pod::security::{ImageUser, check_non_root};
use crate::time::backoff::Backoff;

impl Runtime {
    /// Refuses a pod that the runtime cannot hold to what it demands. What the node lacks, the sync loop has refused.
    ///
    /// # Errors
    /// When it is refused.
    pub(super) async fn admit_security(&self, pod: &Pod) -> Result<(), StartError> {
        if needs_strict_groups(pod) {
            let has = self.cri.has_strict_groups().await;
            if !has.map_err(|error| StartError::cri(no_strict_groups().reason, error))? {
                return Err(not_admitted(no_strict_groups(), Backoff::STEP));
            }
        }
        Ok(())
    }

    /// What a container's security depends on; refuses one that must not run as root and would.
    ///
    /// # Errors
    /// When it is refused, or the runtime does not tell as whom the image runs.
    pub(super) async fn container_surroundings(
        &self,
        pod: &Pod,
        container: &Container,
        image_ref: &str,
    ) -> Result<Surroundings, StartError> {
        const REASON: &str = "CreateContainerConfigError";
        let image = self.cri.image_status(image_ref).await.map_err(|error| StartError::cri(REASON, error))?;
        let user = match image.map(|image| (image.uid, image.username)) {
            Some((Some(uid), _)) => ImageUser::Id(uid.value),
            Some((None, name)) if !name.is_empty() => ImageUser::Name(name),
            _ => ImageUser::Id(0),
        };
        check_non_root(pod, container, &user).map_err(|message| StartError::refused(REASON, message))?;
        Ok(Surroundings {
            image_user: Some(user),
            seccomp_default: self.node.security.seccomp_default,
            seccomp_root: self.node.dirs.seccomp(),
            masked_paths: self.node.security.masked_paths.clone(),
        })
    }
}

fn not_admitted(NotAdmitted { reason, message }: NotAdmitted, backoff: Backoff) -> StartError {
    StartError::Refused { backoff, waiting: Waiting { reason: reason.into(), message } }
}
