//! One look at the logs of one pod: what the plan says is carried out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use tracing::{debug, warn};

use crate::host::FileError;
use crate::host::inotify::{Inotify, WatchId};
use crate::host::pod_logs::{LogDir, is_full, open_pod_logs};
use crate::plan::log_rotation::{
    ContainerLife, ContainerLogs, Policy, RotationStep, current_name, plan_cap, plan_full, plan_rotation,
    select_oldest,
};
use crate::pod::{ContainerId, PodName, PodUid, keys};
use crate::runtime::cri::CriError;
use crate::runtime::cri::proto::{ContainerFilter, ContainerState};
use crate::runtime::{Runtime, StepError};

/// A container of the pod, as the runtime lists it.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    container: String,
    attempt: u32,
    id: ContainerId,
    life: ContainerLife,
}

/// A container's directory of logs, and what is in it.
type ListedLogs = (Arc<LogDir>, ContainerLogs);

/// What a look needs.
pub(super) struct Look {
    pub(super) runtime: Arc<Runtime>,
    pub(super) policy: Policy,
    pub(super) watch: Option<Arc<Inotify>>,
    pub(super) name: PodName,
    pub(super) uid: PodUid,
    /// The pod's containers, if nothing has changed since the runtime was asked.
    pub(super) attempts: Option<Vec<Attempt>>,
    pub(super) cap: u64,
    pub(super) now: Timestamp,
}

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The size of the largest log that is written to.
    pub(super) largest: u64,
    /// The watches of logs that are written to.
    pub(super) watches: Vec<WatchId>,
    /// Not all of them could be watched.
    pub(super) unwatched: bool,
    pub(super) attempts: Option<Vec<Attempt>>,
    /// The first step that failed.
    pub(super) error: Option<StepError>,
}

impl Look {
    /// Looks, and does what is to be done.
    pub(super) async fn run(mut self) -> Looked {
        let mut looked = Looked::default();
        let attempts = match self.attempts.take() {
            Some(attempts) => attempts,
            None => match self.ask().await {
                Ok(attempts) => attempts,
                Err(error) => return Looked { error: Some(error.into()), ..looked },
            },
        };
        if let Err(error) = self.act(&attempts, &mut looked).await {
            // The runtime may know better by now.
            return Looked { error: Some(error), ..looked };
        }
        looked.attempts = Some(attempts);
        looked
    }

    async fn ask(&self) -> Result<Vec<Attempt>, CriError> {
        let label_selector = BTreeMap::from([(keys::POD_UID.to_owned(), self.uid.as_str().to_owned())]);
        let filter = ContainerFilter { label_selector, ..ContainerFilter::default() };
        let listed = self.runtime.cri.list_containers(Some(filter)).await?;
        let attempts = listed.into_iter().filter_map(|listed| {
            Some(Attempt {
                container: listed.labels.get(keys::CONTAINER_NAME)?.clone(),
                attempt: listed.metadata.as_ref()?.attempt,
                id: ContainerId(listed.id.clone()),
                life: match ContainerState::try_from(listed.state) {
                    Ok(ContainerState::ContainerRunning) => ContainerLife::Running,
                    Ok(ContainerState::ContainerExited) => ContainerLife::Dead,
                    _ => ContainerLife::Unknown,
                },
            })
        });
        Ok(attempts.collect())
    }

    async fn act(&self, attempts: &[Attempt], looked: &mut Looked) -> Result<(), StepError> {
        // Watched first: what is written after the sizes were read is told.
        self.watch_running(attempts, looked).await;
        let mut failed = None;
        let mut has_new_logs = false;
        let mut pod = self.list(attempts).await?;
        if self.make_way(&pod, attempts).await? {
            pod = self.list(attempts).await?;
        }
        for (dir, logs) in &pod {
            for (attempt, life) in &logs.attempts {
                let name = current_name(*attempt);
                let current =
                    logs.files.iter().find(|file| *life == ContainerLife::Running && file.name == name);
                looked.largest = looked.largest.max(current.map_or(0, |file| file.size));
            }
            for step in plan_rotation(logs, &self.policy, self.now) {
                has_new_logs |= matches!(step, RotationStep::Rotate { .. } | RotationStep::Reopen { .. });
                if let Err(error) = self.apply(dir, step, attempts).await {
                    failed.get_or_insert(error);
                }
            }
        }
        if has_new_logs {
            self.watch_running(attempts, looked).await;
            pod = self.list(attempts).await?;
        }
        let (dirs, logs): (Vec<_>, Vec<_>) = pod.into_iter().unzip();
        for (place, step) in plan_cap(&logs, self.cap, &self.policy) {
            debug!(pod = %self.name, ?step, "the logs of the pod take too much");
            if let Some(dir) = dirs.get(place)
                && let Err(error) = self.apply(dir, step, attempts).await
            {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Where the disk is full, removes a part before anything is written: a log below its limit cannot grow to it there. Says
    /// whether it did.
    async fn make_way(&self, pod: &[ListedLogs], attempts: &[Attempt]) -> Result<bool, StepError> {
        let Some((dir, _)) = pod.first() else { return Ok(false) };
        let dir = dir.clone();
        if !smol::unblock(move || dir.is_on_full_disk()).await {
            return Ok(false);
        }
        let logs: Vec<_> = pod.iter().map(|(_, logs)| logs.clone()).collect();
        let Some((place, step)) = plan_full(&logs) else { return Ok(false) };
        let Some((dir, _)) = pod.get(place) else { return Ok(false) };
        warn!(pod = %self.name, container = dir.container, ?step, "no space for logs; removing the oldest part");
        self.apply(dir, step, attempts).await?;
        Ok(true)
    }

    async fn list(&self, attempts: &[Attempt]) -> Result<Vec<ListedLogs>, FileError> {
        let path = self.runtime.node.dirs.logs(&self.name, &self.uid);
        let listed = smol::unblock(move || -> Result<Vec<_>, FileError> {
            let dirs = open_pod_logs(&path)?.into_iter();
            dirs.map(|dir| dir.list().map(|files| (Arc::new(dir), files))).collect()
        });
        let with_lives = |(dir, files): (Arc<LogDir>, _)| {
            let own = attempts.iter().filter(|attempt| attempt.container == dir.container);
            let attempts = own.map(|attempt| (attempt.attempt, attempt.life)).collect();
            (dir, ContainerLogs { files, attempts })
        };
        Ok(listed.await?.into_iter().map(with_lives).collect())
    }

    /// Watches the logs of running containers until their next write.
    async fn watch_running(&self, attempts: &[Attempt], looked: &mut Looked) {
        let running = attempts.iter().filter(|attempt| attempt.life == ContainerLife::Running);
        let dirs = &self.runtime.node.dirs;
        let log = |attempt: &Attempt| dirs.log(&self.name, &self.uid, &attempt.container, attempt.attempt);
        let logs: Vec<PathBuf> = running.map(log).collect();
        let Some(watch) = self.watch.clone() else {
            looked.unwatched = !logs.is_empty();
            return;
        };
        let watches =
            smol::unblock(move || -> Vec<_> { logs.iter().map(|log| watch.watch(log)).collect() }).await;
        looked.unwatched = watches.iter().any(Result::is_err);
        looked.watches.extend(watches.into_iter().flatten());
    }

    async fn apply(
        &self,
        dir: &Arc<LogDir>,
        step: RotationStep,
        attempts: &[Attempt],
    ) -> Result<(), StepError> {
        let open = dir.clone();
        match step {
            RotationStep::Remove(name) => smol::unblock(move || open.remove(&name)).await?,
            RotationStep::Cut { name, keep } => smol::unblock(move || open.cut(&name, keep)).await?,
            RotationStep::Restore { from, to } => smol::unblock(move || open.restore(&from, &to)).await?,
            RotationStep::Compress(name) => {
                let pod = self.name.clone();
                smol::unblock(move || compress(&open, &name, &pod)).await?;
            }
            RotationStep::Reopen { attempt } => self.reopen(dir, attempt, attempts).await?,
            RotationStep::Rotate { attempt, from, to } => {
                let (current, rotated) = (from.clone(), to.clone());
                smol::unblock(move || open.rename(&from, &to)).await?;
                debug!(pod = %self.name, container = dir.container, log = rotated, "rotated");
                if let Err(error) = self.reopen(dir, attempt, attempts).await {
                    // Its log has its name, whatever became of the container.
                    let open = dir.clone();
                    smol::unblock(move || open.restore(&rotated, &current)).await?;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    async fn reopen(&self, dir: &LogDir, attempt: u32, attempts: &[Attempt]) -> Result<(), CriError> {
        let is_it = |one: &&Attempt| one.container == dir.container && one.attempt == attempt;
        match attempts.iter().find(is_it) {
            Some(found) => self.runtime.cri.reopen_container_log(&found.id).await,
            None => Ok(()),
        }
    }
}

/// Compresses a part. Without space for it the oldest part goes: what is written now matters more.
fn compress(dir: &LogDir, name: &str, pod: &PodName) -> Result<(), FileError> {
    match dir.compress(name) {
        Err(FileError::File { source, .. }) if is_full(&source) => {
            let files = dir.list()?;
            let Some(oldest) = select_oldest(&files) else { return Ok(()) };
            warn!(%pod, container = dir.container, log = oldest.name, "no space to compress a log; removing the oldest part");
            dir.remove(&oldest.name)
        }
        done => done,
    }
}
