//! How others learn that the agent works: its ports, and the service manager.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Sender;
use futures_lite::future;
use serde_json::json;
use smol::Timer;
use tracing::{info, warn};

use crate::config::Config;
use crate::host::Dirs;
use crate::http::Reactor;
use crate::runtime::Runtime;
use crate::runtime::cri::CriClient;
use crate::runtime::stats::StatsReader;
use crate::server::access::AccessRules;
use crate::server::status_line::status_line;
use crate::server::systemd::{Notifier, watchdog_interval};
use crate::server::tls::{ServerTls, ServerTlsError, TlsSettings};
use crate::server::{
    Endpoints, HealthCheck, ImageList, Listening, NodeFigures, Port, ProbeReports, RestartPod, ServerError,
    listen_on_address, listen_on_socket,
};
use crate::sync::handles::Handles;
use crate::sync::message::Event;
use crate::sync::published::Published;
use crate::text::chain;
use crate::text::last_logged::LastLogged;
use crate::time::within::within;
use crate::worker::prober::Prober;

/// A loop that does not answer within this time does not turn.
const PING_DEADLINE: Duration = Duration::from_secs(5);
/// How often a port that cannot be had is tried again.
const PORT_RETRY: Duration = Duration::from_secs(5);

/// Serves the ports that are configured.
pub(super) fn spawn_ports(
    config: &Config,
    reactor: &Reactor,
    handles: &Handles,
    view: &Published,
    prober: &Prober,
    (runtime, cri, dirs): (&Arc<Runtime>, CriClient, Dirs),
) {
    let probes: ProbeReports = {
        let prober = prober.clone();
        Arc::new(move || prober.reports())
    };
    let endpoints = Endpoints {
        access: AccessRules { own_uid: rustix::process::getuid().as_raw(), ..config.access },
        routes: config.routes,
        configz: config.configz.clone(),
        dirs,
        cri: cri.clone(),
        view: view.clone(),
        health: ping(handles.inbox.clone(), PING_DEADLINE),
        probes,
        restart: restart(handles.inbox.clone()),
        images: images(cri),
        events: handles.telemetry.events.clone(),
        metrics: handles.telemetry.metrics.clone(),
        figures: figures(runtime, handles.inbox.clone()),
        stats: Some(Arc::new(StatsReader::new(
            runtime.clone(),
            view.clone(),
            &config.node_name,
            config.runtime_endpoint.path(),
        ))),
    };
    let at = |port: Port, address, number: Option<u16>| {
        number.map(|number| PortPlace::Address(port, SocketAddr::new(address, number)))
    };
    let places = [
        at(Port::Healthz, config.healthz_bind_address, config.healthz_port),
        at(Port::ReadOnly, config.address, config.read_only_port),
        config.secure_port.as_ref().map(|secure| {
            PortPlace::Secure(SocketAddr::new(config.address, secure.port), secure.tls.clone())
        }),
        config.socket_path.clone().map(PortPlace::Socket),
    ];
    for place in places.into_iter().flatten() {
        handles.spawn(serve(place, reactor.clone(), endpoints.clone()));
    }
}

/// What `/metrics` tells of the agent's own parts.
fn figures(runtime: &Runtime, inbox: Sender<Event>) -> Arc<dyn Fn() -> NodeFigures + Send + Sync> {
    let cgroup_version = runtime.cgroup_version();
    Arc::new(move || NodeFigures { cgroup_version, queue: inbox.len() })
}

/// Why a port is not served.
#[derive(Debug, thiserror::Error)]
enum PortError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("cannot serve the port with authentication")]
    Tls(#[from] ServerTlsError),
}

/// Where a port is.
#[derive(Clone)]
enum PortPlace {
    Address(Port, SocketAddr),
    Secure(SocketAddr, TlsSettings),
    Socket(PathBuf),
}

impl PortPlace {
    /// Blocking.
    fn listen(&self, reactor: &Reactor, endpoints: Endpoints) -> Result<Listening, PortError> {
        match self {
            PortPlace::Address(port, address) => {
                Ok(listen_on_address(reactor, *port, *address, None, endpoints)?)
            }
            PortPlace::Secure(address, settings) => {
                let tls = Some(Arc::new(ServerTls::new(settings.clone())?));
                Ok(listen_on_address(reactor, Port::Secure, *address, tls, endpoints)?)
            }
            PortPlace::Socket(path) => Ok(listen_on_socket(reactor, path, endpoints)?),
        }
    }
}

/// Asks the loop whether it turns; one that does not answer within `deadline` does not.
pub(super) fn ping(inbox: Sender<Event>, deadline: Duration) -> HealthCheck {
    Arc::new(move || {
        let (reply, answer) = async_channel::bounded(1);
        let asked = inbox.try_send(Event::Ping(reply));
        Box::pin(async move {
            asked.map_err(|_| "the sync loop has ended".to_owned())?;
            match within(deadline, answer.recv()).await {
                Some(answered) => answered.map_err(|_| "the sync loop has ended".to_owned()),
                None => Err(format!("the sync loop has not turned for {deadline:?}")),
            }
        })
    })
}

/// Asks the loop to have a pod's instance replaced.
fn restart(inbox: Sender<Event>) -> RestartPod {
    Arc::new(move |pod| {
        let (reply, answer) = async_channel::bounded(1);
        let asked = inbox.try_send(Event::RestartPod(pod, reply));
        Box::pin(async move {
            asked.is_ok() && within(PING_DEADLINE, answer.recv()).await.is_some_and(|told| told == Ok(true))
        })
    })
}

/// Asks the runtime for its images.
fn images(cri: CriClient) -> ImageList {
    Arc::new(move || {
        let cri = cri.clone();
        Box::pin(async move {
            let images = cri.list_images().await.map_err(|error| chain(&error))?;
            let items = images.into_iter().map(|image| {
                json!({"id": image.id, "names": image.repo_tags, "digests": image.repo_digests, "size": image.size, "pinned": image.pinned})
            });
            Ok(
                json!({"kind": "ImageList", "apiVersion": "rkubelet.dev/v1", "items": items.collect::<Vec<_>>()}),
            )
        })
    })
}

/// Keeps a port open; one that is taken is tried again, for pods matter more than ports.
async fn serve(place: PortPlace, reactor: Reactor, endpoints: Endpoints) {
    let mut logged = LastLogged::default();
    let listening: Listening = loop {
        let (place, on, endpoints) = (place.clone(), reactor.clone(), endpoints.clone());
        // Sockets have files, and so have certificates.
        match smol::unblock(move || place.listen(&on, endpoints)).await {
            Ok(listening) => break listening,
            Err(error) => {
                let error = chain(&error);
                if logged.is_new(&error) {
                    warn!(error, "will try again");
                }
                Timer::after(PORT_RETRY).await;
            }
        }
    };
    info!(address = listening.name(), "serving");
    future::pending().await
}

/// The way to the service manager, if there is one.
pub(super) fn notifier() -> Option<Arc<Notifier>> {
    match Notifier::from_env() {
        Ok(notifier) => notifier.map(Arc::new),
        Err(error) => {
            warn!(%error, "cannot reach the service manager");
            None
        }
    }
}

/// Tells the service manager that the agent is up, once the loop has turned.
pub(super) async fn notify_ready(inbox: Sender<Event>, notifier: Option<Arc<Notifier>>) {
    if turns(&inbox).await {
        notify(notifier.as_ref(), Notifier::ready);
    }
}

/// Keeps the line that `systemctl status` shows in step with what is published.
pub(super) fn spawn_status_line(handles: &Handles, view: &Published, notifier: Option<&Arc<Notifier>>) {
    if let Some(notifier) = notifier.cloned() {
        handles.spawn(follow_status_line(view.clone(), notifier));
    }
}

async fn follow_status_line(view: Published, notifier: Arc<Notifier>) {
    let mut changes = view.watch();
    let mut shown = String::new();
    loop {
        let line = status_line(&view.load());
        if line != shown {
            notify(Some(&notifier), |notifier| notifier.status(&line));
            shown = line;
        }
        changes.changed().await;
    }
}

/// Tells the service manager that the agent is about to end.
pub(super) fn notify_stopping(notifier: Option<&Arc<Notifier>>) {
    notify(notifier, Notifier::stopping);
}

/// Feeds the service manager's watchdog, if it has one, as long as the loop answers.
pub(super) fn spawn_watchdog(handles: &Handles, notifier: Option<&Arc<Notifier>>) {
    if let (Some(notifier), Some(interval)) = (notifier, watchdog_interval()) {
        handles.spawn(feed_watchdog(notifier.clone(), interval, handles.inbox.clone()));
    }
}

async fn feed_watchdog(notifier: Arc<Notifier>, interval: Duration, inbox: Sender<Event>) {
    loop {
        Timer::after(interval).await;
        if turns(&inbox).await {
            notify(Some(&notifier), Notifier::watchdog);
        }
    }
}

/// Waits until the loop has turned; false when it has ended.
async fn turns(inbox: &Sender<Event>) -> bool {
    let (reply, answer) = async_channel::bounded(1);
    inbox.send(Event::Ping(reply)).await.is_ok() && answer.recv().await.is_ok()
}

fn notify<E: std::fmt::Display>(notifier: Option<&Arc<Notifier>>, say: impl Fn(&Notifier) -> Result<(), E>) {
    if let Some(notifier) = notifier
        && let Err(error) = say(notifier)
    {
        warn!(%error, "cannot notify the service manager");
    }
}
