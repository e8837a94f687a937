//! What `describe` and `top` print. Pure.

use std::fmt::Write as _;

use serde_json::Value;

use super::pods::{age, name_of, status_word, text};
use super::table::Cell;
use super::why::{Known, container_lines, event_line, events_of};

/// All that is known of a pod.
pub(super) fn describe(known: &Known<'_>, pod: &Value) -> String {
    let (namespace, name) = name_of(pod);
    let mut page = String::new();
    let mut line = |key: &str, value: &str| {
        if !value.is_empty() {
            // Writing to a String cannot fail.
            let _ =
                writeln!(page, "{:<14}{}", format!("{key}:"), crate::text::excerpt::one_line(value, 1000));
        }
    };
    line("Name", name);
    line("Namespace", namespace);
    line("UID", text(pod, "/metadata/uid"));
    line("Source", text(pod, "/metadata/annotations/kubernetes.io~1config.source"));
    line("Status", &status_word(pod).0);
    line("Reason", text(pod, "/status/reason"));
    line("Message", text(pod, "/status/message"));
    let started = text(pod, "/status/startTime");
    line(
        "Started",
        &if started.is_empty() {
            String::new()
        } else {
            format!("{started} ({} ago)", age(started, known.now))
        },
    );
    line("Node", text(pod, "/spec/nodeName"));
    line("IP", text(pod, "/status/podIP"));
    line("QoS", text(pod, "/status/qosClass"));
    line("Restarts by", text(pod, "/spec/restartPolicy"));
    let _ = writeln!(page, "Containers:");
    for (list, kind) in [("initContainers", "init container"), ("containers", "container")] {
        for spec in pod["spec"][list].as_array().into_iter().flatten() {
            let _ = writeln!(page, "  {} ({kind}), image {}", text(spec, "/name"), text(spec, "/image"));
            for (key, amounts) in
                [("requests", &spec["resources"]["requests"]), ("limits", &spec["resources"]["limits"])]
            {
                let amounts: Vec<_> = amounts
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, amount)| format!("{name} {}", amount.as_str().unwrap_or_default()))
                    .collect();
                if !amounts.is_empty() {
                    let _ = writeln!(page, "    {key}: {}", amounts.join(", "));
                }
            }
            let mounts = spec["volumeMounts"].as_array().into_iter().flatten();
            for mount in mounts {
                let _ =
                    writeln!(page, "    mounts {} at {}", text(mount, "/name"), text(mount, "/mountPath"));
            }
        }
    }
    section(&mut page, "States", container_lines(pod, known.now));
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten().map(|condition| {
        let message = text(condition, "/message");
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        let since = age(text(condition, "/lastTransitionTime"), known.now);
        format!("{} is {} since {since}{message}", text(condition, "/type"), text(condition, "/status"))
    });
    section(&mut page, "Conditions", conditions.collect());
    let events: Vec<_> = events_of(known, pod).map(|event| event_line(event, known.now)).collect();
    section(&mut page, "Events", events);
    page
}

fn section(page: &mut String, title: &str, lines: Vec<String>) {
    let none = if lines.is_empty() { " none" } else { "" };
    let _ = writeln!(page, "{title}:{none}");
    lines.iter().for_each(|line| {
        let _ = writeln!(page, "  {line}");
    });
}

/// The rows of `top`, from a stats summary: those that use most CPU first.
pub(super) fn usage_rows(summary: &Value) -> Vec<Vec<Cell>> {
    let mut pods: Vec<_> = summary["pods"].as_array().into_iter().flatten().collect();
    pods.sort_by_key(|pod| std::cmp::Reverse(pod["cpu"]["usageNanoCores"].as_u64()));
    let mebibytes =
        |bytes: &Value| bytes.as_u64().map_or_else(String::new, |bytes| format!("{}Mi", bytes >> 20));
    let row = |pod: &&Value| -> Vec<Cell> {
        let cpu = pod["cpu"]["usageNanoCores"].as_u64();
        vec![
            text(pod, "/podRef/namespace").into(),
            text(pod, "/podRef/name").into(),
            cpu.map_or_else(String::new, |nanos| format!("{}m", nanos / 1_000_000)).into(),
            mebibytes(&pod["memory"]["workingSetBytes"]).into(),
            mebibytes(&pod["ephemeral-storage"]["usedBytes"]).into(),
        ]
    };
    pods.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::pods::items;

    #[test]
    fn a_reference_summary_becomes_rows() {
        let summary = json!({"pods": [
            {"podRef": {"namespace": "default", "name": "a"}, "cpu": {"usageNanoCores": 1_500_000}, "memory": {"workingSetBytes": 3 << 20}},
            {"podRef": {"namespace": "default", "name": "b"}, "cpu": {"usageNanoCores": 250_000_000}, "memory": {"workingSetBytes": 5 << 20},
                "ephemeral-storage": {"usedBytes": 1 << 20}},
        ]});
        let rows: Vec<Vec<_>> = usage_rows(&summary)
            .into_iter()
            .map(|row| row.into_iter().map(|cell| cell.0).collect())
            .collect();
        assert_eq!(rows, [["default", "b", "250m", "5Mi", "1Mi"], ["default", "a", "1m", "3Mi", ""]]);
    }

    #[test]
    fn a_pod_that_kubelet_served_is_described() {
        let pods: Value =
            serde_json::from_str(include_str!("../../tests/fixtures/kubelet-pods.json")).unwrap();
        let now = "2026-11-16T01:00:00Z".parse().unwrap();
        for pod in items(&pods) {
            let known = Known { pods: &pods, verdicts: &Value::Null, events: &Value::Null, now };
            let page = describe(&known, pod);
            for part in [name_of(pod).1, "Containers:", "States:", "Conditions:", "Events: none"] {
                assert!(page.contains(part), "{page}");
            }
        }
    }
}
