//! What is in a file, and where a change of it would show: for files that are watched. Blocking.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Of larger files only the size and the times are compared.
const MAX_READ: u64 = 1 << 20;
/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// What is in a file, as a hash; none if there is no file. A time that changes alone is no change of a small file.
pub(crate) fn file_state(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    let mut hash = DefaultHasher::new();
    // To open a FIFO would wait for a writer.
    if found.is_file() && found.len() <= MAX_READ {
        let mut contents = Vec::new();
        File::open(path).ok()?.take(MAX_READ).read_to_end(&mut contents).ok()?;
        contents.hash(&mut hash);
    } else {
        (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hash);
    }
    Some(hash.finish())
}

/// The directories in which a change of what a path leads to would show: its own, that of every link on the way, and if
/// something is missing the last that is there.
pub(crate) fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let mut dirs = BTreeSet::new();
    let mut rest: Vec<PathBuf> = parts(path);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = rest.pop() {
        if part == Path::new("..") {
            at.pop();
            continue;
        }
        let full = at.join(&part);
        match fs::symlink_metadata(&full) {
            Ok(found) if found.is_symlink() => {
                dirs.insert(at.clone());
                links += 1;
                let Some(target) = fs::read_link(&full).ok().filter(|_| links <= MAX_LINKS) else { break };
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                rest.extend(parts(&target));
            }
            Ok(found) if found.is_dir() && !rest.is_empty() => at = full,
            _ => {
                dirs.insert(at);
                break;
            }
        }
    }
    dirs
}

/// The parts of a path, the first one last.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.iter().filter(|part| *part != "/" && *part != ".");
    parts.rev().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn contents_count_and_times_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(file_state(&path), None);
        fs::write(&path, "one").unwrap();
        let first = file_state(&path);
        assert!(first.is_some());
        fs::write(&path, "one").unwrap();
        assert_eq!(file_state(&path), first);
        fs::write(dir.path().join("g"), "two").unwrap();
        fs::rename(dir.path().join("g"), &path).unwrap();
        assert_ne!(file_state(&path), first);
        fs::write(&path, vec![0; usize::try_from(MAX_READ).unwrap() + 1]).unwrap();
        assert!(file_state(&path).is_some());
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("fifo"), rustix::fs::Mode::RUSR).unwrap();
        assert!(file_state(&dir.path().join("fifo")).is_some(), "and nobody waits for a writer");
    }

    #[test]
    fn every_link_on_the_way_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("archive/1")).unwrap();
        fs::create_dir_all(root.join("ssl")).unwrap();
        fs::write(root.join("archive/1/a.crt"), "x").unwrap();
        symlink("../archive/1", root.join("ssl/live")).unwrap();
        symlink(root.join("ssl/live/a.crt"), root.join("ssl/a.crt")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let rows: [(&str, &[&str]); 6] = [
            ("archive/1/a.crt", &["archive/1"]),
            ("ssl/live/a.crt", &["archive/1", "ssl"]),
            ("ssl/a.crt", &["archive/1", "ssl"]),
            ("ssl/none/deeper/a.crt", &["ssl"]),
            ("archive/1/a.crt/below", &["archive/1"]),
            ("loop", &[""]),
        ];
        for (path, expect) in rows {
            let expect: BTreeSet<PathBuf> =
                expect.iter().map(|dir| if dir.is_empty() { root.clone() } else { root.join(dir) }).collect();
            assert_eq!(directories(&root.join(path)), expect, "{path}");
        }
    }
}
