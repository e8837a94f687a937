//! Rotates the logs of containers, and keeps those of a pod within their limit. What is done is decided in
//! `plan::log_rotation`.
//!
//! How a log that grows is found: every log of a running container is watched until its next write (inotify, one shot). So
//! nothing wakes up while nobody writes, and a busy writer costs one event per look, not one per write. A write, or a
//! container that starts or ends, begins a wait of `containerLogMonitorInterval`; then the logs of those pods that wrote or
//! changed are looked at, each is watched anew, and only they. Where a log grew past its limit in less than that, the next
//! wait is shorter. Without watches (the kernel's number of them is limited) a pod is looked at in every interval.
//!
//! A kill at any point is safe: a log is renamed before the runtime opens a new one, and its lines go to the renamed file
//! until then; a running container without a log is one for which this was not done, and is done for at the next look, the
//! first of which follows the start. What was compressed is removed when the compressed file is on disk.

mod look;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use tracing::warn;

use super::Runtime;
use crate::host::inotify::{Inotify, WatchEvent, WatchId};
use crate::plan::log_rotation::Policy;
use crate::pod::{PodName, PodUid};
use crate::sync::handles::Handles;
use crate::sync::published::Published;
use crate::sync::view::{PodView, View};
use crate::text::chain;
use crate::text::last_logged::LastLogged;
use look::{Attempt, Look, Looked};

/// How soon after the start the first look comes: what an agent that was killed has left is brought to its end.
const FIRST: Duration = Duration::from_secs(1);

/// Rotates logs for as long as the agent runs.
pub(crate) async fn run_log_rotation(
    runtime: Arc<Runtime>,
    policy: Policy,
    watch: Option<Arc<Inotify>>,
    view: Published,
    handles: Handles,
) {
    if watch.is_none() {
        warn!("cannot watch logs; they are looked at in every interval");
    }
    let mut rotation = Rotation { runtime, policy, watch, pods: BTreeMap::new(), watches: BTreeMap::new() };
    let mut changes = view.watch();
    let mut wait = FIRST;
    loop {
        // Most changes of the view start and end no container: they begin no wait.
        while !rotation.is_due() {
            future::or(changes.changed(), rotation.written()).await;
            rotation.follow(&view.load());
            rotation.mark_written();
        }
        handles.clock.sleep(wait).await;
        // What has changed until now is in the view, and needs no other look.
        future::poll_once(changes.changed()).await;
        rotation.follow(&view.load());
        rotation.mark_written();
        let largest = rotation.look(&handles).await;
        wait = policy.next_wait(wait, largest);
    }
}

/// What is known of the logs of one pod.
#[derive(Debug)]
struct PodLogs {
    uid: PodUid,
    /// The containers that the view shows, and which of them run, as a hash.
    seen: u64,
    /// The same in full, as the runtime tells it; none if it is to be asked.
    attempts: Option<Vec<Attempt>>,
    /// What its logs may take.
    cap: u64,
    /// To be looked at.
    due: bool,
    logged: LastLogged,
}

struct Rotation {
    runtime: Arc<Runtime>,
    policy: Policy,
    watch: Option<Arc<Inotify>>,
    pods: BTreeMap<PodName, PodLogs>,
    watches: BTreeMap<WatchId, PodName>,
}

impl Rotation {
    fn is_due(&self) -> bool {
        self.pods.values().any(|pod| pod.due)
    }

    /// Waits until a log is written to.
    async fn written(&self) {
        match &self.watch {
            Some(watch) => watch.ready().await,
            None => future::pending().await,
        }
    }

    /// Marks the pods whose containers are others than before.
    fn follow(&mut self, view: &View) {
        self.pods.retain(|name, pod| view.pods.get(name).is_some_and(|shown| shown.pod.uid == pod.uid));
        for (name, shown) in &view.pods {
            // Before a worker has looked at its pod nothing is known of it.
            let Some(seen) = fingerprint(shown) else { continue };
            match self.pods.get_mut(name) {
                Some(pod) if pod.seen == seen => {}
                Some(pod) => {
                    pod.seen = seen;
                    pod.attempts = None;
                    pod.due = true;
                }
                None => {
                    let spec = &shown.pod.spec;
                    let containers = spec.containers.len() + spec.init_containers.iter().flatten().count();
                    let cap = self.policy.pod_cap(containers);
                    let uid = shown.pod.uid.clone();
                    let logged = LastLogged::default();
                    let pod = PodLogs { uid, seen, attempts: None, cap, due: true, logged };
                    self.pods.insert(name.clone(), pod);
                }
            }
        }
    }

    /// Marks the pods that have written.
    fn mark_written(&mut self) {
        for event in self.watch.iter().flat_map(|watch| watch.events()) {
            match event {
                WatchEvent::Written(id) => {
                    if let Some(pod) = self.watches.get(&id).and_then(|name| self.pods.get_mut(name)) {
                        pod.due = true;
                    }
                }
                WatchEvent::Ended(id) => drop(self.watches.remove(&id)),
                WatchEvent::Overflow => self.pods.values_mut().for_each(|pod| pod.due = true),
            }
        }
    }

    /// Looks at all that are due, so many at a time; the size of the largest log.
    async fn look(&mut self, handles: &Handles) -> u64 {
        let (jobs, queue) = async_channel::unbounded();
        let (results, done) = async_channel::unbounded();
        for (name, pod) in self.pods.iter_mut().filter(|(_, pod)| pod.due) {
            pod.due = false;
            let look = Look {
                runtime: self.runtime.clone(),
                policy: self.policy,
                watch: self.watch.clone(),
                name: name.clone(),
                uid: pod.uid.clone(),
                attempts: pod.attempts.take(),
                cap: pod.cap,
                now: handles.clock.now(),
            };
            // The queue takes all.
            let _ = jobs.try_send(look);
        }
        jobs.close();
        for _ in 0..self.policy.workers.min(queue.len()) {
            let (queue, results) = (queue.clone(), results.clone());
            handles.spawn(async move {
                while let Ok(look) = queue.recv().await {
                    let name = look.name.clone();
                    let _ = results.send((name, look.run().await)).await;
                }
            });
        }
        drop(results);
        let mut largest = 0;
        while let Ok((name, looked)) = done.recv().await {
            largest = largest.max(looked.largest);
            self.take(name, looked);
        }
        largest
    }

    /// Remembers what a look has found.
    fn take(&mut self, name: PodName, looked: Looked) {
        let Some(pod) = self.pods.get_mut(&name) else { return };
        pod.attempts = looked.attempts;
        // A container that runs unwatched is looked at again.
        pod.due = looked.error.is_some() || looked.unwatched;
        if let Some(error) = looked.error.map(|error| chain(&error))
            && pod.logged.is_new(&error)
        {
            warn!(pod = %name, error, "cannot rotate the logs; will try again");
        }
        self.watches.extend(looked.watches.into_iter().map(|id| (id, name.clone())));
    }
}

/// The containers of a pod, and which of them run; none before that is known.
fn fingerprint(shown: &PodView) -> Option<u64> {
    let state = shown.state.as_ref()?;
    let mut hash = DefaultHasher::new();
    for container in state.all_containers() {
        (container.id(), container.running_since().is_some()).hash(&mut hash);
    }
    Some(hash.finish())
}
