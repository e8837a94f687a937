//! The published, immutable snapshot of what the agent knows: the only thing that the server reads.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use k8s_openapi::api::core::v1::PodStatus;

use crate::pod::{Pod, PodName, Source};

/// Everything that can be asked of the agent, at one moment.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Desired pods, and those still ending, with their live status.
    pub pods: BTreeMap<PodName, PodView>,
    /// What became of each manifest of each source.
    pub verdicts: Arc<[Verdict]>,
    /// Whether the container runtime answers.
    pub runtime: RuntimeState,
    /// Every source has said all that it holds, and the runtime too: what is neither wanted nor running is litter.
    pub settled: bool,
}

/// One pod with its status.
#[derive(Debug, Clone)]
pub struct PodView {
    /// The pod as wanted.
    pub pod: Arc<Pod>,
    /// Its status as last computed.
    pub status: Arc<PodStatus>,
    /// The sandbox is up.
    pub running: bool,
}

/// What became of one manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The source that holds it.
    pub source: Source,
    /// The file's path, or the URL.
    pub origin: String,
    /// The judgement.
    pub outcome: Outcome,
}

/// The judgement on one manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Taken; with the warnings that its fields earned, each as `field: reason`.
    Accepted {
        /// The pod that it describes.
        pod: PodName,
        /// Fields that are unknown or not honoured.
        warnings: Vec<String>,
    },
    /// Not taken; a last good version runs on.
    Refused {
        /// The offending field's path; empty if the whole document is at fault.
        field: String,
        /// Why, in words.
        reason: String,
    },
    /// Valid, but a source of higher precedence holds the same name.
    Shadowed {
        /// The pod's name.
        pod: PodName,
        /// The source that wins.
        by: Source,
    },
}

/// Whether the container runtime answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RuntimeState {
    /// Nothing heard yet.
    #[default]
    Unknown,
    /// It answers.
    Up,
    /// It does not; with the reason.
    Down(String),
}

/// Where the newest [`View`] is found.
#[derive(Debug, Clone, Default)]
pub struct Published(Arc<RwLock<Arc<View>>>);

impl Published {
    /// The newest view.
    pub fn load(&self) -> Arc<View> {
        // A poisoned lock still holds a whole view: publishing is one assignment.
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Replaces the view.
    pub fn publish(&self, view: View) {
        *self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(view);
    }
}
