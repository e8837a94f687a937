//! Housekeeping: what an agent that was killed in the middle of its work left on the node.
//!
//! Workers clean up after their own pods. Here go the resources and links that belong to no pod any more, and
//! only when every source and the runtime have said all that they hold. Images and dead containers come later.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::Runtime;
use crate::host::files::remove_file;
use crate::host::resource::select_orphans;
use crate::pod::{PodUid, keys};
use crate::sync::published::Published;
use crate::text::chain;
use crate::time::clock::Clock;

/// How soon after the start the first round is tried, and how often until all is settled.
const FIRST: Duration = Duration::from_secs(10);
/// The period after that.
const PERIOD: Duration = Duration::from_secs(30 * 60);

/// Cleans up, now and then, for as long as the agent runs.
pub(crate) async fn run_housekeeping(runtime: Arc<Runtime>, view: Published, clock: Arc<dyn Clock>) {
    let mut wait = FIRST;
    loop {
        clock.sleep(wait).await;
        if view.load().settled && clean(&runtime, &view).await {
            wait = PERIOD;
        }
    }
}

/// One round; false when the runtime could not be asked.
async fn clean(runtime: &Arc<Runtime>, view: &Published) -> bool {
    // In this order: what is there now belongs to a pod that the runtime or the view, both read later, still knows, or to
    // none.
    let resources = runtime.resources.clone();
    let found = smol::unblock(move || resources.list()).await;
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
    let orphans = select_orphans(found, &alive);
    let links = runtime.node.dirs.log_links().to_owned();
    let resources = runtime.resources.clone();
    smol::unblock(move || {
        for orphan in orphans {
            let path = &orphan.path;
            match resources.remove(&orphan) {
                Ok(()) => info!(path = %path.display(), "removed what a pod left behind"),
                Err(error) => {
                    warn!(path = %path.display(), error = chain(&error), "cannot remove what a pod left behind")
                }
            }
        }
        remove_dangling(&links);
    })
    .await;
    true
}

/// Removes links to logs that are gone.
fn remove_dangling(links: &Path) {
    for entry in fs::read_dir(links).into_iter().flatten().flatten() {
        let link = entry.path();
        let dangles = link.is_symlink() && !link.exists();
        if dangles && let Err(error) = remove_file(&link) {
            warn!(link = %link.display(), error = chain(&error), "cannot remove a dangling link");
        }
    }
}
