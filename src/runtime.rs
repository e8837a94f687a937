//! Carries out plans on the container runtime: thin effects around the CRI client and the node's directories.
//!
//! Decides nothing: what to do comes from `plan`, how it is said to the runtime from `cri::convert`.

pub mod cri;
pub(crate) mod gc;
pub(crate) mod hooks;
mod http_get;
mod image;
mod limiter;
mod observe;
pub(crate) mod pleg;
pub(crate) mod probes;
mod start;
mod stop;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use smol::lock::{RwLock, Semaphore};
use smol::{Executor, Timer};

use crate::host::state::StateError;
use crate::host::volume::VolumeError;
use crate::host::{Dirs, FileError, NodeIps};
use crate::http::Client;
use crate::http::Reactor;
use crate::pod::dns::ClusterDns;
use crate::pod::hostname::FqdnTooLong;
use crate::status::events::Recorder;
use crate::status::metrics::Metrics;
use cri::{CriClient, CriError};

pub(crate) use image::{Fallback, Image, ImageError, Images, PullSettings};
pub(crate) use limiter::Turns;
pub(crate) use observe::{Cache, Made};
pub(crate) use start::StartError;
#[cfg(test)]
pub(crate) use start::container_mounts;

/// The container runtime and the node around it.
#[derive(Debug)]
pub(crate) struct Runtime {
    /// The client.
    pub cri: CriClient,
    /// What asks containers over HTTP.
    pub http: Client,
    /// Where gRPC's connections to containers live.
    pub reactor: Reactor,
    /// How many commands of probes run at the same time: [`crate::probe::EXEC_WIDTH`].
    pub exec_probes: Semaphore,
    /// Where is recorded what happens to pods.
    pub events: Recorder,
    /// Where things lie on disk.
    pub dirs: Dirs,
    /// The node's addresses.
    pub node_ips: NodeIps,
    /// The cluster's resolver.
    pub cluster_dns: ClusterDns,
    /// The node's resolver file; without one, pods with the node's policy get none.
    pub resolv_conf: Option<PathBuf>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Runs what goes on side by side.
    pub executor: Arc<Executor<'static>>,
    /// What pulls of images work with.
    pub images: Images,
    /// Sandboxes that are made at the same time: see [`sandbox_width`].
    pub sandboxes: Turns,
    /// Held for reading while a container is being started: see [`Runtime::drain`].
    pub starts: RwLock<()>,
}

/// Sandboxes to make at the same time. More of them start no sooner on a machine of this many cores, and keep
/// the containers of those that are ready waiting.
pub fn sandbox_width(cores: usize) -> usize {
    cores.saturating_mul(4).clamp(4, 16)
}

impl Runtime {
    /// Lets the starts that are under way come to their end, and none begin any more: containerd kills a container
    /// whose caller goes away while it starts.
    pub(crate) async fn drain(&self, deadline: Duration) {
        // Never given back: what would start now waits until the process ends.
        let drained = async { std::mem::forget(self.starts.write().await) };
        let late = async {
            Timer::after(deadline).await;
        };
        future::or(drained, late).await;
    }
}

/// Does work that has a place among few, and gives the place up after a while: what hangs keeps nobody else out.
async fn with_place<T>(place: impl Sized, patience: Duration, work: impl Future<Output = T>) -> T {
    let give_up = async {
        Timer::after(patience).await;
        drop(place);
        future::pending().await
    };
    future::or(work, give_up).await
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    /// The runtime refused, or did not answer.
    #[error(transparent)]
    Cri(#[from] CriError),
    /// A file or directory on the node.
    #[error(transparent)]
    File(#[from] FileError),
    /// A volume of the pod.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The pod's host name.
    #[error(transparent)]
    Hostname(#[from] FqdnTooLong),
    /// What is remembered of the pod.
    #[error(transparent)]
    State(#[from] StateError),
    /// The runtime says that it was done, and shows that it was not.
    #[error("the runtime did as it was told, without effect")]
    NoEffect,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_gives_up_its_place_and_goes_on() {
        let places = Semaphore::new(1);
        smol::block_on(async {
            let (done, finished) = async_channel::bounded::<&str>(1);
            let place = places.acquire().await;
            let hung = with_place(place, Duration::from_millis(10), finished.recv());
            let next = async {
                let _mine = places.acquire().await;
                done.send("after all").await
            };
            let (hung, _) = future::zip(hung, next).await;
            assert_eq!(hung, Ok("after all"));
        });
    }
}
