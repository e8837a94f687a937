//! One agent per root directory, and one per runtime: two would fight over the same pods, whatever they call the node.
//!
//! A lock is held by the process: it ends with it, however that ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// Where locks of runtimes lie, and what else is of no use after a boot.
pub(super) const RUN_DIR: &str = "/run/rkubelet";
/// How long a predecessor that was just killed may take to release its locks.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Why a lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// Somebody else holds it.
    #[error("another agent ({holder}) already works with {what}; it holds {}", path.display())]
    Held {
        /// What is locked.
        what: String,
        /// Who holds it, as it wrote.
        holder: String,
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be locked.
    #[error("cannot lock {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A lock, for as long as the process lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Locks the root directory.
///
/// # Errors
/// When another agent works in it.
pub(crate) fn lock_root_dir(root_dir: &Path) -> Result<Lock, LockError> {
    let what = format!("the root directory {}", root_dir.display());
    lock(&root_dir.join("rkubelet/agent.lock"), &what, PATIENCE)
}

/// Locks a runtime.
///
/// # Errors
/// When another agent works with it, whatever its root directory and node name.
pub(crate) fn lock_runtime(endpoint: &str) -> Result<Lock, LockError> {
    let what = format!("the runtime {endpoint}");
    lock(&Path::new(RUN_DIR).join(runtime_file(&real_socket(endpoint))), &what, PATIENCE)
}

/// The socket of an endpoint by its real path: `/var/run` is a link to `/run`. It need not be there yet.
fn real_socket(endpoint: &str) -> PathBuf {
    let socket = Path::new(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
    let beside = || Some(fs::canonicalize(socket.parent()?).ok()?.join(socket.file_name()?));
    fs::canonicalize(socket).ok().or_else(beside).unwrap_or_else(|| socket.components().collect())
}

/// The name of the file for a socket; whatever its path holds, it is one name in one directory.
fn runtime_file(socket: &Path) -> String {
    let path = socket.to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let mut name: String = path.trim_matches('/').chars().map(plain).collect();
    // Longer names are no file names.
    name.truncate(240);
    format!("{name}.lock")
}

fn lock(path: &Path, what: &str, patience: Duration) -> Result<Lock, LockError> {
    let error = |source: io::Error| LockError::File { path: path.to_owned(), source };
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(error)?;
    }
    let options =
        || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = options().map_err(error)?;
    let begun = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < patience => wait(LOOK_AGAIN),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                // Who cannot be read is not known, and holds it all the same.
                let _ = (&mut file).take(200).read_to_string(&mut holder);
                let holder =
                    if holder.trim().is_empty() { "unknown".into() } else { holder.trim().to_owned() };
                return Err(LockError::Held { what: what.to_owned(), holder, path: path.to_owned() });
            }
            Err(errno) => return Err(error(errno.into())),
        }
    }
    // Only for people; the lock counts, not what is written.
    let written = file.set_len(0).and_then(|()| file.rewind());
    let _ = written.and_then(|()| writeln!(file, "rkubelet, process {}", std::process::id()));
    Ok(Lock { _file: file })
}

/// Waits while nothing runs yet that could be stalled.
#[expect(clippy::disallowed_methods, reason = "the agent has not begun: no executor is stalled")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_one_is_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/agent.lock");
        let first = lock(&path, "the root directory /r", Duration::ZERO).unwrap();
        let error = lock(&path, "the root directory /r", Duration::from_millis(50)).unwrap_err();
        let expect = format!(
            "another agent (rkubelet, process {}) already works with the root directory /r; it holds {}",
            std::process::id(),
            path.display()
        );
        assert_eq!(error.to_string(), expect);
        drop(first);
        lock(&path, "the root directory /r", Duration::ZERO).unwrap();
    }

    #[test]
    fn one_file_per_runtime() {
        let file = |endpoint: &str| runtime_file(&real_socket(endpoint));
        assert_eq!(file("unix:///no/such/containerd.sock"), "no-such-containerd.sock.lock");
        assert_eq!(file("/no/a.sock"), file("unix:///no//a.sock"));
        assert_ne!(file("unix:///no/a.sock"), file("unix:///no/b.sock"));
        let long = file(&format!("/{}", "x/".repeat(300)));
        assert!(long.len() < 255 && !long.contains('/'), "{long}");
    }

    #[test]
    fn a_runtime_has_one_name_however_it_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("run"), dir.path().join("var-run"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let socket = |dir: &Path| format!("unix://{}", dir.join("a.sock").display());
        assert_eq!(real_socket(&socket(&real)), real_socket(&socket(&link)), "before it is there");
        fs::write(real.join("a.sock"), "").unwrap();
        assert_eq!(real_socket(&socket(&real)), real_socket(&socket(&link)));
        let other = dir.path().join("other.sock");
        std::os::unix::fs::symlink(real.join("a.sock"), &other).unwrap();
        assert_eq!(real_socket(&socket(&real)), real_socket(&other.display().to_string()));
    }
}
