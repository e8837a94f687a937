//! Which result of a probe is an event, and in which words. Pure.

use crate::probe::schedule::{News, ProbeResult};
use crate::probe::threshold::Kind;
use crate::status::events::EventType;

/// An event to record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProbeEvent {
    pub(super) event: EventType,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What to record of a result, if anything: that all is well from the beginning is no news.
pub(super) fn probe_event(kind: Kind, result: ProbeResult, news: News, output: &str) -> Option<ProbeEvent> {
    let (event, reason, word) = match result {
        ProbeResult::Success => (EventType::Normal, "Healthy", "succeeded"),
        ProbeResult::Warning => (EventType::Warning, "ProbeWarning", "warning"),
        ProbeResult::Failure => (EventType::Warning, "Unhealthy", "failed"),
        ProbeResult::Unknown => (EventType::Warning, "Unhealthy", "errored"),
    };
    let is_news = match news {
        News::No => false,
        News::First => result != ProbeResult::Success,
        News::Changed => true,
    };
    let message = format!("{} probe {word}: {output}", kind.as_str());
    is_news.then(|| ProbeEvent { event, reason, message: message.trim_end_matches(": ").to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_and_a_bad_beginning() {
        use News::{Changed, First, No};
        use ProbeResult::{Failure, Success, Unknown, Warning};
        let told = |event, reason, message: &str| Some((event, reason, message.to_owned()));
        let (normal, warning) = (EventType::Normal, EventType::Warning);
        let rows = [
            (Kind::Liveness, Success, First, "ok", None),
            (Kind::Liveness, Success, No, "ok", None),
            (Kind::Liveness, Failure, No, "no", None),
            (
                Kind::Readiness,
                Success,
                Changed,
                "ok",
                told(normal, "Healthy", "Readiness probe succeeded: ok"),
            ),
            (Kind::Readiness, Success, Changed, "", told(normal, "Healthy", "Readiness probe succeeded")),
            (Kind::Startup, Failure, First, "no", told(warning, "Unhealthy", "Startup probe failed: no")),
            (Kind::Liveness, Failure, Changed, "no", told(warning, "Unhealthy", "Liveness probe failed: no")),
            (
                Kind::Liveness,
                Warning,
                Changed,
                "eh",
                told(warning, "ProbeWarning", "Liveness probe warning: eh"),
            ),
            (Kind::Liveness, Unknown, First, "eh", told(warning, "Unhealthy", "Liveness probe errored: eh")),
        ];
        for (kind, result, news, output, expect) in rows {
            let found = probe_event(kind, result, news, output);
            let found = found.map(|found| (found.event, found.reason, found.message));
            assert_eq!(found, expect, "{kind:?} {result:?} {news:?} {output}");
        }
    }
}
