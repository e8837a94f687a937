//! The containers of a pod with their specification, in the order of the manifest.

use k8s_openapi::api::core::v1::Container as ContainerSpec;

use crate::pod::state::ContainerSummary;
use crate::pod::{Pod, is_sidecar};

/// What a container is to its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::status) enum ContainerRole {
    /// An init container that runs to its end.
    Init,
    /// An init container that runs as long as the pod.
    Sidecar,
    /// One of `spec.containers`.
    Main,
}

impl ContainerRole {
    /// The role of an init container.
    pub(in crate::status) fn of_init(spec: &ContainerSpec) -> Self {
        if is_sidecar(spec) { Self::Sidecar } else { Self::Init }
    }
}

/// A container as specified, and what is known of it.
pub(in crate::status) type Specified<'a> = (&'a ContainerSpec, &'a ContainerSummary);

/// The containers of a pod.
pub(in crate::status) struct Containers<'a> {
    /// The init containers.
    pub(in crate::status) init: Vec<Specified<'a>>,
    /// The others.
    pub(in crate::status) main: Vec<Specified<'a>>,
}

impl<'a> Containers<'a> {
    /// Those of a pod, with what is known of them. One that nothing is known of is left out.
    pub(in crate::status) fn of(
        pod: &'a Pod,
        init: &'a [ContainerSummary],
        main: &'a [ContainerSummary],
    ) -> Self {
        let specified = |specs: &'a [ContainerSpec], known: &'a [ContainerSummary]| {
            let pair = |spec: &'a ContainerSpec| Some((spec, known.iter().find(|c| c.name == spec.name)?));
            specs.iter().filter_map(pair).collect()
        };
        Self {
            init: specified(pod.spec.init_containers.as_deref().unwrap_or_default(), init),
            main: specified(&pod.spec.containers, main),
        }
    }

    /// Init containers and the others.
    pub(in crate::status) fn all(&self) -> impl Iterator<Item = &Specified<'a>> {
        self.init.iter().chain(&self.main)
    }

    /// Those that must be ready for the pod to be ready: sidecars and the others.
    pub(in crate::status) fn needed(&self) -> impl Iterator<Item = &'a ContainerSummary> {
        let sidecars =
            self.init.iter().filter(|(spec, _)| ContainerRole::of_init(spec) == ContainerRole::Sidecar);
        sidecars.chain(&self.main).map(|(_, summary)| *summary)
    }

    /// Init containers that hold the pod back: not completed or, for a sidecar, not started.
    pub(in crate::status) fn incomplete(&self) -> impl Iterator<Item = &'a ContainerSummary> {
        let incomplete = self.init.iter().filter(|(spec, summary)| match ContainerRole::of_init(spec) {
            ContainerRole::Sidecar => !summary.started,
            ContainerRole::Init | ContainerRole::Main => !summary.ready,
        });
        incomplete.map(|(_, summary)| *summary)
    }
}
