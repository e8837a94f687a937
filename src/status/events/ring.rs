//! The newest events, and how they are shown. Pure: time is a parameter.
//!
//! Invariant: bounded in number and size, whatever happens how often; the same event again is a higher count.

use std::borrow::Cow;
use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;

use crate::pod::{ContainerRef, PodName, PodUid};
use crate::text::excerpt::beginning;

/// How many events are kept.
const MAX_EVENTS: usize = 512;
/// How long a message may be, in bytes: Kubernetes' own limit.
const MAX_MESSAGE: usize = 1024;

/// The type of an event, as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum EventType {
    /// Something happened that is expected.
    Normal,
    /// Something failed.
    Warning,
}

/// What an event happened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventSubject {
    /// The node.
    Node,
    /// An instance of a pod.
    Pod {
        /// The pod.
        name: PodName,
        /// The instance.
        uid: PodUid,
        /// Which of its containers, and its name; none if it concerns the pod as a whole.
        container: Option<(ContainerRef, String)>,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedEvent {
    /// Its type.
    pub kind: EventType,
    /// To what.
    pub subject: EventSubject,
    /// A word of kubelet's.
    pub reason: Cow<'static, str>,
    /// A sentence.
    pub message: String,
}

/// The newest events.
#[derive(Debug, Default)]
pub(crate) struct Ring(VecDeque<RingEntry>);

#[derive(Debug)]
struct RingEntry {
    event: RecordedEvent,
    first: Timestamp,
    last: Timestamp,
    count: u32,
}

impl Ring {
    /// Takes in an event.
    pub(crate) fn note(&mut self, mut event: RecordedEvent, now: Timestamp) {
        event.message.truncate(beginning(&event.message, MAX_MESSAGE).len());
        let known = self.0.iter().position(|entry| entry.event == event);
        let entry = match known.and_then(|place| self.0.remove(place)) {
            Some(entry) => RingEntry { last: now, count: entry.count.saturating_add(1), ..entry },
            None => RingEntry { event, first: now, last: now, count: 1 },
        };
        if self.0.len() == MAX_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }

    /// All of them as Kubernetes lists events, the oldest first.
    pub(crate) fn list(&self, node: &str) -> EventList {
        EventList {
            kind: "EventList",
            api_version: "v1",
            items: self.0.iter().map(|entry| entry.show(node)).collect(),
        }
    }
}

impl RingEntry {
    fn show(&self, node: &str) -> Shown {
        let RecordedEvent { kind, subject, reason, message } = &self.event;
        // Both as kubelet names them; it gives the node's name for its UID, and lists its events in this namespace.
        let (name, listed_in, involved_object) = match subject {
            EventSubject::Node => {
                let (name, uid) = (node.to_owned(), node.to_owned());
                let object = InvolvedObject { kind: "Node", name, uid, ..InvolvedObject::default() };
                (node, "default", object)
            }
            EventSubject::Pod { name, uid, container } => {
                let object = InvolvedObject {
                    kind: "Pod",
                    api_version: "v1",
                    namespace: name.namespace.clone(),
                    name: name.name.clone(),
                    uid: uid.to_string(),
                    field_path: container.as_ref().map(|(which, name)| field_path(*which, name)),
                };
                (name.name.as_str(), name.namespace.as_str(), object)
            }
        };
        Shown {
            metadata: Metadata {
                name: format!("{name}.{:x}", self.first.as_nanosecond()),
                namespace: listed_in.to_owned(),
            },
            involved_object,
            reason: reason.clone(),
            message: message.clone(),
            source: EventSource { component: "kubelet", host: node.to_owned() },
            first_timestamp: self.first,
            last_timestamp: self.last,
            count: self.count,
            r#type: *kind,
        }
    }
}

/// The field of the manifest that names a container, as kubelet writes it.
fn field_path(which: ContainerRef, container: &str) -> String {
    let list = match which {
        ContainerRef::Init(_) => "initContainers",
        ContainerRef::Main(_) => "containers",
    };
    format!("spec.{list}{{{container}}}")
}

/// Events as Kubernetes lists them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventList {
    kind: &'static str,
    api_version: &'static str,
    items: Vec<Shown>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    metadata: Metadata,
    involved_object: InvolvedObject,
    reason: Cow<'static, str>,
    message: String,
    source: EventSource,
    first_timestamp: Timestamp,
    last_timestamp: Timestamp,
    count: u32,
    r#type: EventType,
}

#[derive(Debug, Serialize)]
struct Metadata {
    name: String,
    namespace: String,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct InvolvedObject {
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_path: Option<String>,
}

#[derive(Debug, Serialize)]
struct EventSource {
    component: &'static str,
    host: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(message: &str) -> RecordedEvent {
        event_of(Some((ContainerRef::Main(0), "web".into())), message)
    }

    fn event_of(container: Option<(ContainerRef, String)>, message: &str) -> RecordedEvent {
        let name = PodName { namespace: "default".into(), name: "web-node1".into() };
        RecordedEvent {
            kind: EventType::Warning,
            subject: EventSubject::Pod { name, uid: PodUid("uid".into()), container },
            reason: "Unhealthy".into(),
            message: message.into(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn items(ring: &Ring) -> Vec<Value> {
        let list = serde_json::to_value(ring.list("node1")).expect("a list");
        list["items"].as_array().cloned().expect("items")
    }

    #[test]
    fn an_event_is_shown_as_kubernetes_shows_it() {
        let mut ring = Ring::default();
        ring.note(event("Liveness probe failed: no"), at(1));
        assert_eq!(
            serde_json::to_value(ring.list("node1")).expect("a list"),
            json!({"kind": "EventList", "apiVersion": "v1", "items": [{
                "metadata": {"name": "web-node1.3b9aca00", "namespace": "default"},
                "involvedObject": {
                    "kind": "Pod", "apiVersion": "v1", "namespace": "default", "name": "web-node1", "uid": "uid",
                    "fieldPath": "spec.containers{web}",
                },
                "reason": "Unhealthy",
                "message": "Liveness probe failed: no",
                "source": {"component": "kubelet", "host": "node1"},
                "firstTimestamp": "1970-01-01T00:00:01Z",
                "lastTimestamp": "1970-01-01T00:00:01Z",
                "count": 1,
                "type": "Warning",
            }]})
        );
    }

    #[test]
    fn an_event_of_the_node_names_the_node() {
        let mut ring = Ring::default();
        ring.note(RecordedEvent { subject: EventSubject::Node, ..event("m") }, at(1));
        let item = &items(&ring)[0];
        assert_eq!(item["metadata"], json!({"name": "node1.3b9aca00", "namespace": "default"}));
        assert_eq!(item["involvedObject"], json!({"kind": "Node", "name": "node1", "uid": "node1"}));
    }

    #[test]
    fn the_field_is_that_of_the_container() {
        for (which, expect) in [
            (Some(ContainerRef::Main(1)), json!("spec.containers{web}")),
            (Some(ContainerRef::Init(0)), json!("spec.initContainers{web}")),
            (None, Value::Null),
        ] {
            let mut ring = Ring::default();
            let container = which.map(|which| (which, "web".to_owned()));
            ring.note(event_of(container, "m"), at(1));
            assert_eq!(items(&ring)[0]["involvedObject"]["fieldPath"], expect);
        }
    }

    #[test]
    fn the_same_again_is_counted_and_moves_to_the_end() {
        let mut ring = Ring::default();
        for (second, message) in [(1, "a"), (2, "b"), (3, "a")] {
            ring.note(event(message), at(second));
        }
        let shown: Vec<_> = items(&ring)
            .iter()
            .map(|item| (item["message"].clone(), item["count"].clone(), item["firstTimestamp"].clone()))
            .collect();
        let one = |message: &str, count: u32, first: &str| (json!(message), json!(count), json!(first));
        assert_eq!(shown, [one("b", 1, "1970-01-01T00:00:02Z"), one("a", 2, "1970-01-01T00:00:01Z")]);
    }

    #[test]
    fn number_and_size_are_bounded() {
        let mut ring = Ring::default();
        for number in 0..2_000 {
            ring.note(event(&format!("{number} {}", "ä".repeat(1_000))), at(number));
        }
        let items = items(&ring);
        assert_eq!(items.len(), MAX_EVENTS);
        for (place, item) in items.iter().enumerate() {
            let message = item["message"].as_str().expect("a message");
            assert!(
                message.len() <= MAX_MESSAGE
                    && message.starts_with(&format!("{} ", 2_000 - MAX_EVENTS + place))
            );
        }
    }
}
