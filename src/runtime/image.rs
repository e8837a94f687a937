//! Sees to it that a container's image is there.

use std::time::Duration;

use super::{Runtime, StartError};
use crate::backoff::Backoff;
use crate::cri::proto::PodSandboxConfig;
use crate::plan::Waiting;

/// How often to look for an image that may not be pulled: somebody is likely to bring it.
const ABSENT: Backoff = Backoff { base: Duration::from_secs(5), cap: Duration::from_secs(5) };

/// What to do about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// It is there; use it.
    Use,
    /// Get it.
    Pull,
    /// It is not there and may not be pulled.
    Refuse,
}

/// Chooses by imagePullPolicy.
fn choose(policy: Option<&str>, present: bool) -> Choice {
    match (policy, present) {
        (Some("Always"), _) => Choice::Pull,
        (_, true) => Choice::Use,
        (Some("Never"), false) => Choice::Refuse,
        (_, false) => Choice::Pull,
    }
}

impl Runtime {
    /// The runtime's reference of the image, pulled if the policy says so.
    pub(super) async fn ensure_image(
        &self,
        image: &str,
        policy: Option<&str>,
        sandbox: PodSandboxConfig,
    ) -> Result<String, StartError> {
        let found = match policy {
            Some("Always") => None,
            _ => self
                .cri
                .image_status(image)
                .await
                .map_err(|error| StartError::cri("ImageInspectError", error))?,
        };
        match (choose(policy, found.is_some()), found) {
            (Choice::Use, Some(found)) => Ok(found.id),
            (Choice::Refuse, _) => Err(StartError::Refused {
                backoff: ABSENT,
                waiting: Waiting {
                    reason: "ErrImageNeverPull".into(),
                    message: format!("Container image \"{image}\" is not present with pull policy of Never"),
                },
            }),
            _ => {
                tracing::info!(image, "pulling image");
                self.cri.pull_image(image, None, sandbox).await.map_err(|error| match error.is_away() {
                    true => StartError::Away(error),
                    false => StartError::Refused {
                        backoff: Backoff::PULL,
                        waiting: Waiting {
                            reason: "ImagePullBackOff".into(),
                            message: format!(
                                "Back-off pulling image \"{image}\": ErrImagePull: {}",
                                error.message
                            ),
                        },
                    },
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies() {
        let cases = [
            (Some("Always"), true, Choice::Pull),
            (Some("Always"), false, Choice::Pull),
            (Some("IfNotPresent"), true, Choice::Use),
            (Some("IfNotPresent"), false, Choice::Pull),
            (Some("Never"), true, Choice::Use),
            (Some("Never"), false, Choice::Refuse),
            (None, true, Choice::Use),
            (None, false, Choice::Pull),
        ];
        for (policy, present, expect) in cases {
            assert_eq!(choose(policy, present), expect, "{policy:?}, present {present}");
        }
    }
}
