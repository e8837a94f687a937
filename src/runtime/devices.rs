//! Device plugins: they register at a socket, tell their devices, and are asked when containers need some.
//!
//! Owns the connections; who has which device is kept by [`DeviceManager`] and decided in `pod::device_assignment`. What pods
//! may request, and how their devices are, is told to the sync loop with each change. A pod that has its devices needs no
//! plugin to go on.

mod needs;
mod plugin;
mod registration;
mod socket;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use futures_lite::future;
use k8s_openapi::api::core::v1::Container;
use prost::{DecodeError, Message};
use tracing::{debug, info, warn};

use super::StartError;
use crate::host::device_manager::{DeviceManager, DeviceStateError};
use crate::http::Reactor;
use crate::pod::device_assignment::{
    Device, DeviceAssignments, DeviceShortage, is_extended_resource, wanted_devices,
};
use crate::pod::state::Phase;
use crate::pod::{Pod, PodUid};
use crate::runtime::cri::proto::device_plugin::{ListAndWatchResponse, RegisterRequest};
use crate::sync::handles::Handles;
use crate::sync::message::{DeviceChange, Event};
use crate::sync::published::Published;
use crate::sync::view::PodView;
use crate::text::chain;
use crate::text::last_logged::LastLogged;
use plugin::{DevicePluginError, PluginConnection};

pub(crate) use needs::DeviceNeeds;

const VERSION: &str = "v1beta1";
const HEALTHY: &str = "Healthy";
/// Between two attempts to listen, on a disk that is full or read-only.
const PAUSE: Duration = Duration::from_secs(60);

/// Why a container does not have its devices.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeviceError {
    /// There are too few.
    #[error(transparent)]
    Shortage(#[from] DeviceShortage),
    /// The plugin did not answer, or refused.
    #[error(transparent)]
    Plugin(#[from] DevicePluginError),
    /// It is gone, and must be asked before each start.
    #[error("the device plugin of {0} is gone")]
    Gone(String),
    /// It cannot be written down.
    #[error(transparent)]
    State(#[from] DeviceStateError),
    /// What it answered once cannot be read any more.
    #[error("the answer of a device plugin cannot be read")]
    Answer(#[from] DecodeError),
}

/// The plugins that have registered.
#[derive(Debug)]
pub(crate) struct DevicePlugins {
    manager: Arc<DeviceManager>,
    reactor: Reactor,
    known: Mutex<BTreeMap<String, KnownPlugin>>,
    /// Holds a message when a container was given devices.
    granted: (Sender<()>, Receiver<()>),
}

/// The newest plugin of a resource.
#[derive(Debug, Clone)]
struct KnownPlugin {
    plugin: PluginConnection,
    /// Tells it from those before it.
    number: u64,
    connected: bool,
    /// One container at a time: what is given to one is free for no other.
    turn: Arc<smol::lock::Mutex<()>>,
    /// Closed when another one takes its place.
    replaced: (Sender<()>, Receiver<()>),
}

impl DevicePlugins {
    /// None yet.
    pub(crate) fn new(manager: Arc<DeviceManager>, reactor: Reactor) -> Self {
        Self { manager, reactor, known: Mutex::default(), granted: async_channel::bounded(1) }
    }

    /// Who has which devices.
    pub(crate) fn manager(&self) -> &Arc<DeviceManager> {
        &self.manager
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KnownPlugin>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plugin_of(&self, resource: &str) -> Option<KnownPlugin> {
        self.lock().get(resource).cloned()
    }

    /// What a container needs for its devices. Gives the pod its devices if it has none yet, and has the plugins prepare the
    /// start of this container.
    ///
    /// # Errors
    /// When there are too few, or a plugin refuses.
    pub(super) async fn prepare(&self, pod: &Pod, container: &Container) -> Result<DeviceNeeds, StartError> {
        if pod.containers().all(|(_, container)| wanted_devices(container).is_empty()) {
            return Ok(DeviceNeeds::default());
        }
        self.assign_all(pod).await.map_err(|error| {
            let message = format!("Allocate failed due to {}, which is unexpected", chain(&error));
            StartError::refused("UnexpectedAdmissionError", message)
        })?;
        let prepared = self.prepare_start(pod, container).await;
        prepared.map_err(|error| StartError::refused("CreateContainerConfigError", chain(&error)))
    }

    async fn assign_all(&self, pod: &Pod) -> Result<(), DeviceError> {
        for (_, container) in pod.containers() {
            for (resource, count) in wanted_devices(container) {
                self.assign(pod, &container.name, &resource, count).await?;
            }
        }
        // Also what could not be written before.
        let manager = self.manager.clone();
        Ok(smol::unblock(move || manager.change(|_| ())).await?)
    }

    async fn assign(
        &self,
        pod: &Pod,
        container: &str,
        resource: &str,
        count: usize,
    ) -> Result<(), DeviceError> {
        let choose = || self.manager.look(|all| all.choose(pod, container, resource, count));
        if choose()?.is_none() {
            return Ok(());
        }
        let gone = || DeviceShortage::Unhealthy(resource.to_owned());
        let KnownPlugin { plugin, turn, .. } = self.plugin_of(resource).ok_or_else(gone)?;
        let _turn = turn.lock().await;
        let Some(choice) = choose()? else { return Ok(()) };
        let preferred = match choice.alternatives() {
            Some(all) => plugin.prefer(all, &choice.taken, choice.count).await?,
            None => Vec::new(),
        };
        let ids = choice.settle(&preferred);
        let answer = plugin.allocate(&ids).await?.encode_to_vec();
        let named = ids.iter().cloned().collect::<Vec<_>>().join(" ");
        info!(pod = %pod.name, container, resource, devices = named, "gave a container its devices");
        let (manager, uid) = (self.manager.clone(), pod.uid.clone());
        let (container, resource) = (container.to_owned(), resource.to_owned());
        let grant = move || manager.change(|all| all.grant(&uid, &container, &resource, ids, answer));
        smol::unblock(grant).await?;
        // One that is full tells of this, too.
        let _ = self.granted.0.try_send(());
        Ok(())
    }

    async fn prepare_start(&self, pod: &Pod, container: &Container) -> Result<DeviceNeeds, DeviceError> {
        let grants = self.manager.look(|all| all.of(&pod.uid, &container.name).cloned()).unwrap_or_default();
        for (resource, grant) in &grants {
            // One that has not registered since the agent began is not asked, as with kubelet.
            let Some(known) = self.plugin_of(resource) else { continue };
            if known.plugin.options.pre_start_required && !known.connected {
                return Err(DeviceError::Gone(resource.clone()));
            }
            known.plugin.prepare_start(grant.ids()).await?;
        }
        Ok(DeviceNeeds::of(&grants)?)
    }

    /// Connects a plugin that has registered.
    async fn connect(&self, request: &RegisterRequest) -> Result<KnownPlugin, String> {
        let RegisterRequest { version, endpoint, resource_name, .. } = request;
        if version != VERSION {
            return Err(format!(
                "requested API version {version:?} is not supported. Supported version is {VERSION:?}"
            ));
        }
        if !is_extended_resource(resource_name) {
            return Err(format!("the ResourceName {resource_name:?} is invalid"));
        }
        let socket = self.manager.dir().join(endpoint.trim_start_matches('/'));
        let plugin =
            PluginConnection::connect(&self.reactor, &socket).await.map_err(|error| chain(&error))?;
        let mut known = self.lock();
        let before = known.get(resource_name);
        if let Some(before) = before {
            before.replaced.0.close();
        }
        let number = before.map_or(0, |before| before.number.saturating_add(1));
        let turn = before.map(|before| before.turn.clone()).unwrap_or_default();
        let newest =
            KnownPlugin { plugin, number, connected: true, turn, replaced: async_channel::bounded(1) };
        known.insert(resource_name.clone(), newest.clone());
        Ok(newest)
    }

    fn is_newest(&self, resource: &str, number: u64) -> bool {
        self.lock().get(resource).is_some_and(|known| known.number == number)
    }

    /// Takes in what a plugin tells, until it is gone or another one has its resource.
    async fn follow(self: Arc<Self>, resource: String, known: KnownPlugin, handles: Handles) {
        // Nothing is ever sent: it is closed. Only waits are cut short, never a change.
        let replaced = || async {
            let _closed = known.replaced.1.recv().await;
        };
        let never = async {
            replaced().await;
            Err(DevicePluginError::Call {
                call: "ListAndWatch",
                message: "another one has registered".into(),
            })
        };
        let why = match future::or(never, known.plugin.watch()).await {
            Err(error) => chain(&error),
            Ok(mut devices) => loop {
                let end = async {
                    replaced().await;
                    Ok(None)
                };
                match future::or(end, devices.message()).await {
                    Ok(Some(list)) if self.is_newest(&resource, known.number) => {
                        let devices = devices_of(list);
                        debug!(resource, count = devices.len(), "a device plugin told its devices");
                        self.change(&handles, move |all, resource| all.update(resource, devices), &resource)
                            .await;
                    }
                    Ok(Some(_)) => break "another one has registered".to_owned(),
                    Ok(None) => break "it has ended the stream of its devices".to_owned(),
                    Err(status) => break status.message().to_owned(),
                }
            },
        };
        {
            let mut all = self.lock();
            match all.get_mut(&resource).filter(|newest| newest.number == known.number) {
                Some(newest) => newest.connected = false,
                None => return,
            }
        }
        warn!(resource, why, "a device plugin is gone; who has its devices keeps them");
        let gone = |all: &mut DeviceAssignments, resource: &str| {
            all.disconnect(resource);
            BTreeSet::new()
        };
        self.change(&handles, gone, &resource).await;
    }

    /// Changes what is offered, and tells the sync loop, with the pods that the change is about.
    async fn change(
        &self,
        handles: &Handles,
        change: impl FnOnce(&mut DeviceAssignments, &str) -> BTreeSet<PodUid> + Send + 'static,
        resource: &str,
    ) {
        let (manager, resource) = (self.manager.clone(), resource.to_owned());
        let changed = smol::unblock(move || {
            let mut pods = BTreeSet::new();
            let written = manager.change(|all| pods = change(all, &resource));
            (pods, written)
        });
        let (pods, written) = changed.await;
        if let Err(error) = written {
            warn!(error = chain(&error), "cannot write the checkpoint of devices");
        }
        self.tell(handles, pods).await;
    }

    async fn tell(&self, handles: &Handles, pods: BTreeSet<PodUid>) {
        let change = self.manager.look(|all| DeviceChange {
            allocatable: all.allocatable(),
            health: Arc::new(all.health()),
            pods,
        });
        handles.send(Event::Devices(change)).await;
    }
}

/// Serves plugins, tells the sync loop of devices, and takes devices back from pods that are over.
pub(crate) async fn run_device_plugins(plugins: Arc<DevicePlugins>, view: Published, handles: Handles) {
    plugins.tell(&handles, BTreeSet::new()).await;
    handles.spawn(release_when_over(plugins.clone(), view, handles.clone()));
    let mut logged = LastLogged::default();
    loop {
        let opening = plugins.clone();
        let ended = match smol::unblock(move || socket::open(opening.manager.dir())).await {
            Ok(listener) => socket::accept(&plugins, &listener, &handles).await.to_string(),
            Err(error) => chain(&error),
        };
        if logged.is_new(&ended) {
            warn!(error = ended, "device plugins cannot register");
        }
        handles.clock.sleep(PAUSE).await;
    }
}

async fn release_when_over(plugins: Arc<DevicePlugins>, view: Published, handles: Handles) {
    let mut changes = view.watch();
    loop {
        let granted = async {
            // It ends with the plugins.
            let _ = plugins.granted.1.recv().await;
            true
        };
        let changed = async {
            changes.changed().await;
            false
        };
        if future::or(granted, changed).await {
            plugins.tell(&handles, BTreeSet::new()).await;
        }
        let now = view.load();
        let is_over = |pod: &&PodView| {
            let phase = pod.state.as_ref().map(|state| state.phase);
            matches!(phase, Some(Phase::Succeeded | Phase::Failed))
        };
        let over: Vec<_> = plugins.manager.look(|all| {
            let pods = now.pods.values().filter(is_over).map(|pod| pod.pod.uid.clone());
            pods.filter(|uid| all.granted.contains_key(uid)).collect()
        });
        if over.is_empty() {
            continue;
        }
        let manager = plugins.manager.clone();
        let release = move || manager.change(|all| over.iter().filter(|uid| all.release(uid)).count());
        match smol::unblock(release).await {
            Ok(pods) => info!(pods, "devices of pods that are over are free"),
            Err(error) => warn!(error = chain(&error), "cannot write the checkpoint of devices"),
        }
        plugins.tell(&handles, BTreeSet::new()).await;
    }
}

fn devices_of(list: ListAndWatchResponse) -> BTreeMap<String, Device> {
    let each = list.devices.into_iter().map(|device| {
        let nodes = device.topology.unwrap_or_default().nodes.iter().map(|node| node.id).collect();
        (device.id, Device { healthy: device.health == HEALTHY, nodes })
    });
    each.collect()
}
