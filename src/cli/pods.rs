//! What the commands show of pods: names, the word of the column STATUS, ages. Pure: reads the JSON that the agent serves.

use jiff::Timestamp;
use serde_json::Value;

use super::table::{Cell, Tone};
use crate::text::suggest::nearest;

/// Why there is no pod of a name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPod {
    /// None has it.
    #[error("there is no pod {name}{hint}; see: rkubelet get pods, rkubelet why {name}")]
    None { name: String, hint: String },
    /// Several have it.
    #[error("several pods have the name {name}: {}; say which with -n NAMESPACE", .found.join(", "))]
    Several { name: String, found: Vec<String> },
}

/// The items of a list.
pub(super) fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

/// A text at a path; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The namespace and the name of a pod.
pub(super) fn name_of(pod: &Value) -> (&str, &str) {
    (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"))
}

/// Whether a pod is the one that is meant: by its name, by the name in its manifest, which has no node behind it, or by
/// either with its namespace.
fn is_meant(pod: &Value, wanted: &str, namespace: Option<&str>) -> bool {
    is_name(name_of(pod), text(pod, "/spec/nodeName"), wanted, namespace)
}

/// Whether an event is about the pod that is meant, which may be gone by now.
pub(super) fn is_event_of(event: &Value, wanted: &str, namespace: Option<&str>) -> bool {
    let subject = (text(event, "/involvedObject/namespace"), text(event, "/involvedObject/name"));
    is_name(subject, text(event, "/source/host"), wanted, namespace)
}

fn is_name((own, name): (&str, &str), node: &str, wanted: &str, namespace: Option<&str>) -> bool {
    let (namespace, wanted) = match wanted.split_once('/') {
        Some((namespace, wanted)) => (Some(namespace), wanted),
        None => (namespace, wanted),
    };
    let short = name.strip_suffix(&node.to_lowercase()).and_then(|name| name.strip_suffix('-'));
    namespace.is_none_or(|namespace| namespace == own) && (name == wanted || short == Some(wanted))
}

/// The pod that is meant.
pub(super) fn find_pod<'a>(
    list: &'a Value,
    wanted: &str,
    namespace: Option<&str>,
) -> Result<&'a Value, NoPod> {
    let found: Vec<_> = items(list).iter().filter(|pod| is_meant(pod, wanted, namespace)).collect();
    match found.as_slice() {
        [pod] => Ok(pod),
        [] => {
            let near = nearest(wanted, items(list).iter().map(|pod| name_of(pod).1));
            let hint = near.map(|near| format!(", did you mean {near}?")).unwrap_or_default();
            Err(NoPod::None { name: wanted.to_owned(), hint })
        }
        several => {
            let names = several.iter().map(|pod| name_of(pod)).map(|(space, name)| format!("{space}/{name}"));
            Err(NoPod::Several { name: wanted.to_owned(), found: names.collect() })
        }
    }
}

/// Init containers, then containers, as their statuses are served.
pub(super) fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(|list| pod["status"][list].as_array().into_iter().flatten())
}

fn main_statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["status"]["containerStatuses"].as_array().into_iter().flatten()
}

/// Whether a condition of the pod holds.
pub(super) fn has_condition(pod: &Value, kind: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| text(condition, "/type").eq_ignore_ascii_case(kind) && condition["status"] == "True")
}

/// The word that tells most, as kubectl shows it.
pub(super) fn status_word(pod: &Value) -> (String, Tone) {
    let phase = text(pod, "/status/phase");
    let inits = pod["status"]["initContainerStatuses"].as_array().map_or(0, Vec::len);
    let init = pod["status"]["initContainerStatuses"].as_array().into_iter().flatten().enumerate();
    for (at, status) in init {
        let (state, runs_on) = (&status["state"], status["started"] == true);
        if runs_on || state["terminated"]["exitCode"] == 0 {
            continue;
        }
        let (waiting, ended) = (text(state, "/waiting/reason"), text(state, "/terminated/reason"));
        return match (waiting, ended) {
            ("" | "PodInitializing", "") => (format!("Init:{at}/{inits}"), Tone::Doubtful),
            ("" | "PodInitializing", ended) => (format!("Init:{ended}"), Tone::Bad),
            (waiting, _) => (format!("Init:{waiting}"), tone_of_waiting(waiting)),
        };
    }
    for status in main_statuses(pod) {
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            return (waiting.to_owned(), tone_of_waiting(waiting));
        }
    }
    let failed = main_statuses(pod)
        .find(|status| status["state"]["terminated"]["exitCode"].as_i64().is_some_and(|code| code != 0));
    match (phase, text(pod, "/status/reason"), failed) {
        ("Succeeded", ..) => ("Completed".to_owned(), Tone::Good),
        (_, reason, _) if !reason.is_empty() => (reason.to_owned(), Tone::Bad),
        (_, _, Some(failed)) => (text(failed, "/state/terminated/reason").to_owned(), Tone::Bad),
        ("Running", ..) if has_condition(pod, "Ready") => (phase.to_owned(), Tone::Good),
        (phase, ..) => (phase.to_owned(), Tone::Doubtful),
    }
}

fn tone_of_waiting(reason: &str) -> Tone {
    if matches!(reason, "ContainerCreating" | "PodInitializing") { Tone::Doubtful } else { Tone::Bad }
}

/// The rows of `get pods`.
pub(super) fn pod_rows(pods: &[&Value], wide: bool, now: Timestamp) -> Vec<Vec<Cell>> {
    pods.iter()
        .map(|pod| {
            let (namespace, name) = name_of(pod);
            let containers = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
            let ready = main_statuses(pod).filter(|status| status["ready"] == true).count();
            let restarts: i64 = statuses(pod).filter_map(|status| status["restartCount"].as_i64()).sum();
            let last = statuses(pod).map(|status| text(status, "/lastState/terminated/finishedAt")).max();
            let restarts = match last {
                Some(last) if restarts > 0 && !last.is_empty() => {
                    format!("{restarts} ({} ago)", age(last, now))
                }
                _ => restarts.to_string(),
            };
            let (word, tone) = status_word(pod);
            let mut row = vec![
                namespace.into(),
                name.into(),
                format!("{ready}/{containers}").into(),
                Cell(word, tone),
                restarts.into(),
                age(text(pod, "/status/startTime"), now).into(),
            ];
            if wide {
                row.push(text(pod, "/status/podIP").into());
                row.push(text(pod, "/metadata/annotations/kubernetes.io~1config.source").into());
            }
            row
        })
        .collect()
}

/// The heads of `get pods`.
pub(super) const POD_HEADS: [&str; 8] =
    ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "SOURCE"];

/// How long ago a time was, in one or two units; a question mark if it is not known.
pub(super) fn age(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => seconds_in_words(now.as_second() - time.as_second()),
        Err(_) => "?".to_owned(),
    }
}

/// A number of seconds as people read it.
pub(super) fn seconds_in_words(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0..2) => format!("{seconds}s"),
        (0, 0, _) if minutes < 10 && seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        (0, 0, _) => format!("{minutes}m"),
        (0, 1..10, _) if minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        (0..2, _, _) => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, name: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"nodeName": "Node1"}})
    }

    #[test]
    fn a_pod_is_meant_by_each_of_its_names() {
        let list = json!({"items": [pod("default", "web-node1"), pod("kube-system", "etcd-node1"), pod("a", "x-node1"), pod("b", "x-node1")]});
        for (wanted, namespace, expect) in [
            ("web", None, Ok("web-node1")),
            ("web-node1", None, Ok("web-node1")),
            ("default/web", None, Ok("web-node1")),
            ("kube-system/web", None, Err("there is no pod kube-system/web;")),
            ("etcd", Some("default"), Err("there is no pod etcd;")),
            ("web-node2", None, Err("there is no pod web-node2, did you mean web-node1?")),
            ("x", None, Err("several pods have the name x: a/x-node1, b/x-node1; say which with -n")),
            ("x", Some("b"), Ok("x-node1")),
        ] {
            let found = find_pod(&list, wanted, namespace).map(|pod| name_of(pod).1);
            match (found, expect) {
                (found, Ok(expect)) => assert_eq!(found, Ok(expect), "{wanted}"),
                (Err(error), Err(expect)) => assert!(error.to_string().starts_with(expect), "{error}"),
                (Ok(found), Err(_)) => panic!("{wanted}: {found}"),
            }
        }
    }

    #[test]
    fn an_event_is_found_by_each_name_of_its_pod() {
        let event = json!({
            "involvedObject": {"namespace": "default", "name": "web-node1"}, "source": {"host": "Node1"},
        });
        for (wanted, namespace, expect) in [
            ("web", None, true),
            ("web-node1", Some("default"), true),
            ("default/web", None, true),
            ("web", Some("other"), false),
            ("we", None, false),
            ("node1", None, false),
        ] {
            assert_eq!(is_event_of(&event, wanted, namespace), expect, "{wanted} {namespace:?}");
        }
    }

    #[test]
    fn the_status_is_the_word_that_tells_most() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let main = |state: Value| json!([{"name": "main", "state": state}]);
        for (status, expect, tone) in [
            (
                json!({"phase": "Running", "conditions": ready, "containerStatuses": main(json!({"running": {}}))}),
                "Running",
                Tone::Good,
            ),
            (
                json!({"phase": "Running", "containerStatuses": main(json!({"running": {}}))}),
                "Running",
                Tone::Doubtful,
            ),
            (
                json!({"phase": "Running", "containerStatuses": main(json!({"waiting": {"reason": "CrashLoopBackOff"}}))}),
                "CrashLoopBackOff",
                Tone::Bad,
            ),
            (
                json!({"phase": "Pending", "containerStatuses": main(json!({"waiting": {"reason": "ContainerCreating"}}))}),
                "ContainerCreating",
                Tone::Doubtful,
            ),
            (
                json!({"phase": "Succeeded", "containerStatuses": main(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}))}),
                "Completed",
                Tone::Good,
            ),
            (
                json!({"phase": "Failed", "containerStatuses": main(json!({"terminated": {"exitCode": 3, "reason": "Error"}}))}),
                "Error",
                Tone::Bad,
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted", Tone::Bad),
            (json!({"phase": "Pending"}), "Pending", Tone::Doubtful),
            (
                json!({"phase": "Pending", "initContainerStatuses": main(json!({"running": {}})),
                "containerStatuses": main(json!({"waiting": {"reason": "PodInitializing"}}))}),
                "Init:0/1",
                Tone::Doubtful,
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": main(json!({"waiting": {"reason": "CrashLoopBackOff"}}))}),
                "Init:CrashLoopBackOff",
                Tone::Bad,
            ),
            (
                json!({"phase": "Running", "conditions": ready, "initContainerStatuses": main(json!({"terminated": {"exitCode": 0}}))}),
                "Running",
                Tone::Good,
            ),
        ] {
            assert_eq!(status_word(&json!({"status": status})), (expect.to_owned(), tone), "{status}");
        }
    }

    #[test]
    fn ages_are_short() {
        for (seconds, expect) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (600, "10m"),
            (605, "10m"),
            (3600, "1h"),
            (3660, "1h1m"),
            (40_000, "11h"),
            (172_799, "47h"),
            (172_800, "2d"),
        ] {
            assert_eq!(seconds_in_words(seconds), expect);
        }
        let now = Timestamp::from_second(100).unwrap();
        assert_eq!((age("1970-01-01T00:00:40Z", now).as_str(), age("", now).as_str()), ("60s", "?"));
    }
}
