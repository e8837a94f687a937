//! Reads the manifest files of a directory: which there are, and what those hold that changed. Blocking.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::pod::decode::MAX_MANIFEST;

/// A larger file is not read at all.
const MAX_BYTES: u64 = MAX_MANIFEST as u64;
/// A stamp that is younger may stand for two different contents.
const TICK: Duration = Duration::from_millis(50);
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// What was found at the path.
#[derive(Debug)]
pub(super) enum Reading {
    /// The directory could not be read; with the reason.
    Unreadable(String),
    /// Every manifest file that is there.
    Files(BTreeMap<PathBuf, FileReading>),
}

/// What was found of one file.
#[derive(Debug)]
pub(super) enum FileReading {
    /// The same as at the last reading.
    Unchanged,
    /// Its contents.
    Contents {
        /// Its bytes.
        bytes: Vec<u8>,
        /// When its inode last changed: which of two files is the older one.
        since: (i64, i64),
    },
    /// It cannot be a manifest; with the reason.
    Refused(String),
}

/// What tells a file that changed from one that did not.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            mode: metadata.mode(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The files as they were at the last reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(BTreeMap<PathBuf, Stamp>);

/// Which directory a path means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DirStamp(u64, u64);

/// The directory to watch: the path itself, or the one that holds the single file.
pub(super) fn directory_of(path: &Path) -> PathBuf {
    let holder = path.parent().filter(|_| fs::metadata(path).is_ok_and(|m| m.is_file()));
    holder.unwrap_or(path).to_owned()
}

/// The identity of a directory, if it is there.
pub(super) fn dir_stamp(path: &Path) -> Option<DirStamp> {
    fs::metadata(path).ok().filter(Metadata::is_dir).map(|m| DirStamp(m.dev(), m.ino()))
}

/// Reads what changed since `known`, but for files that are `being_written`.
pub(super) fn read(path: &Path, known: &Known, being_written: &BTreeSet<PathBuf>) -> (Reading, Known) {
    let paths = match list(path) {
        Ok(paths) => paths,
        Err(error) => return (Reading::Unreadable(error.to_string()), known.clone()),
    };
    let mut files = BTreeMap::new();
    let mut stamps = BTreeMap::new();
    for path in paths {
        if being_written.contains(&path) {
            files.insert(path, FileReading::Unchanged);
            continue;
        }
        let (reading, stamp) = match read_file(&path, known.0.get(&path)) {
            // Removed since it was listed.
            Ok(None) => continue,
            Ok(Some(found)) => found,
            Err(error) => (FileReading::Refused(format!("cannot be read: {error}")), None),
        };
        if let Some(stamp) = stamp {
            stamps.insert(path.clone(), stamp);
        }
        files.insert(path, reading);
    }
    (Reading::Files(files), Known(stamps))
}

fn list(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if fs::metadata(path)?.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if is_manifest_name(&entry.file_name().to_string_lossy()) {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// Only what ends as a manifest does, and is not hidden: editors and backups leave other names behind.
pub(super) fn is_manifest_name(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|e| e.to_str());
    !name.starts_with('.') && extension.is_some_and(|e| EXTENSIONS.contains(&e))
}

type Found = (FileReading, Option<Stamp>);

fn read_file(path: &Path, before: Option<&Stamp>) -> std::io::Result<Option<Found>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        metadata => metadata?,
    };
    let stamp = Stamp::of(&metadata);
    if before == Some(&stamp) {
        return Ok(Some((FileReading::Unchanged, Some(stamp))));
    }
    let refuse = |reason: &str| Ok(Some((FileReading::Refused(reason.to_owned()), Some(stamp.clone()))));
    if metadata.is_dir() {
        return refuse("is a directory");
    }
    if !metadata.is_file() {
        return refuse("is not a regular file");
    }
    if metadata.size() > MAX_BYTES {
        return refuse("is larger than 10 MiB");
    }
    // It may have become a FIFO since: do not hang on it.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let mut contents = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut contents)?;
    if contents.len() as u64 > MAX_BYTES {
        return refuse("is larger than 10 MiB");
    }
    // The clock behind a stamp is coarse: another write in the same tick would look like this one.
    let settled = metadata.modified().ok().and_then(|m| m.elapsed().ok()).is_none_or(|age| age > TICK);
    let since = stamp.changed;
    Ok(Some((FileReading::Contents { bytes: contents, since }, Some(stamp).filter(|_| settled))))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_manifests_by_name() {
        let cases = [
            ("a.yaml", true),
            ("a.yml", true),
            ("a.json", true),
            (".a.yaml", false),
            ("a.yaml~", false),
            ("a.yaml.bak", false),
            (".a.yaml.swp", false),
            ("a.YAML", false),
            ("yaml", false),
            ("a", false),
        ];
        for (name, expect) in cases {
            assert_eq!(is_manifest_name(name), expect, "{name}");
        }
    }

    #[test]
    fn reads_what_changed_and_refuses_what_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a.yaml"), "a").unwrap();
        let long_ago = SystemTime::now() - 10 * TICK;
        File::options().append(true).open(at("a.yaml")).unwrap().set_modified(long_ago).unwrap();
        fs::write(at("notes.txt"), "a").unwrap();
        fs::create_dir(at("d.yaml")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("f.yaml"), rustix::fs::Mode::RUSR).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("l.yaml")).unwrap();
        File::create(at("big.yaml")).unwrap().set_len(50 << 20).unwrap();

        let words = |reading: Reading| match reading {
            Reading::Unreadable(reason) => reason,
            Reading::Files(files) => {
                let each = files.into_iter().map(|(path, reading)| {
                    let name = path.file_name().unwrap().to_string_lossy().into_owned();
                    match reading {
                        FileReading::Unchanged => format!("{name} same"),
                        FileReading::Contents { bytes, .. } => {
                            format!("{name} {}", String::from_utf8_lossy(&bytes))
                        }
                        FileReading::Refused(reason) => format!("{name} {reason}"),
                    }
                });
                each.collect::<Vec<_>>().join("; ")
            }
        };
        let (first, known) = read(dir.path(), &Known::default(), &BTreeSet::new());
        assert_eq!(
            words(first),
            "a.yaml a; big.yaml is larger than 10 MiB; d.yaml is a directory; f.yaml is not a regular file; \
             l.yaml cannot be read: No such file or directory (os error 2)"
        );
        fs::write(at("b.json"), "b").unwrap();
        fs::write(at("half.yaml"), "b").unwrap();
        let half = BTreeSet::from([at("half.yaml")]);
        let (second, known) = read(dir.path(), &known, &half);
        assert!(words(second).starts_with(
            "a.yaml same; b.json b; big.yaml same; d.yaml same; f.yaml same; half.yaml same; l.yaml cannot"
        ));

        assert_eq!(words(read(&at("a.yaml"), &known, &BTreeSet::new()).0), "a.yaml same", "a single file");
        assert!(words(read(&at("nowhere"), &Known::default(), &BTreeSet::new()).0).contains("No such file"));
    }
}
