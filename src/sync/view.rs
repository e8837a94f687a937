//! The published, immutable snapshot of what the agent knows: the only thing that the server reads.

mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pod::device_assignment::DeviceHealth;
use crate::pod::state::PodState;
use crate::pod::{Pod, PodName};

pub(crate) use verdict::{Outcome, Verdict, Winner, diff_verdicts, to_json};

/// Everything that can be asked of the agent, at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// Desired pods, and those still ending, with their live state.
    pub pods: BTreeMap<PodName, PodView>,
    /// What became of each document of each source.
    pub verdicts: Arc<[Verdict]>,
    /// Whether the container runtime answers.
    pub runtime: RuntimeState,
    /// How the devices are that containers have.
    pub devices: Arc<DeviceHealth>,
    /// Every source and the runtime have told all that they hold: what is neither wanted nor running can be removed.
    pub settled: bool,
}

/// One pod with its state.
#[derive(Debug, Clone)]
pub(crate) struct PodView {
    /// The pod as wanted.
    pub pod: Arc<Pod>,
    /// Its state as last computed; none before its worker has observed it.
    pub state: Option<Arc<PodState>>,
    /// The sandbox is up.
    pub running: bool,
    /// What it waits for before its worker may look at it; none if it does not.
    pub waits: Option<Arc<str>>,
}

/// Whether the container runtime answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum RuntimeState {
    /// Nothing heard yet.
    #[default]
    Unknown,
    /// It answers.
    Up,
    /// It does not; with the reason.
    Down(String),
}
