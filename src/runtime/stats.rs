//! Reads what the node and its pods use: when asked, one reading at a time, kept for a moment. Nothing is read at rest.
//!
//! CPU, memory and networks come from the kernel, layers and images from the runtime, which also stands in for pods whose
//! cgroups the node does not see. Invariant: a runtime or a disk that hangs costs what it would have told, and bounded time.

mod disk;
mod merge;
mod pass;
mod select;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_lite::future;
use jiff::Timestamp;
use smol::Timer;
use smol::lock::Mutex;

use super::Runtime;
use crate::host::usage::machine;
use crate::status::stats::{Detail, Machine, Reading, nano_cores};
use crate::sync::published::Published;
use crate::time::within::within;
use disk::{Disk, DiskJob, Measured};
use pass::Pass;
use select::{MeasuredPod, select_pods};

/// How long a reading is shown.
const KEPT: Duration = Duration::from_secs(5);
/// A rate over a shorter time says little, over a longer one nothing of today.
const SHORTEST_RATE: Duration = Duration::from_millis(200);
const LONGEST_RATE: Duration = Duration::from_secs(120);
/// Where there is no reading to compare with, one is made this long before.
const FIRST_RATE: Duration = Duration::from_millis(250);
/// How long the kernel's files may take, far more than they ever need.
const PASS_DEADLINE: Duration = Duration::from_secs(5);
/// How long the runtime may take, and disks: what comes later is left out.
const ANSWER_DEADLINE: Duration = Duration::from_secs(2);

/// Why there is no reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StatsError {
    /// The kernel does not answer.
    #[error("reading cgroups takes longer than {} s", PASS_DEADLINE.as_secs())]
    Late,
    /// It has not answered since.
    #[error("an earlier reading of cgroups has not ended")]
    Stuck,
}

/// Reads what is used, and keeps the newest reading for a moment.
#[derive(Debug)]
pub(crate) struct StatsReader {
    runtime: Arc<Runtime>,
    view: Published,
    node_name: String,
    socket: PathBuf,
    started_at: Timestamp,
    disk: Disk,
    /// A pass is under way, perhaps one that nobody waits for any more.
    passing: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    machine: Option<Arc<Machine>>,
    newest: Option<KeptReading>,
    /// Nanoseconds of CPU by cgroup, and when they were read.
    baseline: Option<(Instant, BTreeMap<String, u64>)>,
}

#[derive(Debug)]
struct KeptReading {
    at: Instant,
    detail: Detail,
    reading: Arc<Reading>,
}

impl StatsReader {
    /// Of the node of this name, whose runtime listens on this socket.
    pub(crate) fn new(runtime: Arc<Runtime>, view: Published, node_name: &str, socket: &str) -> Self {
        Self {
            runtime,
            view,
            node_name: node_name.to_owned(),
            socket: socket.into(),
            started_at: Timestamp::now(),
            disk: Disk::default(),
            passing: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// A reading of at least this detail, a moment old at most.
    ///
    /// # Errors
    /// When the kernel does not answer. What else does not is absent.
    pub(crate) async fn read(&self, detail: Detail) -> Result<Arc<Reading>, StatsError> {
        // Held throughout: who asks meanwhile gets the same reading.
        let mut state = self.state.lock().await;
        if let Some(kept) = &state.newest
            && kept.detail >= detail
            && kept.at.elapsed() < KEPT
        {
            return Ok(kept.reading.clone());
        }
        let pods = select_pods(&self.view.load());
        let is_old = state.baseline.as_ref().is_none_or(|(at, _)| at.elapsed() > LONGEST_RATE);
        if detail == Detail::Summary && is_old {
            let first = self.pass(&mut state, &pods, Detail::Usage).await?;
            state.baseline = Some((Instant::now(), cpu_times(&first)));
            Timer::after(FIRST_RATE).await;
        }
        let mut reading = self.pass(&mut state, &pods, detail).await?;
        set_rates(&mut reading, &mut state.baseline);
        self.ask_runtime(&mut reading, &pods, detail).await;
        let reading = Arc::new(reading);
        state.newest = Some(KeptReading { at: Instant::now(), detail, reading: reading.clone() });
        Ok(reading)
    }

    /// Reads the kernel's files.
    async fn pass(
        &self,
        state: &mut State,
        pods: &[MeasuredPod],
        detail: Detail,
    ) -> Result<Reading, StatsError> {
        if self.passing.swap(true, Ordering::AcqRel) {
            return Err(StatsError::Stuck);
        }
        let known = state.machine.clone();
        let (pods, cgroups) = (pods.to_vec(), self.runtime.node.cgroups.clone());
        let (socket, started_at) = (self.socket.clone(), self.started_at);
        let passing = Passing(self.passing.clone());
        let read = smol::unblock(move || {
            let _passing = passing;
            let machine = known.unwrap_or_else(|| Arc::new(machine()));
            let pass = Pass { cgroups: &cgroups, machine: &machine, detail, socket: &socket, started_at };
            let reading = pass.read(&pods);
            (machine, reading)
        });
        // One that is late goes on, and is waited for no more.
        let (machine, mut reading) = within(PASS_DEADLINE, read).await.ok_or(StatsError::Late)?;
        state.machine = Some(machine);
        reading.node.name.clone_from(&self.node_name);
        Ok(reading)
    }

    /// Adds what the runtime and disks tell.
    async fn ask_runtime(&self, reading: &mut Reading, pods: &[MeasuredPod], detail: Detail) {
        let cri = &self.runtime.cri;
        if detail < Detail::Summary && !merge::lacks_containers(reading) {
            return;
        }
        let containers = within(ANSWER_DEADLINE, cri.list_container_stats());
        let images = async {
            if detail < Detail::Summary {
                return None;
            }
            within(ANSWER_DEADLINE, cri.image_fs()).await
        };
        let (containers, images) = future::zip(containers, images).await;
        if let Some(Ok(containers)) = containers {
            merge::add_containers(reading, containers);
        }
        if merge::lacks_pods(reading)
            && let Some(Ok(sandboxes)) = within(ANSWER_DEADLINE, cri.list_sandbox_stats()).await
        {
            merge::add_sandboxes(reading, sandboxes);
        }
        if detail >= Detail::Summary {
            let images = images.and_then(Result::ok).flatten();
            self.add_disks(reading, pods, images.as_ref()).await;
        }
    }

    async fn add_disks(
        &self,
        reading: &mut Reading,
        pods: &[MeasuredPod],
        images: Option<&super::cri::proto::FilesystemUsage>,
    ) {
        let dirs = &self.runtime.node.dirs;
        let image_point =
            images.and_then(|images| images.fs_id.as_ref()).map(|id| PathBuf::from(&id.mountpoint));
        let mut jobs = vec![DiskJob::file_system(dirs.root().to_owned())];
        jobs.extend(image_point.clone().map(DiskJob::file_system));
        jobs.extend(pods.iter().flat_map(|pod| select::disk_jobs(pod, dirs)));
        // What may hang comes last.
        jobs.sort_by_key(DiskJob::may_hang);
        let measured = self.disk.measure(jobs, ANSWER_DEADLINE).await;
        reading.node.fs = measured.get(dirs.root()).and_then(Measured::as_fs);
        reading.node.image_fs = image_point
            .and_then(|point| measured.get(&point)?.size)
            .zip(images)
            .map(|(size, images)| merge::image_fs(size, images, reading.at));
        for (shown, pod) in reading.pods.iter_mut().zip(pods) {
            select::add_disk(shown, pod, dirs, &measured);
        }
    }
}

/// A pass that is under way.
#[derive(Debug)]
struct Passing(Arc<AtomicBool>);

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The nanoseconds of CPU of every cgroup.
fn cpu_times(reading: &Reading) -> BTreeMap<String, u64> {
    let times = reading.cgroups().filter_map(|of| Some((of.path.clone(), of.usage.cpu.as_ref()?.total)));
    times.filter(|(path, _)| !path.is_empty()).collect()
}

/// Computes rates from the baseline, which this reading becomes unless it is too young to be compared with.
fn set_rates(reading: &mut Reading, baseline: &mut Option<(Instant, BTreeMap<String, u64>)>) {
    let now = Instant::now();
    if let Some((at, before)) = baseline {
        let between = now.saturating_duration_since(*at);
        if between > LONGEST_RATE {
            *baseline = None;
        } else {
            for cgroup in reading.cgroups_mut() {
                let times = before.get(&cgroup.path).zip(cgroup.usage.cpu.as_ref());
                cgroup.nano_cores = times.and_then(|(before, cpu)| nano_cores(*before, cpu.total, between));
            }
        }
    }
    if baseline.as_ref().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= SHORTEST_RATE) {
        *baseline = Some((now, cpu_times(reading)));
    }
}
