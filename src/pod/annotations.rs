//! What rkubelet lets a manifest say in annotations of its own, `rkubelet.dev/...`.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::finding::Finding;
use crate::text::excerpt::quoted;
use crate::time::duration::parse_duration;

/// A duration: no crash loop of this pod waits longer between two tries.
pub(crate) const MAX_RESTART_BACKOFF: &str = "rkubelet.dev/max-restart-backoff";

/// Names, with commas between them: the pod starts when these pods of its namespace are ready.
pub(crate) const AFTER: &str = "rkubelet.dev/after";
/// A duration: for so long at most does the pod wait for them.
pub(crate) const AFTER_TIMEOUT: &str = "rkubelet.dev/after-timeout";

/// `true`: the pod is replaced when a ConfigMap or Secret changes that it refers to.
pub(crate) const RESTART_ON_CHANGE: &str = "rkubelet.dev/restart-on-change";

/// The path of an annotation.
pub(crate) fn field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

/// The names in one of our annotations, each once, in the order of the manifest; none if it is not given.
pub(crate) fn names<'a>(metadata: &'a ObjectMeta, key: &str) -> Vec<&'a str> {
    let text = metadata.annotations.as_ref().and_then(|all| all.get(key));
    let mut names: Vec<&str> = Vec::new();
    for name in text.into_iter().flat_map(|text| text.split(',')).map(str::trim) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// One of our annotations says yes.
pub(crate) fn is_true(metadata: &ObjectMeta, key: &str) -> bool {
    metadata.annotations.as_ref().and_then(|all| all.get(key)).is_some_and(|text| text == "true")
}

/// What is wrong with one of our annotations that says yes or no.
pub(crate) fn not_a_switch(metadata: &ObjectMeta, key: &str) -> Option<Finding> {
    let text = metadata.annotations.as_ref()?.get(key)?;
    let reason = || format!("{} is neither \"true\" nor \"false\"", quoted(text));
    (!matches!(text.as_str(), "true" | "false")).then(|| Finding::new(field(key), reason()))
}

/// The value of one of our annotations, as a duration of more than nothing; none if it is not given.
pub(crate) fn duration(metadata: &ObjectMeta, key: &str) -> Result<Option<Duration>, Finding> {
    let Some(text) = metadata.annotations.as_ref().and_then(|all| all.get(key)) else { return Ok(None) };
    let nanos = parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok()).filter(|nanos| *nanos > 0);
    let wrong = || {
        Finding::new(
            field(key),
            format!("{} is not a duration of more than 0, such as 30s or 5m", quoted(text)),
        )
    };
    Ok(Some(Duration::from_nanos(nanos.ok_or_else(wrong)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_between_commas() {
        let cases: [(Option<&str>, &[&str]); 5] = [
            (None, &[]),
            (Some("db"), &["db"]),
            (Some(" db , cache,db"), &["db", "cache"]),
            (Some(""), &[""]),
            (Some("db,"), &["db", ""]),
        ];
        for (text, expect) in cases {
            let annotations = text.map(|text| [(AFTER.to_owned(), text.to_owned())].into());
            let metadata = ObjectMeta { annotations, ..ObjectMeta::default() };
            assert_eq!(names(&metadata, AFTER), expect, "{text:?}");
        }
    }

    #[test]
    fn durations_are_gos_and_positive() {
        let cases = [
            (None, Ok(None)),
            (Some("30s"), Ok(Some(30_000))),
            (Some("1m0.5s"), Ok(Some(60_500))),
            (Some(""), Err(())),
            (Some("0"), Err(())),
            (Some("-1s"), Err(())),
            (Some("30"), Err(())),
        ];
        for (text, expect) in cases {
            let annotations = text.map(|text| [(MAX_RESTART_BACKOFF.to_owned(), text.to_owned())].into());
            let metadata = ObjectMeta { annotations, ..ObjectMeta::default() };
            let found = duration(&metadata, MAX_RESTART_BACKOFF);
            if let Err(finding) = &found {
                assert_eq!(finding.field, "metadata.annotations[rkubelet.dev/max-restart-backoff]");
            }
            let millis = found.map(|found| found.map(|d| d.as_millis())).map_err(|_| ());
            assert_eq!(millis, expect, "{text:?}");
        }
    }
}
