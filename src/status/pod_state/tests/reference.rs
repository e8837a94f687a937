//! The statuses of the reference pods, held against those that kubelet 1.36 served.

use k8s_openapi::api::core::v1 as k8s;

use super::*;
use crate::pod::{PodName, Source};

fn second(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The containers that a served status tells of: the one that it shows, and the one before.
fn held(pod: &Pod, sandbox: &Sandbox, served: &Value) -> Vec<Container> {
    let attempt = u32::try_from(served["restartCount"].as_u64().unwrap()).unwrap();
    let made = |attempt: u32, id: &Value, state: ContainerState| Container {
        id: ContainerId(text(id).replace("containerd://", "")),
        sandbox: sandbox.id.clone(),
        uid: pod.uid.clone(),
        image: text(&served["image"]),
        image_ref: text(&served["imageID"]),
        ..container(served["name"].as_str().unwrap(), attempt, state)
    };
    let ended = |attempt: u32, end: &Value| {
        let exit = Exit {
            started_at: Some(second(&end["startedAt"])),
            finished_at: second(&end["finishedAt"]),
            code: i32::try_from(end["exitCode"].as_i64().unwrap()).unwrap(),
            reason: text(&end["reason"]),
            message: text(&end["message"]),
        };
        made(attempt, &end["containerID"], ContainerState::Exited(exit))
    };
    let mut found = Vec::new();
    if let Some(running) = served["state"].get("running") {
        let state = ContainerState::Running { started_at: second(&running["startedAt"]) };
        found.push(made(attempt, &served["containerID"], state));
    }
    found.extend(served["state"].get("terminated").map(|end| ended(attempt, end)));
    found.extend(served["lastState"].get("terminated").map(|end| ended(attempt - 1, end)));
    found
}

#[test]
fn an_agent_that_has_just_begun_computes_what_kubelet_served() {
    let served: Value =
        serde_json::from_str(include_str!("../../../../tests/fixtures/kubelet-pods.json")).unwrap();
    let items = served["items"].as_array().unwrap();
    assert_eq!(items.len(), 5);
    for item in items {
        let api: k8s::Pod = serde_json::from_value(item.clone()).unwrap();
        let uid = api.metadata.uid.clone().unwrap();
        let pod = Pod {
            name: PodName::new(api.metadata.namespace.as_ref().unwrap(), api.metadata.name.as_ref().unwrap()),
            uid: PodUid(uid.clone()),
            hash: ConfigHash(uid),
            source: Source::File,
            metadata: api.metadata,
            spec: api.spec.unwrap(),
            container_hashes: Default::default(),
        };
        let mut theirs = item["status"].clone();
        let ips: Vec<_> = theirs["podIP"].as_str().into_iter().collect();
        let sandbox = Sandbox {
            uid: pod.uid.clone(),
            hash: Some(pod.hash.clone()),
            created_at: second(&theirs["startTime"]),
            ..sandbox(0, true, &ips)
        };
        let lists = ["initContainerStatuses", "containerStatuses"];
        let each = || lists.iter().filter_map(|list| theirs[*list].as_array()).flatten();
        let waiting = each().filter_map(|status| {
            let waiting = status["state"].get("waiting")?;
            let waiting = Waiting { reason: text(&waiting["reason"]), message: text(&waiting["message"]) };
            Some((text(&status["name"]), waiting))
        });
        let plan = Plan { waiting: waiting.collect(), ..Plan::default() };
        let containers = each().flat_map(|status| held(&pod, &sandbox, status)).collect();
        let observed = Observed { sandboxes: vec![sandbox], containers };
        let later = "2026-11-16T00:50:00Z".parse().unwrap();
        let mut ours =
            serde_json::to_value(pod_status(&pod, &observed, &plan, &Verdicts::default(), None, &[], later))
                .unwrap();

        // Never set by kubelet, written as null by Go.
        for condition in theirs["conditions"].as_array_mut().unwrap() {
            assert!(condition.as_object_mut().unwrap().remove("lastProbeTime").unwrap().is_null());
        }
        if pod.name.name == "etcd-node1" {
            // Probes come with an issue of their own: kubelet's had not succeeded yet.
            for status in [&mut ours, &mut theirs] {
                status["containerStatuses"][0]["ready"] = json!("probed");
                let conditions = status["conditions"].as_array_mut().unwrap();
                conditions.retain(|c| c["type"] != "Ready" && c["type"] != "ContainersReady");
            }
        }
        assert_eq!(ours, theirs, "{}", pod.name);
    }
}
