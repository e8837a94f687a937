//! Builds the agent from its configuration and runs it until it is told to stop.
//!
//! Owns the list of tasks, nothing else. Stopping leaves every pod running.

mod build;
mod health;
#[cfg(test)]
mod simulation;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use async_signal::{Signal, Signals};
use futures_lite::{StreamExt, future};
use smol::Executor;
use tracing::{info, warn};

use crate::config::Config;
use crate::host::clock::SystemClock;
use crate::host::cpu_manager::CpuError;
use crate::host::event_log::{EventLog, run_event_log};
use crate::host::inotify::Inotify;
use crate::host::kernel_log::run_kernel_log;
use crate::host::lock::{Lock, LockError, lock_root_dir, lock_runtime};
use crate::host::state::Store;
use crate::http::{Client, spawn_tokio_thread};
use crate::runtime::Runtime;
use crate::runtime::cpus::run_cpu_assignment;
use crate::runtime::cri::CriError;
use crate::runtime::devices::run_device_plugins;
use crate::runtime::file_watch::run_file_watch;
use crate::runtime::gc::run_housekeeping;
use crate::runtime::log_rotation::run_log_rotation;
use crate::runtime::pleg::run_pleg;
use crate::runtime::storage_limits::run_storage_limits;
use crate::server::remove_socket;
use crate::status::Telemetry;
use crate::status::events::{EventType, Recorder};
use crate::status::metrics::Metrics;
use crate::sync::handles::Handles;
use crate::sync::published::Published;
use crate::sync::sync_loop::SyncLoop;
use crate::text::chain;
use crate::time::backoff::Backoff;
use crate::worker::Context;
use crate::worker::checkpoints::DiskCheckpoints;
use crate::worker::pool::WorkerPool;
use crate::worker::prober::Prober;

/// At shutdown, how long to wait for starts that are in progress.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);

/// Why the agent could not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// The CRI client.
    #[error("cannot make a client of the runtime")]
    Client(#[from] CriError),
    /// The reactor's thread.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// Another agent.
    #[error("there is another agent")]
    Lock(#[from] LockError),
    /// CPUs that containers have for themselves.
    #[error("cannot give containers CPUs of their own")]
    Cpus(#[from] CpuError),
    /// More is reserved than the node has.
    #[error("what is reserved (kubeReserved, systemReserved, evictionHard) does not fit the node: {}", .0.join("; "))]
    Reservations(Vec<String>),
    /// The signals.
    #[error("cannot listen to signals")]
    Signals(#[source] std::io::Error),
}

/// Runs the agent until SIGTERM or SIGINT.
///
/// # Errors
/// When it could not begin; once it runs, no fault ends it.
pub(crate) fn run(config: &Config) -> Result<(), AgentError> {
    forbid_core_files();
    let endpoint = config.runtime_endpoint.to_string();
    let _locks = [held(lock_root_dir(&config.root_dir))?, held(lock_runtime(&endpoint))?];
    let signals = Signals::new([Signal::Term, Signal::Int]).map_err(AgentError::Signals)?;
    let reactor = spawn_tokio_thread().map_err(AgentError::Thread)?;
    let client = Client::new(reactor.clone());
    let (inbox, events) = async_channel::unbounded();
    let telemetry = Telemetry {
        metrics: Arc::new(Metrics::new(&config.node_name)),
        events: Recorder::new(&config.node_name),
    };
    let handles = Handles {
        executor: Arc::new(Executor::new()),
        clock: Arc::new(SystemClock::new()),
        inbox,
        telemetry,
    };
    let view = Published::default();
    let recorder = handles.telemetry.events.clone();
    let event_log = Arc::new(EventLog::open(&config.root_dir, config.event_log_size, &recorder));
    recorder.note_node(EventType::Normal, "Starting", "Starting kubelet.");

    let parts = build::runtime(config, &reactor, &client, &handles.telemetry)?;
    let limits = build::node_limits(config, &parts.allocatable, parts.node.security.clone());
    let runtime =
        Arc::new(Runtime::new(parts.cri.clone(), parts.node.clone(), parts.images, parts.handlers.clone()));
    let devices = parts.node.devices.clone();
    let (cri, dirs) = (parts.cri.clone(), parts.node.dirs.clone());
    let prober = Prober::new(Arc::new(parts.handlers), handles.clone());
    let updates = Store::in_memory(&config.root_dir, "pods");
    let checkpoints = DiskCheckpoints::new(&config.root_dir, parts.node.dirs, updates);
    let remembered = checkpoints.read_all();

    // The tasks; those of the workers are started by the pool.
    let sources = build::spawn_sources(config, &handles, client);
    handles.spawn(run_pleg(
        parts.cri,
        config.runtime_endpoint.to_string(),
        handles.clone(),
        config.sync_frequency,
    ));
    handles.spawn(run_housekeeping(runtime.clone(), view.clone(), handles.clock.clone()));
    // One instance for both: users have few.
    let inotify = Inotify::new().inspect_err(|error| warn!(%error, "cannot watch files"));
    let inotify = inotify.ok().map(Arc::new);
    if let Some(policy) = config.log_rotation {
        let watch = inotify.clone();
        handles.spawn(run_log_rotation(runtime.clone(), policy, watch, view.clone(), handles.clone()));
    }
    handles.spawn(run_cpu_assignment(runtime.clone(), view.clone()));
    handles.spawn(run_device_plugins(devices, view.clone(), handles.clone()));
    handles.spawn(run_event_log(event_log.clone(), recorder.clone(), handles.clock.clone()));
    handles.spawn(run_kernel_log(handles.telemetry.events.clone()));
    if let Some(inotify) = inotify {
        handles.spawn(run_file_watch(runtime.clone(), inotify, view.clone(), handles.clone()));
    }
    handles.spawn(run_storage_limits(runtime.clone(), view.clone(), handles.clone()));
    handles.spawn(prober.clone().run());
    health::spawn_ports(config, &reactor, &handles, &view, &prober, (&runtime, cri, dirs));
    let notifier = health::notifier();
    health::spawn_watchdog(&handles, notifier.as_ref());

    handles.spawn(health::notify_ready(handles.inbox.clone(), notifier.clone()));
    health::spawn_status_line(&handles, &view, notifier.as_ref());

    let context = Context {
        handles: handles.clone(),
        runtime: runtime.clone(),
        checkpoints: Arc::new(checkpoints),
        prober,
        crash_loop: Backoff::crash_loop(config.max_container_restart_period),
    };
    let sync_loop = SyncLoop::new(sources)
        .looking_in(build::object_places(config))
        .remembering(remembered.clone())
        .on_node(limits);
    let pool = WorkerPool::new(context, remembered);
    let turning = turn::run_sync_loop(sync_loop, events, pool, view, handles.telemetry.clone());
    info!(node = config.node_name, version = env!("CARGO_PKG_VERSION"), "rkubelet is running");
    smol::block_on(handles.executor.run(future::or(turning, wait_for_end(signals, runtime))));
    health::notify_stopping(notifier.as_ref());
    event_log.save(&recorder);
    if let Some(path) = &config.socket_path {
        remove_socket(path);
    }
    info!("stopping; the pods keep running");
    Ok(())
}

/// The agent's memory holds what Secrets hold, and credentials: nobody but root reads it, and no core file keeps it.
fn forbid_core_files() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(%error, "a core file of the agent would hold what Secrets hold");
    }
}

/// A lock that somebody else holds ends the start; one that cannot be made does not, for pods matter more.
fn held(lock: Result<Lock, LockError>) -> Result<Option<Lock>, LockError> {
    match lock {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Held { .. }) => Err(error),
        Err(error) => {
            warn!(error = chain(&error), "cannot take a lock; a second agent would not be noticed");
            Ok(None)
        }
    }
}

async fn wait_for_end(mut signals: Signals, runtime: Arc<Runtime>) {
    if let Some(Ok(signal)) = signals.next().await {
        info!(?signal, "told to stop");
    }
    runtime.drain(DRAIN_DEADLINE).await;
}
