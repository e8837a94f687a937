//! `/runningpods/`: what runs, as kubelet tells of it: names and images, no more.

use serde::Serialize;

/// A pod that has a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningPod<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its instance.
    pub uid: &'a str,
    /// The names and images of its containers that run.
    pub containers: Vec<(&'a str, &'a str)>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunningPodList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    items: Vec<RunningPodItem<'a>>,
}

#[derive(Debug, Serialize)]
struct Empty {}

#[derive(Debug, Serialize)]
struct RunningPodItem<'a> {
    metadata: RunningPodMetadata<'a>,
    spec: RunningPodSpec<'a>,
    status: Empty,
}

#[derive(Debug, Serialize)]
struct RunningPodMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
}

#[derive(Debug, Serialize)]
struct RunningPodSpec<'a> {
    /// `null` for none, as Go writes it.
    containers: Option<Vec<RunningContainer<'a>>>,
}

#[derive(Debug, Serialize)]
struct RunningContainer<'a> {
    name: &'a str,
    image: &'a str,
    resources: Empty,
}

/// The list as JSON.
pub(crate) fn render<'a>(
    pods: impl IntoIterator<Item = RunningPod<'a>>,
) -> Result<Vec<u8>, serde_json::Error> {
    let items = pods.into_iter().map(|pod| {
        let containers = pod.containers.into_iter();
        let containers: Vec<_> =
            containers.map(|(name, image)| RunningContainer { name, image, resources: Empty {} }).collect();
        RunningPodItem {
            metadata: RunningPodMetadata { name: pod.name, namespace: pod.namespace, uid: pod.uid },
            spec: RunningPodSpec { containers: Some(containers).filter(|all| !all.is_empty()) },
            status: Empty {},
        }
    });
    let list =
        RunningPodList { kind: "PodList", api_version: "v1", metadata: Empty {}, items: items.collect() };
    serde_json::to_vec(&list)
}
