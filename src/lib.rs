//! rkubelet: a Kubernetes node agent for the machines that nobody visits.
//!
//! It reads Pod manifests from a directory and from a URL, makes the pods run on containerd through CRI, and keeps them
//! running. This page is the map: how data flows, which task tells which, the layers, the seams where the next parts go, and
//! what always holds. Start here, then read the first file of each room in the order of a manifest's way: `source`, `sync`,
//! `plan`, `worker`, `runtime`, `status`, `server`. A room is a module at the top of `src/`.
//!
//! # How data flows
//!
//! ```text
//! source::dir ──┬ Snapshot ─> sync::mux ─ PodUpdate ─> sync::sync_loop ── Desired ─> worker (one per pod name)
//! source::http ─┘             (merge, diff)            ^   ^   ^   │                │ observe -> plan -> execute
//!                                                 Pleg │   │   └── │ Report ────────┤
//!                             runtime::pleg ───────────┘   │ Ping  │ view           v
//!                              ^                           │       v            runtime ─> cri ─> containerd
//!                              └── exits, lists ── cri     │  sync::published       └─────> host (directories, volumes)
//!                                                          │       │ changed()
//!                                                   server, systemd's watchdog and status line
//! ```
//!
//! A source sends whole snapshots of pods, ConfigMaps and Secrets; only `sync::mux` computes differences. `sync::sync_loop` owns the desired state and
//! the table of workers; it does no I/O and waits for no pod, so that its events can be replayed in a test. A worker
//! belongs to a pod's name: instances (UIDs) of the name follow each other inside it. `plan` decides, from what
//! the runtime was observed to hold; what it decides is data, and the worker carries it out through `runtime::PodRuntime`.
//!
//! # Tasks and channels
//!
//! | task | where | inbox | tells |
//! |---|---|---|---|
//! | sync loop | the main thread, `agent::turn` | one unbounded channel of `sync::message::Event` | workers, `sync::published` |
//! | a worker per pod name | `worker`, started by `worker::pool` | a mailbox of one `plan::Desired`, the newest | the sync loop |
//! | directory source | `source::dir` | inotify's events and a timer | the sync loop; keeps its last good in `host::state` |
//! | URL source | `source::http` | the server's answers, a timer and the network's changes | the sync loop; the same |
//! | runtime watch | `runtime::pleg` | the runtime's event stream and a timer | the sync loop |
//! | probes | `worker::prober` | a timer, and workers who say which there are | the sync loop, when a verdict changes |
//! | housekeeping | `runtime::gc` | a timer; reads the published view and the runtime | nobody |
//! | device plugins | `runtime::devices` | registrations, what plugins tell, changes of the published view | the sync loop |
//! | CPUs of their own | `runtime::cpus`, where the policy is `static` | changes of the published view | nobody |
//! | log rotation | `runtime::log_rotation` | first writes to logs, changes of the published view, and a timer after either | nobody |
//! | kernel log | `host::kernel_log` | records of `/dev/kmsg` | nobody; it records events |
//! | events on disk | `host::event_log` | what is recorded, and a timer after it | nobody |
//! | storage limits | `runtime::storage_limits` | changes of the published view; a timer while a pod with such a limit runs | the sync loop |
//! | watched files | `runtime::file_watch` | changes of directories and of the published view | the sync loop; containers, by signals |
//! | watchdog, status line | `agent::health` | a timer; changes of the published view | systemd |
//!
//! A worker's jobs (hooks, pulls, containers that are being ended) are tasks too: they end with it, and it reacts to a newer
//! desired state while they run. All of them run on one `smol::Executor`, on the main thread. Beside it: the reactor of
//! smol, one thread for tokio (tonic and hyper need its reactor), one for inotify, one per
//! lookup of a host name (bounded), one that reaps plugins once one was run, and a pool that grows for blocking file work
//! and for the pages that ports serve, and shrinks again. Connections to ports are tasks of the tokio thread.
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
//! nouns:       pod, text, time     (pure, but for time::within)
//! ```
//!
//! # The rooms
//!
//! | room | what it owns |
//! |---|---|
//! | `agent` | the list of tasks, start and stop; the simulation of the whole agent |
//! | `cli` | the process, its log, and the operator's commands: `check` comes to the agent's verdicts without an agent, the others are clients of its socket |
//! | `config` | flags, KubeletConfiguration and drop-ins become one validated `Config` |
//! | `server` | who may ask, the router, its handlers and transports, what systemd is told |
//! | `worker` | one pod name: the instance, its jobs, its checkpoint; the prober |
//! | `source` | the directory, the URL, signatures |
//! | `runtime` | the CRI client, observing and executing, images, handlers (hooks and probes), runtime events, housekeeping |
//! | `host` | directories, resources of instances, volumes, the agent's files and locks, addresses |
//! | `http` | one GET with one deadline, TLS included; the tokio thread |
//! | `sync` | the mux, the sync loop, messages, the published view |
//! | `status` | the status of a pod from what is known of it, events, metrics, stats |
//! | `plan` | what to do next for a pod; start order; what is remembered of a pod |
//! | `probe` | which probes there are, when each is due, what results mean |
//! | `pod` | ids, decoding, defaults, validation, hashes, environment, images, ConfigMaps and Secrets, what was observed |
//! | `text`, `time` | YAML, URLs, quoting; the clock, durations, back-off, limits on waits |
//!
//! # Where things are decided
//!
//! | question | place |
//! |---|---|
//! | Which manifest is read, and is it valid? | `source::dir`, `source::http`; `pod::decode`, `pod::validate` |
//! | What is a pod's identity? | `pod::identity`: a versioned hash of the manifest as written, its path and the node name |
//! | Which of two manifests of one source has a name or UID? | `source::claims` |
//! | Which pods should run, when sources disagree? | `sync::mux`; what only one pod can have: `sync::mux::claims` |
//! | Which pods has the node room for, and who makes room? | `sync::admission`; who has a place: `sync::sync_loop::admit` |
//! | Which CPUs has a container? | `pod::cpu_assignment`; kept by `host::cpu_manager`, told by `runtime::cpus` |
//! | Which devices has a container? | `pod::device_assignment`; kept by `host::device_manager`, asked for by `runtime::devices` |
//! | Who starts after whom? | `plan::order` |
//! | What may not be started, since its key was replaced? | `source::untrusted_signature`; obeyed in `plan::starts` |
//! | Is a container started, restarted or ended? | `plan::plan_pod`: `plan::containers` (`ContainerJudge::need`), `plan::init`, `plan::round`, `plan::stop`; what follows an exit code: `pod::restart` |
//! | How long does a retry wait? | `time::backoff`, counted by `time::since` |
//! | What does the URL's answer mean, and when is it asked again? | `source::http::reading` (an error, or contents), `source::http::judge` (which pods), `source::http::pace` |
//! | What outlives the agent, a boot, a power cut? | `plan::checkpoint` (`Durability`), kept by `worker::checkpoints` |
//! | Who may run beside us? | `host::lock`: nobody on the same root directory or runtime |
//! | Does a newer desired state interrupt a worker? | `worker::mailbox`; while the runtime is slow: `unless_changed` in `worker::start` |
//! | Who uses too much disk? | `pod::storage_limit`, measured by `runtime::storage_limits` |
//! | Which file's change restarts or signals whom? | `pod::watch_files`; replaced by `plan::containers` (`Situation::restarts`) |
//! | Which log is rotated, compressed or removed? | `plan::log_rotation` |
//! | What is known of a pod? | `pod::state`, computed by `status::pod_state` |
//! | What is served of a pod? | `status::pod_status` |
//! | What do pods and the node use? | `status::stats`, from what `host::usage` and the runtime tell; asked by `runtime::stats`, when somebody asks |
//! | Which change of a pod is an event? | `status::events::changes`; how events are counted and kept: `status::events::ring`, `status::events::journal` |
//! | Why is a pod as it is? | `cli::why`; which pods an edit restarts: `cli::diff` |
//! | Where does a setting come from? | `config::origin` |
//! | Who may ask the agent's ports, and which path is what? | `server::access`, `server::router`; carried out by `server::handlers` |
//! | Which rights has a container? | `pod::security`, sent by `runtime::cri::convert`; what the node lacks: `runtime::security` |
//! | Which ConfigMaps and Secrets has a pod, and what does it lack? | `pod::object`; who has them: `sync::mux`; what an instance keeps: `worker::objects` |
//! | What do requests and limits become? | `pod::resources`; where: `pod::cgroup_name`, made by `host::cgroup`, or systemd for it (`host::systemd`) |
//! | What may pods use of the node? | `pod::node_allocatable`, from `host::machine` and `config::node_resources` |
//!
//! # Seams: where the next parts go
//!
//! | part | seam |
//! |---|---|
//! | a kind of volume | `host::volume` plans and applies it, `host::resource` (`Volumes`) releases it; `pod::fields`, `pod::validate` and `pod::defaults` accept its fields |
//! | something else that an instance has on the node | one more `host::resource::Resource` in the list of `Resources::new` |
//! | eviction for pressure, shutdown | `sync::message::Event::End`, which `sync::sync_loop` turns into `plan::Want::End` (ends as Failed, the object stays), as limits of storage do; preemption uses `Want::End` so (`sync::sync_loop::admit`), and the active deadline inside the worker |
//! | deletion through an API | a new `sync::message::Event` that becomes `plan::Want::Stop` with a grace |
//! | mirror pods, node status | a task that awaits `sync::published::ViewWatch::changed` |
//! | pods from an API server | a source that sends `sync::mux::Snapshot`s; their ConfigMaps and Secrets: another `pod::object::ObjectProvider` |
//! | a path of the agent's ports | a line of `server::router`'s table and an arm of `server::handlers` |
//! | another runtime, or faults | `runtime::PodRuntime` (`PodObserver`, `PodStarter`, `PodStopper`, each implemented beside its code), `runtime::ProbeRunner` |
//! | another disk | `worker::checkpoints::Checkpoints` |
//! | another time | `time::clock::Clock` |
//!
//! # For people who know kubelet
//!
//! | kubelet | here |
//! |---|---|
//! | `syncLoop`, `syncLoopIteration`, `SyncHandler` | `sync::sync_loop::SyncLoop::handle`, one match |
//! | `PodConfig`, `podStorage.merge` | `sync::mux` |
//! | `sourceFile`, `applyDefaults`, `tryDecodeSinglePod` | `source::dir`, `pod::decode`, `pod::identity` |
//! | `sourceURL`, `tryDecodePodList` | `source::http`, `pod::decode::list` |
//! | `podManager` | `sync::mux`: the merged pods |
//! | `podWorkers`, `managePodLoop` | `worker` |
//! | `computePodActions`, `podActions` | `plan::plan_pod`, `plan::Plan` |
//! | `kubeGenericRuntimeManager.SyncPod`, `killPodWithSyncResult` | `runtime::PodRuntime`, one method per step |
//! | `killContainer`, `terminationOrdering`, `activeDeadlineHandler` | `plan::ending`, `plan::deadline` |
//! | `lifecycle.HandlerRunner` | `pod::hook`, `runtime::handlers` |
//! | `prober.Manager`, its workers, `results.Manager` | `worker::prober`: one task, one `probe::schedule` |
//! | `pkg/probe` | `probe::check`, `runtime::handlers::probes` |
//! | `generatePodSandboxConfig`, `generateContainerConfig` | `runtime::cri::convert` |
//! | PLEG, evented PLEG | `runtime::pleg`: events, and a relist now and then as the safety net |
//! | `record.EventRecorder` | `status::events` |
//! | `statusManager`, `generateAPIPodStatus` | `status::pod_state`, `status::pod_status`, `sync::view` |
//! | `volumeManager` | `host::volume`, `host::resource` |
//! | `imageManager`, `imagePuller` | `runtime::image`, run as a job of the worker; what failed is in `plan::PullFailure` |
//! | `configmap.Manager`, `secret.Manager` | `sync::mux`, told to workers in `plan::Desired` |
//! | `credentialprovider`, its plugins | `pod::image`, `runtime::image` |
//! | `stats.Provider`, `SummaryProvider`, `ResourceAnalyzer`, cAdvisor | `runtime::stats` reads, `status::stats` shows |
//! | `lifecycle.predicateAdmitHandler`, `preemption` | `sync::admission` |
//! | `cpumanager`, its static policy and checkpoint | `pod::cpu_assignment`, `host::cpu_manager`, `runtime::cpus` |
//! | `devicemanager`, its plugins and checkpoint | `pod::device_assignment`, `host::device_manager`, `runtime::devices` |
//! | `ContainerLogManager` | `plan::log_rotation`, `runtime::log_rotation` |
//! | `flowcontrol.Backoff` | `time::backoff`; the count is an annotation of the container, and outlives the agent |
//! | `HandlePodCleanups` | workers end their own pods; `runtime::gc` removes what a killed agent left on the node |
//!
//! Deliberately absent: cAdvisor, feature gates inside decisions, a manager of managers, a cache of the
//! runtime's lists: every pass of a worker lists what there is (or asks for what it has just made), and only the details of an
//! unchanged state are not asked for twice.
//!
//! # What always holds
//!
//! 1. One writer per pod name; two instances of a name never overlap. One agent per root directory and runtime.
//! 2. Desired state shrinks only on evidence: what cannot be read stays as it was.
//! 3. Crash-only: after SIGKILL at any instant no container is restarted, doubled or orphaned. What must outlive the
//!    agent is in labels and annotations of sandboxes and containers, or else in `host::state`.
//! 4. One slow or broken pod delays no other; every call has a deadline.
//! 5. Decisions are pure functions of what was observed and of the time that they are given; waits count on a clock that
//!    never jumps.
//! 6. Nothing is dropped in silence: a field that is not honoured, a file that is refused, says so.
//! 7. A restart of the agent leaves containers alone: a pod's identity is a versioned hash of the manifest as written.
//! 8. No listener on the network unless asked for, but for the health port on loopback and the root-only socket.
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
    pub use crate::cli::command::{COMMANDS, COMMON, CommandRow, OptionRow};
    pub use crate::config::{FlagRow, check_command_line, flag_rows};
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
