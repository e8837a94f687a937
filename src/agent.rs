//! Builds the agent from its configuration and runs it until it is told to stop.
//!
//! Owns the executor and the wiring, nothing else. Stopping leaves every pod running.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use async_signal::{Signal, Signals};
use futures_lite::{StreamExt, future};
use smol::lock::{RwLock, Semaphore};
use smol::{Executor, Timer};
use tracing::{info, warn};

use crate::config::Config;
use crate::host::state::Store;
use crate::host::{Dirs, NodeIps};
use crate::http::{Client, Reactor, spawn_tokio_thread};
use crate::plan::Wish;
use crate::plan::checkpoint::Remembered;
use crate::pod::dns::ClusterDns;
use crate::pod::{PodName, Source};
use crate::probe::EXEC_WIDTH;
use crate::runtime::cri::{CriClient, CriError, Endpoint, EndpointError, Timeouts};
use crate::runtime::gc::run_housekeeping;
use crate::runtime::pleg::run_pleg;
use crate::runtime::{Fallback, Images, PullSettings, Runtime, Turns, sandbox_width};
use crate::server::systemd::{Notifier, watchdog_interval};
use crate::server::{Endpoints, HealthCheck, Listening, Port, ProbeReports, ServerError, start_plain};
use crate::source::dir::{DirSource, Signing, Trust, run_dir};
use crate::source::http::{HttpSource, run_http};
use crate::status::events::Recorder;
use crate::status::metrics::Metrics;
use crate::sync::message::Event;
use crate::sync::sync_loop::{Command, SyncLoop};
use crate::sync::view::{Outcome, Published, Verdict, diff_verdicts};
use crate::time::backoff::Backoff;
use crate::worker::prober::Prober;
use crate::worker::{Context, Records, run_pod_worker};

/// A loop that does not answer within this time does not turn.
const PING_DEADLINE: Duration = Duration::from_secs(5);
/// How long starts that are under way may take to come to their end when the agent is told to stop.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);
/// How often a port that cannot be had is tried again.
const PORT_RETRY: Duration = Duration::from_secs(5);

/// Why the agent could not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// The endpoint of the runtime or of the image service.
    #[error("bad endpoint")]
    Endpoint(#[from] EndpointError),
    /// The CRI client.
    #[error("cannot make a client of the runtime")]
    Client(#[from] CriError),
    /// The reactor's thread.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The signals.
    #[error("cannot listen to signals")]
    Signals(#[source] std::io::Error),
}

/// Runs the agent until SIGTERM or SIGINT.
///
/// # Errors
/// When it could not begin; once it runs, no fault ends it.
pub(crate) fn run(config: &Config) -> Result<(), AgentError> {
    let metrics = Arc::new(Metrics::new(&config.node_name));
    let executor = Arc::new(Executor::new());
    let reactor = spawn_tokio_thread().map_err(AgentError::Thread)?;
    let client = Client::new(reactor.clone());
    let runtime = Arc::new(runtime(config, &reactor, client.clone(), metrics.clone(), executor.clone())?);
    let (inbox, events) = async_channel::unbounded();
    let view = Published::default();
    let signals = Signals::new([Signal::Term, Signal::Int]).map_err(AgentError::Signals)?;

    let mut sources = Vec::new();
    let trust = if config.allow_unsafe_manifest_permissions { Trust::Anybody } else { Trust::Root };
    if let Some(path) = &config.pod_manifest_path {
        sources.push(Source::File);
        let source = DirSource {
            path: path.clone(),
            rescan: config.file_check_frequency,
            node_name: config.node_name.clone(),
            strict: config.strict_manifests,
            root_dir: config.root_dir.clone(),
            trust,
            signing: config.signed_files_key.clone().map_or(Signing::NotRequired, Signing::Required),
        };
        executor.spawn(run_dir(source, inbox.clone())).detach();
    }
    if let Some(url) = &config.manifest_url {
        sources.push(Source::Http);
        let source = HttpSource {
            url: url.clone(),
            headers: config.manifest_url_headers.clone(),
            period: config.http_check_frequency,
            plain_text: config.manifest_url_plain_text,
            tls: config.manifest_url_tls.clone(),
            public_key: config.manifest_public_key.clone(),
            trust,
            node_name: config.node_name.clone(),
            strict: config.strict_manifests,
            store: Store::new(&config.root_dir, "url"),
        };
        executor.spawn(run_http(source, client, inbox.clone())).detach();
    }
    let endpoint = config.runtime_endpoint.clone();
    let pleg =
        run_pleg(runtime.cri.clone(), endpoint, executor.clone(), inbox.clone(), config.sync_frequency);
    executor.spawn(pleg).detach();
    executor.spawn(run_housekeeping(runtime.clone(), view.clone())).detach();

    let prober = Prober::new(runtime.clone(), inbox.clone());
    executor.spawn(prober.clone().run()).detach();
    let health = ping(inbox.clone(), PING_DEADLINE);
    let probes: ProbeReports = {
        let prober = prober.clone();
        Arc::new(move || prober.reports())
    };
    let ports = [
        (Port::Healthz, config.healthz_port.map(|port| SocketAddr::new(config.healthz_bind_address, port))),
        (Port::ReadOnly, config.read_only_port.map(|port| SocketAddr::new(config.address, port))),
    ];
    for (port, address) in ports {
        if let Some(address) = address {
            let endpoints = Endpoints {
                port,
                view: view.clone(),
                health: health.clone(),
                probes: probes.clone(),
                events: runtime.events.clone(),
                metrics: metrics.clone(),
            };
            executor.spawn(serve(address, endpoints)).detach();
        }
    }

    let crash_loop = Backoff::crash_loop(config.max_container_restart_period);
    let ending = runtime.clone();
    let records = Records::new(&config.root_dir);
    let remembered = records.read_all();
    let context = Context { runtime, reports: inbox.clone(), crash_loop, records, prober };
    let state = SyncLoop::new(sources).remembering(remembered.clone());
    let turning = run_sync_loop(state, events, context, view, remembered);
    let notifier = notifier();
    if let (Some(notifier), Some(interval)) = (notifier.clone(), watchdog_interval()) {
        executor.spawn(feed_watchdog(notifier, interval, inbox.clone())).detach();
    }
    notify(notifier.as_ref(), Notifier::ready);
    info!(node = config.node_name, version = env!("CARGO_PKG_VERSION"), "rkubelet is running");
    smol::block_on(executor.run(future::or(turning, wait_for_end(signals, ending))));
    notify(notifier.as_ref(), Notifier::stopping);
    info!("stopping; the pods keep running");
    Ok(())
}

fn runtime(
    config: &Config,
    reactor: &Reactor,
    http: Client,
    metrics: Arc<Metrics>,
    executor: Arc<Executor<'static>>,
) -> Result<Runtime, AgentError> {
    let (endpoint, image): (Endpoint, Endpoint) =
        (config.runtime_endpoint.parse()?, config.image_endpoint.parse()?);
    info!(%endpoint, "container runtime");
    let timeouts = Timeouts { request: config.runtime_request_timeout, pull: config.image_pull_deadline };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = metrics.clone();
    let observer =
        Arc::new(move |op, took, failed: Option<_>| counts.observe_operation(op, took, failed.is_some()));
    Ok(Runtime {
        cri: CriClient::new(reactor, &endpoint, &image, timeouts, observer)?,
        http,
        reactor: reactor.clone(),
        exec_probes: Semaphore::new(EXEC_WIDTH),
        events: Recorder::new(&config.node_name),
        dirs: Dirs::new(config.root_dir.clone(), config.pod_logs_dir.clone()),
        node_ips: NodeIps::new(config.node_ips.clone()),
        cluster_dns: ClusterDns {
            servers: config.cluster_dns.iter().map(ToString::to_string).collect(),
            domain: config.cluster_domain.clone(),
        },
        resolv_conf: config.resolv_conf.clone(),
        metrics,
        executor,
        images: Images::new(PullSettings {
            width: config.parallel_image_pulls(),
            fallback: if config.image_pull_fallback { Fallback::Present } else { Fallback::Never },
            root_dir: config.root_dir.clone(),
            providers: config.credential_providers.clone(),
            plugin_dir: config.credential_provider_bin_dir.clone(),
        }),
        sandboxes: Turns::new(sandbox_width(cores)),
        starts: RwLock::new(()),
    })
}

/// Turns the loop: events in, commands out, the view published in between.
async fn run_sync_loop(
    mut state: SyncLoop,
    events: Receiver<Event>,
    context: Context,
    view: Published,
    mut remembered: BTreeMap<PodName, Remembered>,
) {
    let mut workers: BTreeMap<PodName, Sender<Wish>> = BTreeMap::new();
    let mut left_alone: Vec<PodName> = Vec::new();
    let mut refused: Vec<Verdict> = Vec::new();
    let mut verdicts: Arc<[Verdict]> = Arc::default();
    while let Ok(event) = events.recv().await {
        let mut commands = state.handle(event);
        while let Ok(event) = events.try_recv() {
            commands.extend(state.handle(event));
        }
        let strangers = state.left_alone();
        if !strangers.iter().copied().eq(&left_alone) {
            left_alone = strangers.into_iter().cloned().collect();
            let pods = left_alone.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            warn!(pods, "pods of a source that this agent was not given are left alone");
        }
        if state.refusals() != refused {
            let news = state.refusals().iter().filter(|verdict| !refused.contains(verdict));
            news.for_each(log_refusal);
            refused = state.refusals().to_vec();
        }
        if !Arc::ptr_eq(state.verdicts(), &verdicts) {
            tell_verdicts(&verdicts, state.verdicts(), &context.runtime.metrics);
            verdicts = state.verdicts().clone();
        }
        // Published before it is acted upon: housekeeping relies on it.
        view.update(|view| state.show(view));
        for command in commands {
            match command {
                Command::Tell(name, wish) => {
                    let mailbox = workers.entry(name.clone()).or_insert_with(|| {
                        let (mailbox, inbox) = async_channel::bounded(1);
                        // Only the first worker of a name has a past: the last one of a name leaves none.
                        let Remembered { record, .. } = remembered.remove(&name).unwrap_or_default();
                        let worker = run_pod_worker(context.clone(), name, inbox, record);
                        context.runtime.executor.spawn(worker).detach();
                        mailbox
                    });
                    // A worker reads until its mailbox is closed, which only happens below.
                    let _ = mailbox.force_send(wish);
                }
                Command::Dismiss(name) => {
                    workers.remove(&name);
                }
            }
        }
    }
}

fn log_refusal(Verdict { source, origin, document, item, outcome }: &Verdict) {
    if let Outcome::Refused(refusal) = outcome {
        let (field, reason) = (&refusal.first.field, refusal.reason());
        warn!(%source, origin, document, item, field, reason, "manifest refused");
    }
}

/// Counts what is newly refused, and says what only shows where sources meet; the rest each source says itself.
fn tell_verdicts(old: &[Verdict], new: &[Verdict], metrics: &Metrics) {
    for (before, Verdict { source, origin, document, item, outcome }) in diff_verdicts(old, new) {
        match (before, outcome) {
            (_, Outcome::Refused(_)) => metrics.manifest_refused(*source),
            (_, Outcome::Shadowed { pod, by }) => {
                let by = by.origin.as_deref().unwrap_or(by.source.as_str());
                warn!(%source, origin, document, item, %pod, by, "manifest shadowed: its pod has another source");
            }
            (Some(Outcome::Shadowed { pod, .. }), _) => {
                info!(%source, origin, document, item, %pod, "manifest no longer shadowed");
            }
            (_, Outcome::Accepted { .. } | Outcome::Unchanged { .. }) => {}
        }
    }
}

async fn wait_for_end(mut signals: Signals, runtime: Arc<Runtime>) {
    if let Some(Ok(signal)) = signals.next().await {
        info!(?signal, "told to stop");
    }
    runtime.drain(DRAIN_DEADLINE).await;
}

/// Asks the loop whether it turns; one that does not answer within `deadline` does not. Blocks, so it is for
/// threads that may wait.
fn ping(inbox: Sender<Event>, deadline: Duration) -> HealthCheck {
    Arc::new(move || {
        let (reply, answer) = async_channel::bounded(1);
        let asked = inbox.try_send(Event::Ping(reply));
        asked.map_err(|_| "the sync loop has ended".to_owned())?;
        let late = async {
            Timer::after(deadline).await;
            Err(format!("the sync loop has not turned for {deadline:?}"))
        };
        let answered = async { answer.recv().await.map_err(|_| "the sync loop has ended".to_owned()) };
        smol::block_on(future::or(answered, late))
    })
}

/// Keeps a port open; one that is taken is tried again, for pods matter more than ports.
async fn serve(address: SocketAddr, endpoints: Endpoints) {
    let mut complained = false;
    let _listening: Listening = loop {
        match start_plain(address, endpoints.clone()) {
            Ok(listening) => break listening,
            Err(error) => {
                if !complained {
                    let (ServerError::Bind { source, .. } | ServerError::Thread { source, .. }) = &error;
                    warn!(%error, cause = %source, "will try again");
                    complained = true;
                }
                Timer::after(PORT_RETRY).await;
            }
        }
    };
    info!(%address, "serving");
    future::pending().await
}

fn notifier() -> Option<Arc<Notifier>> {
    match Notifier::from_env() {
        Ok(notifier) => notifier.map(Arc::new),
        Err(error) => {
            warn!(%error, "cannot reach the service manager");
            None
        }
    }
}

fn notify<E: std::fmt::Display>(notifier: Option<&Arc<Notifier>>, say: impl Fn(&Notifier) -> Result<(), E>) {
    if let Some(notifier) = notifier
        && let Err(error) = say(notifier)
    {
        warn!(%error, "cannot notify the service manager");
    }
}

/// Feeds the service manager's watchdog, as long as the loop answers.
async fn feed_watchdog(notifier: Arc<Notifier>, interval: Duration, inbox: Sender<Event>) {
    loop {
        Timer::after(interval).await;
        let (reply, answer) = async_channel::bounded(1);
        if inbox.send(Event::Ping(reply)).await.is_ok() && answer.recv().await.is_ok() {
            notify(Some(&notifier), Notifier::watchdog);
        }
    }
}
