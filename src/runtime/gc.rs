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
/// How long after its link a log may be made, however slow the runtime is.
const LOG_MAY_TAKE: Duration = Duration::from_secs(10 * 60);
/// The period once it was.
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

/// Removes links to logs that are gone. A container's link is made before its log is: a young one is left alone.
fn remove_dangling(links: &Path) {
    for entry in fs::read_dir(links).into_iter().flatten().flatten() {
        let link = entry.path();
        let made = fs::symlink_metadata(&link).and_then(|found| found.modified());
        let is_old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > LOG_MAY_TAKE));
        let dangles = link.is_symlink() && !link.exists();
        if dangles
            && is_old
            && let Err(error) = remove_file(&link)
        {
            warn!(link = %link.display(), error = chain(&error), "cannot remove a dangling link");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

    use super::*;

    #[test]
    fn a_link_dangles_for_a_while_before_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0.log"), "x").unwrap();
        let old = Timespec { tv_sec: 1_000_000, tv_nsec: 0 };
        for (name, to, is_old) in [
            ("starting", "none", false),
            ("dangling", "none", true),
            ("young", "0.log", false),
            ("old", "0.log", true),
        ] {
            let link = dir.path().join(name);
            symlink(dir.path().join(to), &link).unwrap();
            if is_old {
                let times = Timestamps { last_access: old, last_modification: old };
                utimensat(CWD, &link, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            }
        }
        remove_dangling(dir.path());
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0.log", "old", "starting", "young"]);
    }
}
