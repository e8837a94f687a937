//! Watches files of the node for pods that ask for it: a change restarts or signals the containers that mount them. Which
//! files, and what follows, is decided in `pod::watch_files`.
//!
//! The directories of the files and of the links that lead to them are watched, so that a file that is replaced, renamed
//! over, or reached through a link that is turned elsewhere is noticed. What has changed is told by the contents, once all
//! has been quiet for a moment. A file that is missing changes nothing until it is there again. Without a pod that asks
//! for it, nothing wakes up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use tracing::warn;

use super::Runtime;
use crate::host::file_state::{directories, file_state};
use crate::host::inotify::Inotify;
use crate::pod::watch_files::{OnChange, WatchedFiles, asks_for_watch, watched_files};
use crate::pod::{ContainerId, Pod, PodName, PodUid};
use crate::status::events::EventType;
use crate::sync::handles::Handles;
use crate::sync::message::Event;
use crate::sync::published::Published;
use crate::sync::view::{PodView, View};
use crate::text::chain;

/// All must be quiet for so long.
const QUIET: Duration = Duration::from_millis(500);
/// So often is that waited for; whoever writes all the time is not waited for for ever.
const MAX_WAITS: usize = 20;
/// So many directories are watched at the most: the kernel has a limit for all.
const MAX_DIRS: usize = 512;

/// A pod, and its files as they were last seen.
struct WatchedPod {
    uid: PodUid,
    files: WatchedFiles,
    /// Of those that were there.
    states: BTreeMap<PathBuf, u64>,
    /// It was looked at before.
    known: bool,
}

/// Watches files for as long as the agent runs.
pub(crate) async fn run_file_watch(
    runtime: Arc<Runtime>,
    inotify: Arc<Inotify>,
    view: Published,
    handles: Handles,
) {
    let mut changes = view.watch();
    let mut pods: BTreeMap<PodName, WatchedPod> = BTreeMap::new();
    loop {
        let moved = follow(&mut pods, &view.load());
        if pods.is_empty() {
            if moved {
                inotify.watch_dirs(&BTreeSet::new());
            }
            changes.changed().await;
            continue;
        }
        if !moved {
            let touched = async {
                inotify.dirs_changed().await;
                true
            };
            let seen = async {
                changes.changed().await;
                false
            };
            if !future::or(touched, seen).await {
                continue;
            }
            for _ in 0..MAX_WAITS {
                handles.clock.sleep(QUIET).await;
                if !inotify.take_dirs_changed() {
                    break;
                }
            }
        }
        let states = look(&inotify, &pods).await;
        let view = view.load();
        for (name, watched) in &mut pods {
            let changed = note(watched, &states);
            if let Some(shown) = view.pods.get(name).filter(|_| !changed.is_empty()) {
                tell(&runtime, &handles, shown, &watched.files, &changed).await;
            }
        }
    }
}

/// Follows which pods ask to be told; true if they are others than before.
fn follow(pods: &mut BTreeMap<PodName, WatchedPod>, view: &View) -> bool {
    let before = pods.len();
    pods.retain(|name, watched| view.pods.get(name).is_some_and(|shown| shown.pod.uid == watched.uid));
    let mut moved = pods.len() != before;
    for (name, shown) in view.pods.iter().filter(|(_, shown)| asks_for_watch(&shown.pod.metadata)) {
        if pods.contains_key(name) || shown.state.is_none() {
            continue;
        }
        if let Ok(Some(files)) = watched_files(&shown.pod.metadata, &shown.pod.spec) {
            let uid = shown.pod.uid.clone();
            pods.insert(name.clone(), WatchedPod { uid, files, states: BTreeMap::new(), known: false });
            moved = true;
        }
    }
    moved
}

/// Watches what must be watched, and then looks at the files: what changes in between is told.
async fn look(inotify: &Inotify, pods: &BTreeMap<PodName, WatchedPod>) -> BTreeMap<PathBuf, u64> {
    let files = pods.values().flat_map(|watched| &watched.files.files);
    let paths: BTreeSet<PathBuf> = files.map(|file| file.path.clone()).collect();
    let looked = paths.clone();
    let mut dirs: BTreeSet<PathBuf> =
        smol::unblock(move || looked.iter().flat_map(|path| directories(path)).collect()).await;
    while dirs.len() > MAX_DIRS {
        warn!(dir = ?dirs.pop_last(), "too many directories to watch");
    }
    for (dir, error) in inotify.watch_dirs(&dirs) {
        warn!(dir = %dir.display(), %error, "cannot watch a directory");
    }
    smol::unblock(move || {
        let state = |path: PathBuf| file_state(&path).map(|state| (path, state));
        paths.into_iter().filter_map(state).collect()
    })
    .await
}

/// Notes what the files are now; those that have changed since they were last seen.
fn note(watched: &mut WatchedPod, states: &BTreeMap<PathBuf, u64>) -> Vec<PathBuf> {
    let mut changed = Vec::new();
    for file in &watched.files.files {
        if let Some(state) = states.get(&file.path)
            && watched.states.insert(file.path.clone(), *state) != Some(*state)
        {
            changed.push(file.path.clone());
        }
    }
    if std::mem::replace(&mut watched.known, true) { changed } else { Vec::new() }
}

/// Restarts or signals the containers that mount what has changed.
async fn tell(
    runtime: &Arc<Runtime>,
    handles: &Handles,
    shown: &PodView,
    watched: &WatchedFiles,
    changed: &[PathBuf],
) {
    let pod: &Pod = &shown.pod;
    let files = watched.files.iter().filter(|file| changed.contains(&file.path));
    let names: BTreeSet<&str> = files.flat_map(|file| file.containers.iter().map(String::as_str)).collect();
    let running: Vec<(String, ContainerId)> = shown
        .state
        .iter()
        .flat_map(|state| state.all_containers())
        .filter(|container| container.running_since().is_some() && names.contains(container.name.as_str()))
        .filter_map(|container| Some((container.name.clone(), container.id()?.clone())))
        .collect();
    let list = changed.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    for (name, _) in &running {
        let Some((which, _)) = pod.containers().find(|(_, spec)| spec.name == *name) else { continue };
        let message = match watched.on_change {
            OnChange::Restart => format!("Watched file changed: {list}, container {name} will be restarted"),
            OnChange::Signal(number) => {
                format!("Watched file changed: {list}, container {name} gets signal {number}")
            }
        };
        let of = (&pod.name, &pod.uid);
        handles.telemetry.events.record(EventType::Normal, of, (which, name), "WatchedFileChanged", &message);
    }
    match watched.on_change {
        OnChange::Restart => {
            let containers = running.into_iter().map(|(_, id)| id).collect();
            handles.send(Event::Restart { pod: pod.name.clone(), uid: pod.uid.clone(), containers }).await;
        }
        OnChange::Signal(number) => {
            for (container, id) in running {
                let (runtime, pod) = (runtime.clone(), pod.name.clone());
                // A runtime that is slow holds up no other pod.
                handles.spawn(async move {
                    if let Err(error) = runtime.cri.kill_task(&id, number).await {
                        warn!(%pod, container, error = chain(&error), "cannot send the signal for a changed file");
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::watch_files::WatchedFile;

    #[test]
    fn what_is_missing_changes_nothing_until_it_is_back() {
        let file = |path: &str| WatchedFile { path: path.into(), containers: BTreeSet::new() };
        let files = WatchedFiles { files: vec![file("/a"), file("/b")], on_change: OnChange::Restart };
        let mut watched = WatchedPod { uid: PodUid::from("u"), files, states: BTreeMap::new(), known: false };
        let mut look = |states: &[(&str, u64)]| -> Vec<String> {
            let states = states.iter().map(|(path, state)| (PathBuf::from(path), *state)).collect();
            note(&mut watched, &states).iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(look(&[("/a", 1)]), [""; 0], "as it was found");
        assert_eq!(look(&[("/a", 1)]), [""; 0]);
        assert_eq!(look(&[("/a", 2)]), ["/a"]);
        assert_eq!(look(&[]), [""; 0], "missing");
        assert_eq!(look(&[("/a", 2)]), [""; 0], "back as it was");
        assert_eq!(look(&[("/a", 2), ("/b", 1)]), ["/b"], "there for the first time");
        assert_eq!(look(&[("/a", 3), ("/b", 2)]), ["/a", "/b"]);
    }
}
