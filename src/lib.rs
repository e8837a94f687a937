//! rkubelet: a Kubernetes node agent for the machines that nobody visits.
//!
//! It reads Pod manifests from a directory, makes the pods run on containerd through CRI, and keeps them running.
//! This page is the map: what runs, who tells whom, and what always holds.
//!
//! # How data flows
//!
//! ```text
//! source::dir ── Snapshot ─> pod_config ── PodUpdate ─> sync_loop ── Want ─> pod_worker (one per pod name)
//!                            (the mux)                  ^   ^   ^            │ observe -> plan -> execute
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
//! | directory source | [`source::dir`] | inotify's events and a timer | the sync loop |
//! | runtime watch | [`pleg`] | containerd's event stream and a timer | the sync loop |
//! | housekeeping | [`gc`] | a timer | nobody |
//! | watchdog | [`agent`] | a timer | systemd, if the sync loop answers |
//!
//! All of them run on one `smol::Executor`, on the main thread. Beside it: the reactor of smol, one thread for
//! tokio (tonic needs its reactor), one for inotify, one per open port, and a pool that grows for blocking file work
//! and shrinks again.
//!
//! # The rooms
//!
//! Pure: no async, no I/O, no clock, no logging; time is a parameter. `tests/tidy.rs` holds these walls.
//!
//! - [`pod`]: ids, decoding, defaults, validation, hashes, environment, resolver, status. [`yaml`]: text to values.
//! - [`pod_config`]: the mux. [`pod_manager`]: the desired pods. [`observed`]: what the runtime was seen to hold.
//! - [`plan`]: what to do next for a pod. [`backoff`]: how long to wait after failures.
//! - [`cri::convert`]: pods as CRI messages. [`pleg::diff`], [`gc::select`]: the pure cores of their rooms.
//! - [`view`]: the published snapshot. [`server::router`]: requests to answers.
//!
//! Effects:
//!
//! - [`config`]: flags, KubeletConfiguration and drop-ins become one validated `Config`. [`agent`]: the wiring.
//! - [`source`], [`sync_loop`], [`pod_worker`], [`pleg`], [`gc`]: the tasks above.
//! - [`runtime`]: observes and executes. [`volume`]: what mounts need on the node. [`cri`]: the client.
//! - [`server`], [`metrics`], [`systemd`]: what others see of the agent.
//!
//! # For people who know kubelet
//!
//! | kubelet | here |
//! |---|---|
//! | `syncLoop`, `syncLoopIteration`, `SyncHandler` | [`sync_loop::SyncLoop::handle`], one match |
//! | `PodConfig`, `podStorage.merge` | [`pod_config`] |
//! | `sourceFile`, `applyDefaults`, `tryDecodeSinglePod` | [`source::dir`], [`pod::decode`], [`pod::identity`] |
//! | `podManager` | [`pod_manager`] |
//! | `podWorkers`, `managePodLoop` | [`pod_worker`] |
//! | `computePodActions`, `podActions` | [`plan::plan_pod`], [`plan::Plan`] |
//! | `kubeGenericRuntimeManager.SyncPod`, `killPodWithSyncResult` | [`runtime`], one method per step |
//! | `generatePodSandboxConfig`, `generateContainerConfig` | [`cri::convert`] |
//! | PLEG, evented PLEG | [`pleg`]: events, with a relist as the net |
//! | `statusManager`, `generateAPIPodStatus` | [`pod::status`], [`view`] |
//! | `volumeManager` | [`volume`] |
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
//!    agent is in labels and annotations of sandboxes and containers.
//! 4. One slow or broken pod delays no other; every call has a deadline.
//! 5. Decisions are pure functions of what was observed and of the time that they are given.
//! 6. Nothing is dropped in silence: a field that is not honoured, a file that is refused, says so.
//! 7. A restart of the agent leaves containers alone: a pod's identity is a versioned hash of the manifest as written.
//! 8. No listener on the network unless asked for, but for the health port on loopback.
//! 9. Cost grows with what happens, not with what exists: a pod at rest costs no call.

pub mod agent;
pub mod backoff;
pub mod config;
pub mod cri;
pub mod gc;
pub mod metrics;
pub mod observed;
pub mod plan;
pub mod pleg;
pub mod pod;
pub mod pod_config;
pub mod pod_manager;
pub mod pod_worker;
pub mod runtime;
pub mod server;
pub mod source;
pub mod sync_loop;
pub mod systemd;
pub mod view;
pub mod volume;
pub mod yaml;
