//! A worker's view of the runtime: what it holds of the pod name, asked for as seldom as possible.

use std::sync::Arc;

use crate::plan::{Plan, Step};
use crate::pod::PodName;
use crate::pod::observed::Observed;
use crate::runtime::cri::CriError;
use crate::runtime::{Cache, Made, PodRuntime};

/// What one worker sees of the runtime.
#[derive(Debug)]
pub(super) struct Observer {
    runtime: Arc<dyn PodRuntime>,
    cache: Cache,
    /// What the next observation would show, if it is known.
    predicted: Option<Observed>,
    /// What the steps of this pass have made so far.
    made: Vec<Made>,
}

impl Observer {
    /// An observer that has seen nothing.
    pub(super) fn new(runtime: Arc<dyn PodRuntime>) -> Self {
        Self { runtime, cache: Cache::default(), predicted: None, made: Vec::new() }
    }

    /// What the runtime holds of the pod name now.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub(super) async fn observe(&mut self, pod: &PodName) -> Result<Observed, CriError> {
        match self.predicted.take() {
            Some(predicted) => Ok(predicted),
            None => self.runtime.observe(pod, &mut self.cache).await,
        }
    }

    /// Something has happened that a prediction does not know of.
    pub(super) fn discard_prediction(&mut self) {
        self.predicted = None;
    }

    /// The steps of a new plan begin.
    pub(super) fn begin_steps(&mut self) {
        self.made.clear();
    }

    /// A step has made something.
    pub(super) fn note_made(&mut self, made: Made) {
        self.made.push(made);
    }

    /// After the steps of a plan: where all of them made something, and did, the next pass asks only for that. Whatever
    /// else has happened meanwhile comes with a message, and discards the prediction.
    pub(super) async fn predict(&mut self, before: Observed, plan: &Plan) {
        let made = std::mem::take(&mut self.made);
        let makes = |step: &Step| matches!(step, Step::CreateSandbox { .. } | Step::StartContainer(_));
        if made.len() == plan.steps.len() && plan.steps.iter().all(makes) {
            let next = self.runtime.observe_made(before, &made, &mut self.cache).await;
            // What is not there as it should be is looked for by the next pass.
            self.predicted = next.ok();
        }
    }
}
