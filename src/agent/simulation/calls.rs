//! Calls to the simulated runtime: carried out at once, late, never, or without an answer.

use std::time::Duration;

use tonic::Code;

use super::world::{OnDrop, Sim, Slot, When, World};
use crate::pod::PodName;
use crate::runtime::cri::{CriError, ErrorClass};

/// How long a caller waits for an answer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// A call without an answer so far.
pub(super) struct InFlight {
    agent: u32,
    pod: PodName,
    op: &'static str,
    by: Caller,
    /// When it is carried out, if that is still to come.
    effect: Option<When>,
    fail: Box<dyn FnOnce(CriError) + Send>,
}

/// Who makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A worker, which makes one call after the other.
    Worker,
    /// A job of a worker, beside it.
    Job,
}

/// A call that is to be made.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) sim: Sim,
    pub(super) agent: u32,
    pub(super) pod: PodName,
    pub(super) op: &'static str,
    pub(super) by: Caller,
    /// How long it takes, in milliseconds, when nothing is wrong.
    pub(super) takes: (u64, u64),
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    Hangs,
    AnswerLost,
    LateEffect,
    Refused,
    Away,
}

pub(super) fn error(op: &'static str, class: ErrorClass, message: &str) -> CriError {
    let code = match class {
        ErrorClass::NotFound => Code::NotFound,
        ErrorClass::Timeout => Code::Cancelled,
        ErrorClass::Unavailable => Code::Unavailable,
        ErrorClass::Unimplemented => Code::Unimplemented,
        ErrorClass::Refused => Code::Unknown,
    };
    CriError { op, class, code, message: message.to_owned() }
}

impl Request {
    /// Makes the call. `effect` is what it does to the world, once or never.
    pub(super) async fn send<T: Send + 'static>(
        self,
        effect: impl FnOnce(&mut World) -> Result<T, CriError> + Send + 'static,
    ) -> Result<T, CriError> {
        let slot = Slot::default();
        let sim = self.sim.clone();
        let id = {
            let mut world = sim.lock();
            if world.agent != Some(self.agent) {
                return Err(error(self.op, ErrorClass::Unavailable, "this agent is dead"));
            }
            world.begin(self, slot.clone(), effect)
        };
        let _give_up = OnDrop(|| sim.lock().give_up(id));
        std::future::poll_fn(|context| slot.poll(context)).await
    }
}

impl World {
    fn draw_fate(&mut self, pod: &PodName) -> Fate {
        if self.node.away {
            return Fate::Away;
        }
        if self.faults.sick.as_ref() == Some(pod) {
            return Fate::Hangs;
        }
        let faults = &self.faults;
        let fates = [
            (faults.hang, Fate::Hangs),
            (faults.lost_answer, Fate::AnswerLost),
            (faults.late_effect, Fate::LateEffect),
            (faults.refused, Fate::Refused),
        ];
        let mut left = self.rng.f64();
        for (share, fate) in fates {
            left -= share;
            if left < 0.0 {
                return fate;
            }
        }
        Fate::Done
    }

    fn begin<T: Send + 'static>(
        &mut self,
        request: Request,
        slot: Slot<Result<T, CriError>>,
        effect: impl FnOnce(&mut World) -> Result<T, CriError> + Send + 'static,
    ) -> u64 {
        let Request { agent, pod, op, by, takes, .. } = request;
        self.call_count += 1;
        let id = self.call_count;
        let fate = self.draw_fate(&pod);
        self.note(format_args!("call {id} {op} {pod} {fate:?}"));
        self.check_one_writer(&pod, op, by);
        if op == "List" {
            self.oracle.unseen.remove(&pod);
            self.oracle.failed.remove(&pod);
        } else if by == Caller::Worker
            && let Some(failed) = self.oracle.failed.get(&pod).copied()
        {
            self.violate("5 a plan is never resumed", format!("{pod}: {op} after {failed} failed"));
        }
        let slow = self.faults.slow;
        let mut takes = self.millis(takes.0, takes.1);
        if self.chance(slow) {
            takes += self.millis(100, 10_000);
        }
        let answer = self.millis(0, 20);
        let fail = slot.clone();
        let timeout = error(op, ErrorClass::Timeout, "Timeout expired");
        let mut effect_at = None;
        match fate {
            Fate::Done => {
                effect_at = Some(self.after(takes, move |world| {
                    let result = effect(world);
                    world.carried_out(id);
                    world.after(answer, move |world| world.answer(id, &slot, result));
                }));
            }
            Fate::AnswerLost => {
                effect_at = Some(self.after(takes, move |world| {
                    let _ = effect(world);
                    world.carried_out(id);
                }));
                // The connection broke, or nobody answered in time.
                let (wait, error) = match self.rng.bool() {
                    true => (takes + answer, error(op, ErrorClass::Unavailable, "connection reset")),
                    false => (REQUEST_TIMEOUT.max(takes), timeout),
                };
                self.after(wait, move |world| world.answer(id, &slot, Err(error)));
            }
            Fate::LateEffect => {
                let late = REQUEST_TIMEOUT + self.millis(0, 3_000);
                effect_at = Some(self.after(late, move |world| {
                    let _ = effect(world);
                    world.carried_out(id);
                }));
                self.after(REQUEST_TIMEOUT, move |world| world.answer(id, &slot, Err(timeout)));
            }
            Fate::Hangs => {
                self.after(REQUEST_TIMEOUT, move |world| world.answer(id, &slot, Err(timeout)));
            }
            Fate::Refused => {
                let refused = error(op, ErrorClass::Refused, "refused");
                self.after(answer, move |world| world.answer(id, &slot, Err(refused)));
            }
            Fate::Away => {
                let away = error(op, ErrorClass::Unavailable, "no such file");
                self.after(answer, move |world| world.answer(id, &slot, Err(away)));
            }
        }
        let fail = Box::new(move |error| fail.fill(Err(error)));
        self.calls.insert(id, InFlight { agent, pod, op, by, effect: effect_at, fail });
        id
    }

    /// Does what cannot fail.
    pub(super) fn done(&mut self, effect: impl FnOnce(&mut World)) -> Result<(), CriError> {
        effect(self);
        Ok(())
    }

    fn carried_out(&mut self, id: u64) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.effect = None;
        }
    }

    fn answer<T>(&mut self, id: u64, slot: &Slot<Result<T, CriError>>, result: Result<T, CriError>) {
        if let Some(InFlight { pod, op, .. }) = self.calls.remove(&id) {
            // After one of these has failed, its worker looks before it does anything else.
            if result.is_err()
                && ["StopPodSandbox", "RemoveContainer", "Release", "RunPodSandbox"].contains(&op)
            {
                self.oracle.failed.insert(pod, op);
            }
            let class = result.as_ref().err().map(|error| error.class);
            self.note(format_args!("answer {id} {class:?}"));
            slot.fill(result);
        }
    }

    /// The caller does not wait any more; what it asked for may be done all the same.
    fn give_up(&mut self, id: u64) {
        let outlives = self.faults.outlives_caller;
        if let Some(InFlight { effect: Some(when), op, .. }) = self.calls.remove(&id)
            && !self.chance(outlives)
        {
            self.note(format_args!("given up {id} {op}"));
            self.cancel(&when);
        }
    }

    /// Every call that is under way fails; what was still to be done is not, where the runtime is gone itself.
    pub(super) fn fail_calls(&mut self, runtime_is_gone: bool) {
        for (_, call) in std::mem::take(&mut self.calls) {
            let outlives = self.faults.outlives_caller;
            let goes_on = !runtime_is_gone && self.chance(outlives);
            if let Some(when) = call.effect.filter(|_| !goes_on) {
                self.cancel(&when);
            }
            (call.fail)(error(call.op, ErrorClass::Unavailable, "connection reset"));
        }
    }

    /// One writer per pod name: a worker makes one call after the other, so two at a time are of two workers. A worker that
    /// is dismissed while it looks may come to the end of that.
    fn check_one_writer(&mut self, pod: &PodName, op: &str, by: Caller) {
        let writes = |op: &str, by: Caller| by == Caller::Worker && op != "List";
        let others = self.calls.values().filter(|call| writes(call.op, call.by) && call.pod == *pod);
        let other = others.filter(|call| Some(call.agent) == self.agent).map(|call| call.op).next();
        let by = if writes(op, by) { by } else { Caller::Job };
        if let (Some(other), Caller::Worker) = (other, by) {
            self.violate("1 one writer", format!("{pod}: {op} while {other} is under way"));
        }
    }
}
