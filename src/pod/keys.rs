//! The labels and annotations that tie sandboxes and containers to pods: kubelet's keys, and a few of our own.

use std::collections::BTreeMap;

use super::PodName;

/// Label: the pod's name.
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label: the pod's namespace.
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label: the pod's UID.
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label: the container's name in the pod.
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Annotation of a pod: where it came from.
pub(crate) const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// Annotation of a pod: the hash of its manifest.
pub(crate) const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Annotation of a pod: when its manifest was first seen.
pub(crate) const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
/// Annotation of a mirror pod on an API server; no static pod may bear it.
pub(crate) const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Annotation of a container: the hash of its specification.
pub(crate) const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
/// Annotation of a container: how many containers of its name came before.
pub(crate) const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Annotation of a container: the path of its termination message.
pub(crate) const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation of a container: its terminationMessagePolicy.
pub(crate) const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Annotation of a container: what to do before it is stopped, as JSON.
pub(crate) const PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
/// Annotation of a container: its ports, as JSON.
pub(crate) const CONTAINER_PORTS: &str = "io.kubernetes.container.ports";
/// Annotation of a container: the pod's grace period in seconds.
pub(crate) const GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";

/// Annotation of a container, ours: crashes in a row before it, so that back-off outlives the agent.
pub(crate) const CRASHES: &str = "rkubelet.dev/crashes";

/// Annotation of a container, ours: the boot of the machine in which it was made. An end by a reboot is no crash.
pub(crate) const BOOT_ID: &str = "rkubelet.dev/boot-id";

/// Annotation of a container, ours: how often a rule restarted all containers of the pod before it.
pub(crate) const ROUND: &str = "rkubelet.dev/round";

/// Annotation of a container, ours: its index among the init containers, for a sidecar. Sidecars end last.
pub(crate) const SIDECAR: &str = "rkubelet.dev/sidecar";

/// Annotation of a container, ours: the signal that asks it to end, for runtimes that do not keep it.
pub(crate) const STOP_SIGNAL: &str = "rkubelet.dev/stop-signal";

/// The pod that labels name.
pub(crate) fn pod_name(labels: &BTreeMap<String, String>) -> Option<PodName> {
    Some(PodName::new(labels.get(POD_NAMESPACE)?, labels.get(POD_NAME)?))
}
