//! When containers ended, as their worker saw it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tracing::{info, warn};

use crate::pod::observed::{Container, Observed};
use crate::pod::{ContainerId, PodName};
use crate::time::duration::format_duration;
use crate::time::since::Since;

/// The ends of containers that the runtime still holds.
#[derive(Debug, Default)]
pub(super) struct Exits {
    /// Dated when first seen, so that a clock that is set later delays no restart.
    pub(super) since: BTreeMap<ContainerId, Since>,
    /// Those that were alive when last looked.
    alive: Vec<ContainerId>,
}

impl Exits {
    /// A container was started: its end is told though it comes before the next look.
    pub(super) fn note_started(&mut self, id: ContainerId) {
        self.alive.push(id);
    }

    /// Takes in what was observed; returns the containers that have ended since the last look.
    pub(super) fn note<'a>(
        &mut self,
        observed: &'a Observed,
        now: Timestamp,
        uptime: Duration,
    ) -> Vec<&'a Container> {
        let all = &observed.containers;
        self.since.retain(|id, _| all.iter().any(|container| container.id == *id));
        for (container, exit) in all.iter().filter_map(|container| Some((container, container.exit()?))) {
            let dated = || Since::dated(exit.finished_at, now, uptime);
            self.since.entry(container.id.clone()).or_insert_with(dated);
        }
        let ended = all.iter().filter(|c| c.exit().is_some() && self.alive.contains(&c.id)).collect();
        self.alive = all.iter().filter(|c| c.is_alive()).map(|c| c.id.clone()).collect();
        self.alive.shrink_to_fit();
        ended
    }
}

/// Logs the end of a container in one line.
pub(super) fn log_end(pod: &PodName, container: &Container) {
    let Some(exit) = container.exit() else { return };
    let (name, id, code, reason) = (&container.name, &container.id, exit.code, exit.reason.as_str());
    let after = format_duration(exit.ran_for());
    if reason == "OOMKilled" {
        warn!(%pod, container = name, %id, exit_code = code, reason, after, "container was killed: out of memory");
    } else {
        info!(%pod, container = name, %id, exit_code = code, reason, after, "container has ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::observed::{ContainerState, Exit};
    use crate::pod::testing::container;

    #[test]
    fn an_end_is_dated_once_and_told_once() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let secs = Duration::from_secs;
        let running = container("main", ContainerState::Running { started_at: at(10) });
        let exit = Exit {
            started_at: Some(at(10)),
            finished_at: at(100),
            code: 1,
            reason: "Error".into(),
            message: String::new(),
        };
        let exited = Container { state: ContainerState::Exited(exit), ..running.clone() };
        let of =
            |container: &Container| Observed { containers: vec![container.clone()], ..Observed::default() };
        let mut exits = Exits::default();
        assert!(exits.note(&of(&exited), at(103), secs(5)).is_empty(), "it ended before the agent began");
        let mut exits = Exits::default();
        assert!(exits.note(&of(&running), at(20), secs(1)).is_empty());
        let first = of(&exited);
        assert_eq!(exits.note(&first, at(103), secs(5)), [&first.containers[0]]);
        let mut short = Exits::default();
        short.note_started(exited.id.clone());
        assert_eq!(short.note(&first, at(103), secs(5)), [&first.containers[0]], "it was never seen alive");
        assert!(short.note(&first, at(103), secs(6)).is_empty(), "once");
        // The clock is set back by an hour.
        assert!(exits.note(&of(&exited), at(-3_500), secs(6)).is_empty(), "once");
        assert_eq!(exits.since[&exited.id].elapsed(secs(6)), secs(4));
        exits.note(&Observed::default(), at(0), secs(7));
        assert!(exits.since.is_empty());
    }
}
