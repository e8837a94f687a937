//! The page `/metrics`.
//!
//! Owns the gauges that are read from the view. Invariant: pure; counters come from the registry, the
//! process from its reader. Must not: count.

use std::iter;

use crate::pod::Source;
use crate::pod::state::{ContainerSummary, Phase, PodState};
use crate::status::metrics::exposition::{FamilyKind, Page};
use crate::status::metrics::process::Process;
use crate::status::metrics::{Metrics, as_f64};
use crate::sync::view::{Outcome, PodView, RuntimeState, View};

/// The page, in Prometheus' text format.
pub(crate) fn render(view: &View, metrics: &Metrics, process: &Process, node: NodeFigures) -> String {
    let mut page = Page::default();
    page.family("rkubelet_build_info", FamilyKind::Gauge, "The agent's version. The value is always 1.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    metrics.render(&mut page);
    render_pods(&mut page, view);
    render_manifests(&mut page, view);
    page.family("rkubelet_runtime_up", FamilyKind::Gauge, "1 while the container runtime answers.");
    page.sample(&[], if view.runtime == RuntimeState::Up { 1.0 } else { 0.0 });
    render_node(&mut page, node);
    process.render(&mut page);
    page.into_text()
}

/// The page `/metrics/probes`.
pub(crate) fn render_probes(metrics: &Metrics, process: &Process) -> String {
    let mut page = Page::default();
    process.render_start(&mut page);
    metrics.render_probes(&mut page);
    page.into_text()
}

/// What neither the view nor the registry knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeFigures {
    /// The version of the cgroups: 1 or 2.
    pub cgroup_version: u64,
    /// Events that wait for the sync loop.
    pub queue: usize,
}

fn render_node(page: &mut Page, node: NodeFigures) {
    for (name, help, value) in [
        ("kubelet_cgroup_version", "The version of the node's cgroups.", as_f64(node.cgroup_version)),
        ("kubelet_managed_ephemeral_containers", "Ephemeral containers: pods of manifests have none.", 0.0),
        ("kubelet_mirror_pods", "Mirror pods: there are none without an API server.", 0.0),
        ("rkubelet_sync_loop_queue_length", "Events that wait for the sync loop.", as_f64(node.queue as u64)),
    ] {
        page.family(name, FamilyKind::Gauge, help);
        page.sample(&[], value);
    }
}

fn render_pods(page: &mut Page, view: &View) {
    let from_api = count(view.pods.values(), |pod| pod.pod.source == Source::Api);
    let from_manifests = count(view.pods.values(), |pod| pod.pod.source != Source::Api);
    page.family(
        "kubelet_desired_pods",
        FamilyKind::Gauge,
        "Pods that should run here; static is true or empty.",
    );
    page.sample(&[("static", "")], from_api);
    page.sample(&[("static", "true")], from_manifests);
    let is_active = |pod: &PodView| {
        let ended = |state: &PodState| matches!(state.phase, Phase::Succeeded | Phase::Failed);
        !pod.state.as_deref().is_some_and(ended)
    };
    page.family("kubelet_active_pods", FamilyKind::Gauge, "Pods that are not done; static is true or empty.");
    for (is_static, label) in [(false, ""), (true, "true")] {
        let of_kind = |pod: &PodView| (pod.pod.source != Source::Api) == is_static;
        let active = count(view.pods.values(), |pod| of_kind(pod) && is_active(pod));
        page.sample(&[("static", label)], active);
    }
    page.family("kubelet_running_pods", FamilyKind::Gauge, "Pods that have a running sandbox.");
    page.sample(&[], count(view.pods.values(), |pod| pod.running));
    page.family("kubelet_running_containers", FamilyKind::Gauge, "Containers by state.");
    let containers =
        || view.pods.values().flat_map(|pod| &pod.state).flat_map(|state| state.all_containers());
    page.sample(&[("container_state", "exited")], count(containers(), is_exited));
    page.sample(&[("container_state", "running")], count(containers(), is_running));
}

fn is_running(container: &ContainerSummary) -> bool {
    container.running_since().is_some()
}

/// Ended, and not started anew; a container that waits to be restarted is one too.
fn is_exited(container: &ContainerSummary) -> bool {
    !is_running(container) && container.newest_termination().is_some()
}

fn render_manifests(page: &mut Page, view: &View) {
    page.family("rkubelet_manifests", FamilyKind::Gauge, "Documents by source and by what became of them.");
    // The local sources always have their lines, so that an alert on refusals has a zero to start from.
    let api = view.verdicts.iter().any(|verdict| verdict.source == Source::Api).then_some(Source::Api);
    for source in [Source::File, Source::Http].into_iter().chain(api) {
        for outcome in Outcome::WORDS {
            let found = count(view.verdicts.iter(), |v| v.source == source && v.outcome.word() == outcome);
            page.sample(&[("source", source.as_str()), ("outcome", outcome)], found);
        }
    }
    page.family(
        "rkubelet_manifest_warnings",
        FamilyKind::Gauge,
        "Fields of accepted manifests that are not honoured.",
    );
    for source in [Source::File, Source::Http].into_iter().chain(api) {
        let of_source = view.verdicts.iter().filter(|v| v.source == source && v.outcome.taken().is_some());
        let warnings = of_source.flat_map(|v| v.outcome.warnings());
        page.sample(&[("source", source.as_str())], count(warnings, |_| true));
    }
}

fn count<T>(items: impl IntoIterator<Item = T>, matches: impl Fn(T) -> bool) -> f64 {
    items.into_iter().filter_map(|item| matches(item).then_some(1.0)).chain(iter::once(0.0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::object::Subject;
    use crate::pod::{Finding, PodName};
    use crate::server::pods::tests::reference_view;
    use crate::status::metrics::exposition;
    use crate::sync::view::{Verdict, Winner};

    fn verdict(source: Source, outcome: Outcome) -> Verdict {
        Verdict {
            source,
            origin: "/etc/kubernetes/manifests/a.yaml".to_owned(),
            document: 1,
            item: None,
            outcome,
        }
    }

    #[test]
    fn the_view_is_rendered() {
        let mut view = reference_view();
        let subject = Subject::Pod(PodName::new("default", "a"));
        let warnings = vec![Finding::new("spec.x", "unknown"), Finding::new("spec.y", "not honoured")];
        let by = Winner { source: Source::File, origin: None };
        view.verdicts = [
            verdict(Source::File, Outcome::Accepted { subject: subject.clone(), warnings }),
            verdict(Source::File, Outcome::Unchanged { subject: subject.clone(), warnings: vec![] }),
            verdict(Source::File, Outcome::Refused(Finding::whole("not YAML").into())),
            verdict(Source::Http, Outcome::Shadowed { subject, by }),
        ]
        .into();
        view.runtime = RuntimeState::Up;
        let figures = NodeFigures { cgroup_version: 2, queue: 3 };
        let text = render(&view, &Metrics::new("node1"), &Process::default(), figures);
        exposition::check(&text).unwrap();
        for line in [
            "rkubelet_build_info{version=\"0.1.0\"} 1",
            "kubelet_node_name{node=\"node1\"} 1",
            "kubelet_desired_pods{static=\"\"} 0",
            "kubelet_desired_pods{static=\"true\"} 5",
            "kubelet_active_pods{static=\"true\"} 5",
            "kubelet_running_pods 5",
            "kubelet_cgroup_version 2",
            "rkubelet_sync_loop_queue_length 3",
            "kubelet_running_containers{container_state=\"exited\"} 2",
            "kubelet_running_containers{container_state=\"running\"} 5",
            "rkubelet_manifests{source=\"file\",outcome=\"accepted\"} 1",
            "rkubelet_manifests{source=\"file\",outcome=\"unchanged\"} 1",
            "rkubelet_manifests{source=\"file\",outcome=\"refused\"} 1",
            "rkubelet_manifest_refusals_total{source=\"file\"} 0",
            "rkubelet_manifests{source=\"http\",outcome=\"refused\"} 0",
            "rkubelet_manifests{source=\"http\",outcome=\"shadowed\"} 1",
            "rkubelet_manifest_warnings{source=\"file\"} 2",
            "rkubelet_runtime_up 1",
        ] {
            assert!(text.lines().any(|got| got == line), "no line {line}\n{text}");
        }
        assert!(!text.contains("process_"), "what is not known is absent");
    }

    #[test]
    fn the_runtime_is_up_only_when_it_answers() {
        for (runtime, expected) in [
            (RuntimeState::Unknown, "0"),
            (RuntimeState::Down("refused".to_owned()), "0"),
            (RuntimeState::Up, "1"),
        ] {
            let view = View { runtime, ..View::default() };
            let text = render(&view, &Metrics::default(), &Process::default(), NodeFigures::default());
            assert!(text.contains(&format!("\nrkubelet_runtime_up {expected}\n")), "{text}");
        }
    }
}
