//! What is kept of events, and how they are shown.

use serde_json::{Value, json};

use super::*;

fn event(message: &str) -> NodeEvent {
    let (pod, uid) = (PodName::new("default", "web-node1"), PodUid("uid".into()));
    NodeEvent {
        kind: EventType::Warning,
        involved: Involved::pod(&pod, &uid, Some((ContainerRef::Main(0), "web"))),
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
        json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [{
            "metadata": {"name": "web-node1.3b9aca00", "namespace": "default", "creationTimestamp": "1970-01-01T00:00:01Z"},
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
            "eventTime": null,
            "reportingComponent": "kubelet",
            "reportingInstance": "node1",
        }]})
    );
}

#[test]
fn the_field_is_that_of_the_container() {
    for (which, expect) in [
        (Some(ContainerRef::Main(1)), json!("spec.containers{web}")),
        (Some(ContainerRef::Init(0)), json!("spec.initContainers{web}")),
        (None, Value::Null),
    ] {
        let mut ring = Ring::default();
        let (pod, uid) = (PodName::new("default", "web-node1"), PodUid("uid".into()));
        let involved = Involved::pod(&pod, &uid, which.map(|which| (which, "web")));
        ring.note(NodeEvent { involved, ..event("m") }, at(1));
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
        let pod = PodName::new("default", format!("p{number}"));
        let involved = Involved::pod(&pod, &PodUid("u".into()), None);
        ring.note(NodeEvent { involved, ..event(&"ä".repeat(1_000)) }, at(number));
    }
    let items = items(&ring);
    assert_eq!(items.len(), MAX_EVENTS);
    for (place, item) in items.iter().enumerate() {
        assert!(item["message"].as_str().is_some_and(|message| message.len() <= MAX_MESSAGE));
        assert_eq!(item["involvedObject"]["name"], format!("p{}", 2_000 - MAX_EVENTS + place));
    }
}

#[test]
fn many_that_differ_only_in_their_message_are_combined() {
    let mut ring = Ring::default();
    for number in 0..100 {
        ring.note(event(&format!("took {number} ms")), at(number));
    }
    ring.note(event("took 3 ms"), at(200));
    let items = items(&ring);
    assert_eq!(items.len(), MAX_SIMILAR + 1);
    let last = |back: usize| {
        (items[items.len() - back]["message"].clone(), items[items.len() - back]["count"].clone())
    };
    assert_eq!(last(1), (json!("took 3 ms"), json!(2)));
    assert_eq!(last(2), (json!("(combined from similar events): took 99 ms"), json!(90)));
}

#[test]
fn an_event_of_the_node_has_its_name() {
    let mut ring = Ring::default();
    ring.note(NodeEvent { involved: Involved::node("node1"), ..event("m") }, at(1));
    let item = &items(&ring)[0];
    assert_eq!(item["involvedObject"], json!({"kind": "Node", "name": "node1", "uid": "node1"}));
    assert_eq!(item["metadata"]["namespace"], "default");
}

#[test]
fn what_is_to_be_saved() {
    let mut ring = Ring::default();
    assert_eq!(ring.unsaved(), PendingEvents::Nothing);
    ring.note(event("a"), at(1));
    ring.note(event("a"), at(2));
    assert_eq!(ring.unsaved(), PendingEvents::Events, "a count of what was never saved");
    assert_eq!((ring.take_unsaved().len(), ring.unsaved()), (1, PendingEvents::Nothing));
    ring.note(event("a"), at(3));
    assert_eq!(ring.unsaved(), PendingEvents::Counts);
    ring.note(event("b"), at(4));
    assert_eq!((ring.unsaved(), ring.take_unsaved().len()), (PendingEvents::Events, 2));
    ring.mark_unsaved();
    assert_eq!(ring.take_unsaved().len(), 2);
}
