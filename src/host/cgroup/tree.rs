//! Directories of cgroups: what is in them, and how they go.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::values::{missing_controllers, shares_for};
use crate::host::files::{FileError, on};
pub(super) use crate::host::systemd::{Systemd, SystemdError};

/// The shares of a pod, noted at its cgroup.
const SHARES: &str = "trusted.rkubelet.cpu-shares";

/// Removes a cgroup and those below it; busy if there are processes in one of them. A slice is stopped before.
pub(super) fn remove_tree_of_cgroups(dir: &Path) -> io::Result<()> {
    if let Some(unit) = name_of(dir).filter(|name| name.ends_with(".slice")) {
        // Stopping a slice would kill what runs in it.
        if is_populated(dir) {
            return Err(ErrorKind::ResourceBusy.into());
        }
        // Without systemd a slice is a directory like others.
        if let Ok(mut systemd) = Systemd::connect() {
            systemd.stop(unit).map_err(io::Error::other)?;
        }
    }
    remove_dirs(dir)
}

fn remove_dirs(dir: &Path) -> io::Result<()> {
    for child in children(dir) {
        remove_dirs(&child)?;
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether there are processes in a cgroup or below it.
fn is_populated(dir: &Path) -> bool {
    let own = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    !own.trim().is_empty() || children(dir).iter().any(|child| is_populated(child))
}

/// The directory of a cgroup below a mount point.
pub(super) fn below(point: &Path, path: &str) -> PathBuf {
    point.join(path.trim_start_matches('/'))
}

/// The last part of a path.
pub(super) fn name_of(dir: &Path) -> Option<&str> {
    dir.file_name()?.to_str()
}

/// The CPU shares that a pod's cgroup was given.
pub(super) fn shares_of(dir: &Path, unified: bool) -> Option<i64> {
    let number = |file: &str| fs::read_to_string(dir.join(file)).ok()?.trim().parse::<i64>().ok();
    if !unified {
        return number("cpu.shares");
    }
    let mut text = [0; 16];
    let noted = rustix::fs::getxattr(dir, SHARES, &mut text).ok();
    let noted = noted.and_then(|length| std::str::from_utf8(text.get(..length)?).ok()?.parse().ok());
    noted.or_else(|| number("cpu.weight").map(shares_for))
}

/// The directories in a directory; one that is not there has none.
pub(super) fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).collect()
}

/// Lets the children of a v2 cgroup have the controllers that pods need and it has.
pub(super) fn pass_controllers_on(dir: &Path) -> Result<(), FileError> {
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    let (has, passes) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    let file = dir.join("cgroup.subtree_control");
    for controller in missing_controllers(&has, &passes) {
        fs::write(&file, format!("+{controller}")).map_err(on("cannot write", &file))?;
    }
    Ok(())
}

/// Notes the CPU shares of a pod at its cgroup: a weight of v2 is too coarse to add up.
pub(super) fn note_shares(dir: &Path, shares: i64) {
    // Without it the weight counts.
    let _ = rustix::fs::setxattr(dir, SHARES, shares.to_string().as_bytes(), rustix::fs::XattrFlags::empty());
}
