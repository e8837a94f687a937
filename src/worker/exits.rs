//! When containers ended, as their worker saw it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as Spec, ResourceRequirements};
use tracing::info;

use crate::pod::observed::{Container, Observed};
use crate::pod::{ContainerId, ContainerRef, Pod, PodName};
use crate::status::Telemetry;
use crate::status::events::EventType;
use crate::status::metrics::ContainerType;
use crate::time::duration::format_duration;
use crate::time::since::Since;

const OOM_KILLED: &str = "OOMKilled";

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

/// Logs the end of a container in one line. One that the kernel killed for its memory is an event of its pod.
pub(super) fn tell_end(telemetry: &Telemetry, name: &PodName, pod: Option<&Pod>, container: &Container) {
    let Some(exit) = container.exit() else { return };
    let (id, code, reason) = (&container.id, exit.code, exit.reason.as_str());
    let is_init =
        |pod: &Pod| pod.spec.init_containers.iter().flatten().any(|init| init.name == container.name);
    let kind = if pod.is_some_and(is_init) { ContainerType::InitContainer } else { ContainerType::Container };
    telemetry.metrics.container_terminated(kind, code, reason);
    let after = format_duration(exit.ran_for());
    if reason == OOM_KILLED {
        // An instance before may have had other limits.
        let pod = pod.filter(|pod| pod.uid == container.uid);
        let spec = pod.and_then(|pod| pod.containers().find(|(_, spec)| spec.name == container.name));
        let message = oom_message(&container.name, pod, spec.map(|(_, spec)| spec), code, &after);
        let which = spec.map_or(ContainerRef::Main(0), |(which, _)| which);
        let of = (which, container.name.as_str());
        telemetry.events.record(EventType::Warning, (name, &container.uid), of, OOM_KILLED, &message);
    } else {
        info!(pod = %name, container = container.name, %id, exit_code = code, reason, after, "container has ended");
    }
}

/// What is said of a container that was killed for its memory.
fn oom_message(name: &str, pod: Option<&Pod>, spec: Option<&Spec>, code: i32, after: &str) -> String {
    let limit_of = |resources: Option<&ResourceRequirements>| -> Option<String> {
        resources?.limits.as_ref()?.get("memory").map(|limit| limit.0.clone())
    };
    let own = spec.and_then(|spec| limit_of(spec.resources.as_ref()));
    let of_pod = pod.and_then(|pod| limit_of(pod.spec.resources.as_ref()));
    let limit = match (own, of_pod, spec) {
        (Some(limit), _, _) => format!("its limit is {limit}"),
        (None, Some(limit), _) => format!("the limit of its pod is {limit}"),
        (None, None, Some(_)) => {
            "it has no limit: all pods together, or the node, were short of memory".to_owned()
        }
        (None, None, None) => "its limit is not known any more".to_owned(),
    };
    format!("Container {name} was killed after {after}, exit code {code}: out of memory; {limit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::observed::{ContainerState, Exit};
    use crate::pod::testing::container;

    #[test]
    fn who_was_killed_for_memory_is_told_its_limit() {
        let limits = |memory: &str| serde_json::json!({"limits": {"memory": memory}});
        let rows = [
            (Some("16Mi"), Some("1Gi"), "out of memory; its limit is 16Mi"),
            (None, Some("1Gi"), "out of memory; the limit of its pod is 1Gi"),
            (None, None, "it has no limit"),
        ];
        for (own, whole, expect) in rows {
            let mut pod = crate::pod::testing::pod("p", "u");
            pod.spec.resources = whole.map(|memory| serde_json::from_value(limits(memory)).unwrap());
            let container = &mut pod.spec.containers[0];
            container.resources = own.map(|memory| serde_json::from_value(limits(memory)).unwrap());
            let said = oom_message("main", Some(&pod), pod.spec.containers.first(), 137, "2s");
            assert!(said.contains(expect), "{said}");
        }
        assert!(oom_message("main", None, None, 137, "2s").contains("not known any more"));
    }

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
