//! Housekeeping: what an agent that was killed in the middle of its work left on the node.
//!
//! Workers clean up after their own pods. Here go the resources and links that belong to no pod any more, and
//! only when every source and the runtime have said all that they hold. Images and dead containers come later.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
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
    let dir = runtime.node.dirs.log_links().to_owned();
    let (found, links) = smol::unblock(move || (resources.list(), dangling_links(&dir))).await;
    let sandboxes = match runtime.cri.list_pod_sandbox(None).await {
        Ok(sandboxes) => sandboxes,
        Err(error) => {
            warn!(%error, "cannot ask the runtime before housekeeping");
            return false;
        }
    };
    let containers = match runtime.cri.list_containers(None).await {
        Ok(containers) => containers,
        Err(error) => {
            warn!(%error, "cannot ask the runtime before housekeeping");
            return false;
        }
    };
    let stale = select_stale(links, &containers.into_iter().map(|container| container.id).collect());
    let mut alive: BTreeSet<PodUid> =
        sandboxes.into_iter().filter_map(|s| s.labels.get(keys::POD_UID).cloned().map(PodUid)).collect();
    let now = view.load();
    if !now.settled {
        return false;
    }
    alive.extend(now.pods.values().map(|p| p.pod.uid.clone()));
    let orphans = select_orphans(found, &alive);
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
        for link in stale {
            if let Err(error) = remove_file(&link) {
                warn!(link = %link.display(), error = chain(&error), "cannot remove a dangling link");
            }
        }
    })
    .await;
    true
}

/// Links to logs that are not there.
fn dangling_links(dir: &Path) -> Vec<PathBuf> {
    let links = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    links.filter(|link| link.is_symlink() && !link.exists()).collect()
}

/// The links whose containers are gone. A link is made before its log, when its container is there. In a long name the id is cut.
fn select_stale(links: Vec<PathBuf>, containers: &BTreeSet<String>) -> Vec<PathBuf> {
    let is_there = |link: &PathBuf| {
        let id = link.file_stem().and_then(|name| name.to_str()?.rsplit_once('-')).map(|(_, id)| id);
        id.is_some_and(|id| containers.iter().any(|container| container.starts_with(id)))
    };
    links.into_iter().filter(|link| !is_there(link)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_goes_with_its_log_and_its_container() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0.log"), "x").unwrap();
        for (name, to) in [
            ("p_ns_starting-c1.log", "none"),
            ("p_ns_gone-c2.log", "none"),
            ("p_ns_there-c3.log", "0.log"),
            ("strange", "none"),
        ] {
            symlink(dir.path().join(to), dir.path().join(name)).unwrap();
        }
        let containers = BTreeSet::from(["c1".to_owned()]);
        let mut stale = select_stale(dangling_links(dir.path()), &containers);
        stale.sort();
        assert_eq!(stale, [dir.path().join("p_ns_gone-c2.log"), dir.path().join("strange")]);
    }
}
