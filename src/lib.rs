//! rkubelet: a Kubernetes node agent for the machines that nobody visits.
//!
//! It reads Pod manifests from a directory and from a URL, makes the pods run on containerd through CRI, and keeps them
//! running. This page is the map: what runs, who tells whom, and what always holds.
//!
//! # How data flows
//!
//! ```text
//! source::dir ──┬ Snapshot ─> pod_config ─ PodUpdate ─> sync_loop ── Want ─> pod_worker (one per pod name)
//! source::http ─┘             (the mux)                 ^   ^   ^            │ observe -> plan -> execute
//!                                                  Pleg │   │   └── Report ──┤
//!                             pleg ─────────────────────┘   │ Ping           v
//!                              ^                            │            runtime ─> cri ─> containerd
//!                              └── exits, lists ── cri      │
//!                             view <─ published ─ sync_loop └── server, systemd's watchdog
//! ```
//!
//! A source sends whole snapshots; only [`pod_config`] computes differences. [`sync_loop`] owns the desired state and
//! the table of workers; it does no I/O and waits for no pod, so that its events can be replayed in a test. A worker
//! belongs to a pod's name: instances (UIDs) of the name follow each other inside it. [`plan`] decides, from what
//! [`runtime`] observed; what it decides is data, and [`runtime`] carries it out. [`view`] is what the server reads.
//!
//! # Tasks and channels
//!
//! | task | where | inbox | tells |
//! |---|---|---|---|
//! | sync loop | the main thread, [`agent`] | one unbounded channel of [`sync_loop::Event`] | workers, [`view`] |
//! | a worker per pod name | [`pod_worker`] | a mailbox of one [`plan::Want`], the newest | the sync loop |
//! | directory source | [`source::dir`] | inotify's events and a timer | the sync loop; keeps its last good in [`state`] |
//! | URL source | [`source::http`] | the server's answers, a timer and the network's changes | the sync loop; the same |
//! | runtime watch | [`pleg`] | containerd's event stream and a timer | the sync loop |
//! | probes | [`probe`] | a timer, and workers who say which there are | the sync loop, when a verdict changes |
//! | housekeeping | [`gc`] | a timer | nobody |
//! | watchdog | [`agent`] | a timer | systemd, if the sync loop answers |
//!
//! A worker's errands (hooks, pulls, containers that are being ended) are tasks too: they end with it, and it hears a newer
//! wish while they go on. All of them run on one `smol::Executor`, on the main thread. Beside it: the reactor of
//! smol, one thread for tokio (tonic and hyper need its reactor), one for inotify, one per open port, one that reaps plugins
//! once one was run, and a pool that grows for blocking file work and shrinks again.
//!
//! # Layers
//!
//! Highest first. A room uses only those that come after it, in its line or below; so there is no circle. Pure: no async,
//! no I/O, no clock, no chance, no log; time is a parameter. `tests/tidy` reads this table, and holds the code to it.
//!
//! ```text
//! wiring:      cli, agent, config
//! outside:     server
//! tasks:       worker, source
//! effects:     runtime
//! transports:  host, http
//! the loop:    sync                (pure, but for sync::handles and sync::published)
//! decisions:   status, plan, probe (pure, but for status::events and status::metrics)
//! nouns:       pod, text, time     (pure)
//! ```
//!
//! # The rooms
//!
//! Pure: no async, no I/O, no clock, no logging; time is a parameter. `tests/tidy.rs` holds these walls.
//!
//! - [`pod`]: ids, decoding, defaults, validation, hashes, environment, resolver, names, hooks, status. [`yaml`]: text to
//!   values.
//! - [`pod_config`]: the mux. [`pod_manager`]: the desired pods. [`observed`]: what the runtime was seen to hold.
//! - [`plan`]: what to do next for a pod. [`backoff`]: how long to wait after failures. [`order`]: who starts after whom.
//!   [`record`]: what is remembered of a pod.
//! - [`image`]: names of images, and which credentials suit them.
//! - [`cri::convert`]: pods as CRI messages. [`pleg::diff`], [`gc::select`], `runtime::http_get`, and of [`probe`] all
//!   but its task: the pure cores of their rooms.
//! - `duration`: durations as Go writes them. `excerpt`: beginnings and ends of texts. `suggest`: what was meant by a name
//!   that is not known.
//! - [`view`]: the published snapshot, verdicts included. [`server::router`]: requests to answers. [`events::ring`]: the
//!   newest events.
//! - [`signature`]: what minisign's signatures prove, and which version may follow which.
//!
//! Effects:
//!
//! - [`config`]: flags, KubeletConfiguration and drop-ins become one validated `Config`. [`agent`]: the wiring.
//! - [`cli`]: the operator's commands. `check` comes to the agent's verdicts without an agent.
//! - [`source`], [`sync_loop`], [`pod_worker`], [`pleg`], [`probe`], [`gc`]: the tasks above.
//! - [`http`]: one GET with one deadline, TLS included; whom to ask and what to think of it is the caller's.
//! - [`runtime`]: observes and executes. [`volume`]: what mounts need on the node. [`cri`]: the client.
//! - [`state`]: the little that is kept on disk. [`server`], [`metrics`], [`events`], [`systemd`]: what others see of the
//!   agent.
//!
//! # For people who know kubelet
//!
//! | kubelet | here |
//! |---|---|
//! | `syncLoop`, `syncLoopIteration`, `SyncHandler` | [`sync_loop::SyncLoop::handle`], one match |
//! | `PodConfig`, `podStorage.merge` | [`pod_config`] |
//! | `sourceFile`, `applyDefaults`, `tryDecodeSinglePod` | [`source::dir`], [`pod::decode`], [`pod::identity`] |
//! | `sourceURL`, `tryDecodePodList` | [`source::http`], [`pod::decode::list`] |
//! | `podManager` | [`pod_manager`] |
//! | `podWorkers`, `managePodLoop` | [`pod_worker`] |
//! | `computePodActions`, `podActions` | [`plan::plan_pod`], [`plan::Plan`] |
//! | `kubeGenericRuntimeManager.SyncPod`, `killPodWithSyncResult` | [`runtime`], one method per step |
//! | `killContainer`, `terminationOrdering`, `activeDeadlineHandler` | [`plan::Endings`] and [`plan`] |
//! | `lifecycle.HandlerRunner` | [`pod::hook`], [`runtime::hooks`] |
//! | `prober.Manager`, its workers, `results.Manager` | [`probe::Prober`]: one task, one [`probe::schedule`] |
//! | `pkg/probe` | [`probe::check`], [`runtime::probes`] |
//! | `generatePodSandboxConfig`, `generateContainerConfig` | [`cri::convert`] |
//! | PLEG, evented PLEG | [`pleg`]: events, with a relist as the net |
//! | `record.EventRecorder` | [`events::Recorder`] |
//! | `statusManager`, `generateAPIPodStatus` | [`pod::status`], [`view`] |
//! | `volumeManager` | [`volume`] |
//! | `imageManager`, `imagePuller` | [`runtime::Runtime::pull_image`], an errand of the worker; what failed is in [`plan::PullFailure`] |
//! | `credentialprovider`, its plugins | [`image::keyring`], [`image::provider`] |
//! | `flowcontrol.Backoff` | [`backoff`]; the count is an annotation of the container, and outlives the agent |
//! | `HandlePodCleanups` | workers end their own pods; [`gc`] sweeps what a killed agent left on disk |
//!
//! Deliberately absent: cAdvisor, feature gates inside decisions, a manager of managers, a cache of the runtime's
//! state that anything is decided from.
//!
//! # What always holds
//!
//! 1. One writer per pod name; two instances of a name never overlap.
//! 2. Desired state shrinks only on evidence: what cannot be read stays as it was.
//! 3. Crash-only: after SIGKILL at any instant no container is restarted, doubled or orphaned. What must outlive the
//!    agent is in labels and annotations of sandboxes and containers, or else in [`state`].
//! 4. One slow or broken pod delays no other; every call has a deadline.
//! 5. Decisions are pure functions of what was observed and of the time that they are given.
//! 6. Nothing is dropped in silence: a field that is not honoured, a file that is refused, says so.
//! 7. A restart of the agent leaves containers alone: a pod's identity is a versioned hash of the manifest as written.
//! 8. No listener on the network unless asked for, but for the health port on loopback.
//! 9. Cost grows with what happens, not with what exists: a pod at rest costs no call.

mod agent;
mod cli;
mod config;
mod host;
mod http;
mod plan;
mod pod;
mod probe;
mod runtime;
mod server;
mod source;
mod status;
mod sync;
mod text;
mod time;
mod worker;

pub use cli::main;

/// What the tests, the benchmark and the fuzz targets beside this crate use of it.
#[doc(hidden)]
pub mod testing {
    pub use crate::http::reactor::spawn_tokio_thread;
    pub use crate::pod::decode::list::decode_list;
    pub use crate::pod::decode::{Decoded, Origin, decode_manifest};
    pub use crate::pod::dns::{ClusterDns, parse_resolv_conf, pod_dns};
    pub use crate::pod::id::{ContainerId, SandboxId, Source};
    pub use crate::pod::{Finding, Pod, Refusal};
    pub use crate::runtime::cri::convert::{self, Prepared};
    pub use crate::runtime::cri::{self, CriClient, CriError, Endpoint, Timeouts};
    pub use crate::runtime::sandbox_width;
    pub use crate::source::signature::{PublicKey, digest};
    pub use crate::text::yaml::{find_positions, parse_documents};
}
