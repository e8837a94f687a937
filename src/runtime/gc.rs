//! Housekeeping: what an agent that was killed in the middle of its work left on disk.
//!
//! Workers clean up after their own pods. Here go the directories and links that belong to no pod any more, and
//! only when every source and the runtime have said all that they hold. Images and dead containers come later.

pub(crate) mod select;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use smol::Timer;
use tracing::{info, warn};

use super::Runtime;
use crate::host::files::{remove_file, remove_tree};
use crate::pod::{PodUid, keys};
use crate::sync::view::Published;
use crate::text::chain;
use select::{is_orphan_dir, is_orphan_log_dir};

/// How soon after the start the first round is tried, and how often until all is settled.
const FIRST: Duration = Duration::from_secs(10);
/// The period after that.
const PERIOD: Duration = Duration::from_secs(30 * 60);

/// Cleans up, now and then, for as long as the agent runs.
pub(crate) async fn run_housekeeping(runtime: Arc<Runtime>, view: Published) {
    let mut wait = FIRST;
    loop {
        Timer::after(wait).await;
        if view.load().settled && clean(&runtime, &view).await {
            wait = PERIOD;
        }
    }
}

/// One round; false when the runtime could not be asked.
async fn clean(runtime: &Arc<Runtime>, view: &Published) -> bool {
    // In this order: a directory that is there now belongs to a pod that the runtime or the view, both read
    // later, still knows, or to none.
    let dirs = runtime.dirs.clone();
    let (pod_dirs, log_dirs) = smol::unblock(move || (names(&dirs.pods()), names(dirs.pod_logs()))).await;
    let sandboxes = match runtime.cri.list_pod_sandbox(None).await {
        Ok(sandboxes) => sandboxes,
        Err(error) => {
            warn!(%error, "cannot ask the runtime before housekeeping");
            return false;
        }
    };
    let mut alive: BTreeSet<PodUid> =
        sandboxes.into_iter().filter_map(|s| s.labels.get(keys::POD_UID).cloned().map(PodUid)).collect();
    let now = view.load();
    if !now.settled {
        return false;
    }
    alive.extend(now.pods.values().map(|p| p.pod.uid.clone()));

    let pods = pod_dirs
        .into_iter()
        .filter(|name| is_orphan_dir(name, &alive))
        .map(|name| runtime.dirs.pods().join(name));
    let logs = log_dirs
        .into_iter()
        .filter(|name| is_orphan_log_dir(name, &alive))
        .map(|name| runtime.dirs.pod_logs().join(name));
    let orphans: Vec<_> = pods.chain(logs).collect();
    let links = runtime.dirs.log_links();
    smol::unblock(move || {
        for dir in orphans {
            match remove_tree(&dir) {
                Ok(()) => info!(dir = %dir.display(), "removed what a pod left behind"),
                Err(error) => {
                    warn!(dir = %dir.display(), error = chain(&error), "cannot remove what a pod left behind")
                }
            }
        }
        for name in names(&links) {
            let link = links.join(name);
            let dangles = link.is_symlink() && !link.exists();
            if dangles && let Err(error) = remove_file(&link) {
                warn!(link = %link.display(), error = chain(&error), "cannot remove a dangling link");
            }
        }
    })
    .await;
    true
}

/// The names in a directory; one that is not there has none.
fn names(dir: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
