//! What can go wrong, and how often: drawn once per seed, and switched off when the world is to come to rest.

use fastrand::Rng;

use crate::pod::PodName;

/// Probabilities, from 0 to 1; each is the share of the calls, processes or writes that it befalls.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    /// A call does nothing, and its caller gives up after the timeout.
    pub(super) hang: f64,
    /// A call is carried out, and its answer is lost.
    pub(super) lost_answer: f64,
    /// A call is carried out after its caller has given up.
    pub(super) late_effect: f64,
    /// A call takes long.
    pub(super) slow: f64,
    /// A call that makes or removes something is refused.
    pub(super) refused: f64,
    /// What a call would have done is done though its caller went away.
    pub(super) outlives_caller: f64,
    /// The event of an exit is lost.
    pub(super) exit_lost: f64,
    /// The event of an exit comes late.
    pub(super) exit_late: f64,
    /// The event of an exit comes twice.
    pub(super) exit_doubled: f64,
    /// A process that should go on ends by itself.
    pub(super) crash: f64,
    /// A process that should succeed fails.
    pub(super) failure: f64,
    /// A process ignores SIGTERM.
    pub(super) ignores_term: f64,
    /// A pull fails.
    pub(super) pull_fails: f64,
    /// A hook fails.
    pub(super) hook_fails: f64,
    /// A hook hangs.
    pub(super) hook_hangs: f64,
    /// A probe fails.
    pub(super) probe_fails: f64,
    /// A write to the disk is refused.
    pub(super) write_fails: f64,
    /// All calls for this pod hang.
    pub(super) sick: Option<PodName>,
    /// How often each of [`NodeFault::ALL`] comes, relative to the others.
    pub(super) weights: [f64; NodeFault::ALL.len()],
}

/// What happens to the whole node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeFault {
    /// A manifest is added, edited, removed, or put back.
    Edit,
    /// The agent is killed, and started again.
    Kill,
    /// The machine loses its power, and boots.
    PowerCut,
    /// The runtime is away for a while.
    Away,
    /// The runtime comes back without any of its containers.
    Forget,
    /// A container is killed.
    KillContainer,
    /// A sandbox dies, and its containers live on.
    KillSandbox,
    /// The disk is full for a while.
    DiskFull,
    /// Somebody sets the wall clock.
    SetClock,
    /// A source cannot be read for a while.
    Outage,
    /// The calls for one pod hang for a while.
    Sicken,
    /// The images are removed from the node.
    DropImages,
}

impl NodeFault {
    pub(super) const ALL: [NodeFault; 12] = [
        NodeFault::Edit,
        NodeFault::Kill,
        NodeFault::PowerCut,
        NodeFault::Away,
        NodeFault::Forget,
        NodeFault::KillContainer,
        NodeFault::KillSandbox,
        NodeFault::DiskFull,
        NodeFault::SetClock,
        NodeFault::Outage,
        NodeFault::Sicken,
        NodeFault::DropImages,
    ];
}

impl Faults {
    /// Draws what can go wrong: of each kind nothing at all in some seeds, so that rare courses are seen undisturbed.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut up_to = |most: f64| if rng.f64() < 0.45 { 0.0 } else { rng.f64() * most };
        let mut faults = Self {
            hang: up_to(0.06),
            lost_answer: up_to(0.15),
            late_effect: up_to(0.06),
            slow: up_to(0.2),
            refused: up_to(0.1),
            outlives_caller: up_to(1.0),
            exit_lost: up_to(0.4),
            exit_late: up_to(0.4),
            exit_doubled: up_to(0.3),
            crash: up_to(0.5),
            failure: up_to(0.5),
            ignores_term: up_to(0.5),
            pull_fails: up_to(0.4),
            hook_fails: up_to(0.4),
            hook_hangs: up_to(0.3),
            probe_fails: up_to(0.3),
            write_fails: up_to(0.3),
            sick: None,
            weights: [0.0; NodeFault::ALL.len()],
        };
        for (weight, fault) in faults.weights.iter_mut().zip(NodeFault::ALL) {
            *weight = match fault {
                NodeFault::Edit => 3.0 + up_to(6.0),
                NodeFault::Kill => up_to(4.0),
                NodeFault::PowerCut | NodeFault::Forget | NodeFault::SetClock => up_to(1.0),
                _ => up_to(1.5),
            };
        }
        faults
    }

    /// Nothing goes wrong any more.
    pub(super) fn stop(&mut self) {
        *self = Self::default();
    }

    /// What happens next to the whole node.
    pub(super) fn next_node_fault(&self, rng: &mut Rng) -> NodeFault {
        let mut left = rng.f64() * self.weights.iter().sum::<f64>();
        for (weight, fault) in self.weights.iter().zip(NodeFault::ALL) {
            left -= weight;
            if left < 0.0 {
                return fault;
            }
        }
        NodeFault::Edit
    }
}
