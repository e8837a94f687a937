//! The directories, logs and links of a pod on disk. Blocking: called through `smol::unblock`.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::StepError;

/// Makes a directory and its parents, with this mode.
pub(crate) fn make_dir(path: &Path, mode: u32) -> Result<(), StepError> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(on("cannot create directory", path))
}

/// Makes a directory whose mode counts whatever the umask is.
pub(crate) fn make_dir_exactly(path: &Path, mode: u32) -> Result<(), StepError> {
    make_dir(path, mode)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(on("cannot set the mode of", path))
}

/// Points a link at a container's log.
pub(super) fn link_log(link: &Path, log: &Path) -> Result<(), StepError> {
    if let Some(parent) = link.parent() {
        make_dir(parent, 0o755)?;
    }
    match symlink(log, link) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        done => done.map_err(on("cannot create link", link)),
    }
}

/// Removes a log with its rotated parts, and its link.
pub(super) fn remove_log(log: &Path, link: &Path) -> Result<(), StepError> {
    let (Some(dir), Some(name)) = (log.parent(), log.file_name().and_then(|n| n.to_str())) else {
        return Ok(());
    };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        entries => Some(entries.map_err(on("cannot read", dir))?),
    };
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|found| found.starts_with(name)) {
            remove_file(&entry.path())?;
        }
    }
    remove_file(link)
}

/// Removes a file; one that is gone is removed.
pub(crate) fn remove_file(path: &Path) -> Result<(), StepError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.map_err(on("cannot remove", path)),
    }
}

/// Removes a directory with all that is in it, unless something is mounted there.
pub(crate) fn remove_tree(dir: &Path) -> Result<(), StepError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(on("cannot read", Path::new("/proc/self/mountinfo")))?;
    if let Some(mount) = mount_under(&mounts, dir) {
        return Err(StepError::Mounted { mount, dir: dir.to_owned() });
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.map_err(on("cannot remove", dir)),
    }
}

/// The first mount point at or under a directory.
fn mount_under(mountinfo: &str, dir: &Path) -> Option<PathBuf> {
    // The fifth field; spaces and such are written as octal escapes, and no path of ours has any.
    mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .find(|mount| mount.starts_with(dir))
}

/// Names what failed.
pub(crate) fn on(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StepError {
    let path = path.to_owned();
    move |source| StepError::File { operation, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_under_a_directory_are_found() {
        let info = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 25 0:31 / /var/lib/kubelet/pods/a/volumes/x rw - tmpfs tmpfs rw\n";
        assert_eq!(
            mount_under(info, Path::new("/var/lib/kubelet/pods/a")),
            Some("/var/lib/kubelet/pods/a/volumes/x".into())
        );
        assert_eq!(mount_under(info, Path::new("/var/lib/kubelet/pods/ab")), None);
        assert_eq!(mount_under(info, Path::new("/var/lib/kubelet/pods/a/volumes/xy")), None);
    }

    #[test]
    fn a_log_goes_with_its_rotated_parts_and_link() {
        let dir = tempfile::tempdir().unwrap();
        let (log, link) = (dir.path().join("1.log"), dir.path().join("link"));
        for name in ["1.log", "1.log.20260101-000000.gz", "11.log", "0.log"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        link_log(&link, &log).unwrap();
        link_log(&link, &log).unwrap();
        remove_log(&log, &link).unwrap();
        remove_log(&log, &link).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["0.log", "11.log"]);
    }
}
