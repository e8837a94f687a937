//! The page `/pods`: a v1 PodList, in the form that kubelet gives it.
//!
//! Owns the difference between k8s-openapi's JSON and Go's: Go writes `null` for a time and `{}` for a struct
//! that are not set, and leaves out empty lists and maps. Invariant: pure; one pod at a time is in memory as
//! JSON. Must not: change a pod's meaning.

use k8s_openapi::api::core::v1::PodStatus;
use serde::Serialize;
use serde::ser::{Error as _, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

use crate::pod::Pod;
use crate::status::pod_status::{pod_status, waiting_status};
use crate::sync::view::View;

/// The list, as JSON.
pub(crate) fn render(view: &View) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&PodList(view))
}

struct PodList<'a>(&'a View);

struct Items<'a>(&'a View);

struct ServedPod<'a>(&'a Pod, PodStatus);

impl Serialize for PodList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_map(Some(4))?;
        list.serialize_entry("kind", "PodList")?;
        list.serialize_entry("apiVersion", "v1")?;
        list.serialize_entry("metadata", &Map::new())?;
        list.serialize_entry("items", &Items(self.0))?;
        list.end()
    }
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut items = serializer.serialize_seq(Some(self.0.pods.len()))?;
        for pod in self.0.pods.values() {
            let status = match (&pod.state, &pod.waits) {
                (None, Some(waits)) => waiting_status(waits),
                (state, _) => pod_status(&pod.pod, state.as_deref(), &self.0.devices),
            };
            items.serialize_element(&ServedPod(&pod.pod, status))?;
        }
        items.end()
    }
}

impl Serialize for ServedPod<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = |part: Result<Value, serde_json::Error>| part.map_err(S::Error::custom);
        let mut metadata = json(serde_json::to_value(&self.0.metadata))?;
        let mut spec = json(serde_json::to_value(&self.0.spec))?;
        let mut status = json(serde_json::to_value(&self.1))?;
        for part in [&mut metadata, &mut spec, &mut status] {
            omit_empty(part);
        }
        fill_spec(&mut spec);
        fill_status(&mut status);
        let mut item = serializer.serialize_map(Some(3))?;
        item.serialize_entry("metadata", &metadata)?;
        item.serialize_entry("spec", &spec)?;
        item.serialize_entry("status", &status)?;
        item.end()
    }
}

/// Maps that Go leaves out when empty. Other empty objects mean something: `emptyDir: {}`.
const OMITTED_MAPS: [&str; 7] =
    ["annotations", "labels", "limits", "requests", "nodeSelector", "overhead", "allocatedResources"];

/// Lists that Go writes even when empty.
const KEPT_LISTS: [&str; 2] = ["containers", "nodeSelectorTerms"];

fn omit_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| match value {
                Value::Array(list) => !list.is_empty() || KEPT_LISTS.contains(&name.as_str()),
                Value::Object(map) => !map.is_empty() || !OMITTED_MAPS.contains(&name.as_str()),
                _ => true,
            });
            fields.values_mut().for_each(omit_empty);
        }
        Value::Array(list) => list.iter_mut().for_each(omit_empty),
        _ => {}
    }
}

fn fill_spec(spec: &mut Value) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in objects(spec, list) {
            container.entry("resources").or_insert_with(|| Value::Object(Map::new()));
        }
    }
}

fn fill_status(status: &mut Value) {
    for condition in objects(status, "conditions") {
        set_null(condition, &["lastProbeTime", "lastTransitionTime"]);
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in objects(status, list) {
            for name in ["state", "lastState"] {
                let state = container.entry(name).or_insert_with(|| Value::Object(Map::new()));
                for (kind, times) in
                    [("running", &["startedAt"][..]), ("terminated", &["startedAt", "finishedAt"])]
                {
                    if let Some(Value::Object(detail)) = state.get_mut(kind) {
                        set_null(detail, times);
                    }
                }
            }
        }
    }
}

/// The objects of the list `name`, if there is one.
fn objects<'a>(parent: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    parent.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn set_null(object: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        object.entry(*name).or_insert(Value::Null);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use k8s_openapi::api::core::v1 as k8s;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use serde_json::json;

    use super::*;
    use crate::plan::checkpoint::InstanceRecord;
    use crate::pod::state::PodState;
    use crate::pod::{ConfigHash, PodName, PodUid, Source};
    use crate::sync::view::PodView;

    /// What kubelet 1.36 served for five static pods, its keys sorted.
    const REFERENCE: &str = include_str!("../../tests/fixtures/kubelet-pods.json");

    fn pod(metadata: ObjectMeta, spec: k8s::PodSpec) -> Pod {
        let name = PodName::new(metadata.namespace.as_deref().unwrap(), metadata.name.as_deref().unwrap());
        Pod {
            name,
            uid: PodUid(metadata.uid.clone().unwrap_or_default()),
            hash: ConfigHash(String::new()),
            source: Source::File,
            metadata,
            spec,
            container_hashes: Box::default(),
        }
    }

    /// The state that a served status was made of; the old form of checkpoints is a status.
    fn state(status: &Value) -> Arc<PodState> {
        let instance = json!({"uid": "u", "hash": "h", "source": "File", "life": "Open", "status": status});
        serde_json::from_value::<InstanceRecord>(instance).unwrap().state
    }

    /// The view of an agent that runs kubelet's five pods.
    pub(crate) fn reference_view() -> View {
        let list: Value = serde_json::from_str(REFERENCE).unwrap();
        let pods = list["items"].as_array().unwrap().iter().map(|item| {
            let served: k8s::Pod = serde_json::from_value(item.clone()).unwrap();
            let pod = Arc::new(pod(served.metadata, served.spec.unwrap()));
            (
                pod.name.clone(),
                PodView { pod, state: Some(state(&item["status"])), running: true, waits: None },
            )
        });
        View { pods: pods.collect(), ..View::default() }
    }

    fn rendered(view: &View) -> Value {
        serde_json::from_slice(&render(view).unwrap()).unwrap()
    }

    #[test]
    fn is_what_kubelet_serves() {
        let mut expected: Value = serde_json::from_str(REFERENCE).unwrap();
        // Ours come by name; kubelet's in the order of a hash map.
        expected["items"].as_array_mut().unwrap().sort_by_key(|pod| {
            (pod["metadata"]["namespace"].to_string(), pod["metadata"]["name"].to_string())
        });
        let found = rendered(&reference_view());
        for (found, expected) in
            found["items"].as_array().unwrap().iter().zip(expected["items"].as_array().unwrap())
        {
            assert_eq!(found, expected, "{}", expected["metadata"]["name"]);
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn no_pods() {
        let text = String::from_utf8(render(&View::default()).unwrap()).unwrap();
        assert_eq!(text, r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#);
    }

    #[test]
    fn what_is_not_set() {
        let metadata = ObjectMeta {
            namespace: Some("default".to_owned()),
            name: Some("a-n".to_owned()),
            labels: Some(BTreeMap::new()),
            ..ObjectMeta::default()
        };
        let spec = k8s::PodSpec {
            containers: vec![k8s::Container {
                name: "c".to_owned(),
                args: Some(vec![]),
                ..Default::default()
            }],
            volumes: Some(vec![k8s::Volume {
                name: "v".to_owned(),
                empty_dir: Some(k8s::EmptyDirVolumeSource::default()),
                ..Default::default()
            }]),
            tolerations: Some(vec![]),
            ..Default::default()
        };
        let running = k8s::ContainerState { running: Some(Default::default()), ..Default::default() };
        let terminated = k8s::ContainerState { terminated: Some(Default::default()), ..Default::default() };
        let status = k8s::PodStatus {
            conditions: Some(vec![k8s::PodCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(Time("2026-11-16T00:39:05.123456789Z".parse().unwrap())),
                ..Default::default()
            }]),
            container_statuses: Some(vec![
                k8s::ContainerStatus { name: "c".to_owned(), ..Default::default() },
                k8s::ContainerStatus {
                    state: Some(running),
                    last_state: Some(terminated),
                    ..Default::default()
                },
            ]),
            ..Default::default()
        };
        let item = serde_json::to_value(ServedPod(&pod(metadata, spec), status)).unwrap();
        let expected = json!({
            "metadata": {"name": "a-n", "namespace": "default"},
            "spec": {
                "containers": [{"name": "c", "resources": {}}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": "2026-11-16T00:39:05Z"}],
                "containerStatuses": [
                    {"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {}, "lastState": {}},
                    {"name": "", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"running": {"startedAt": null}},
                        "lastState": {"terminated": {"exitCode": 0, "startedAt": null, "finishedAt": null}}},
                ],
            },
        });
        assert_eq!(item, expected);
    }
}
