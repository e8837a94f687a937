//! Readings that may never end: a file system on the network whose server is gone blocks whoever looks at it.
//!
//! Invariant: at most [`MAX_HANGING`] threads hang, however long it lasts. A reading that hangs is reported as unreadable and
//! goes on. Another one is begun only when the mounts on the path have changed since.

use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::reader::{DirectoryReader, Scan};
use super::scan::KnownFiles;
use super::signing_key::SigningKey;
use super::timing::READ_DEADLINE;
use super::{DirSource, Signing};
use crate::time::within::within;

/// How many threads may hang at a time.
const MAX_HANGING: usize = 4;
const MOUNT_TABLE: &str = "/proc/self/mountinfo";

/// A reading that was begun, and the reader that comes back with it.
type PendingReading = Pin<Box<dyn Future<Output = (DirectoryReader, Scan)> + Send>>;

/// The readings of a directory, one after the other.
pub(super) struct Readings {
    source: DirSource,
    key: Option<SigningKey>,
    state: ReadState,
    /// Held by each thread that reads.
    threads: Arc<()>,
}

enum ReadState {
    /// No reading is under way.
    Idle(Box<DirectoryReader>),
    /// A reading is under way, and has not ended in time.
    Hanging { reading: PendingReading, mounts: Vec<Vec<u8>> },
    /// Only while a reading is begun.
    Empty,
}

impl Readings {
    /// Nothing is read yet.
    pub(super) fn new(source: DirSource, key: Option<SigningKey>) -> Self {
        let reader = DirectoryReader::new(source.clone(), key.clone());
        Self { source, key, state: ReadState::Idle(Box::new(reader)), threads: Arc::new(()) }
    }

    /// The next reading; an unreadable one if it does not end in time.
    pub(super) async fn next(&mut self, was_single: bool) -> Scan {
        let (mut reading, mut mounts) = match std::mem::replace(&mut self.state, ReadState::Empty) {
            ReadState::Hanging { reading, mounts } => (reading, mounts),
            ReadState::Idle(reader) => (self.begin(*reader, was_single), self.mounts()),
            ReadState::Empty => (self.begin(self.new_reader(), was_single), self.mounts()),
        };
        if let Some((reader, scan)) = within(READ_DEADLINE, &mut reading).await {
            self.state = ReadState::Idle(Box::new(reader));
            return scan;
        }
        let now = self.mounts();
        if now != mounts && Arc::strong_count(&self.threads) <= MAX_HANGING {
            // The thread of the reading that hangs ends when that one does, if ever.
            (reading, mounts) = (self.begin(self.new_reader(), was_single), now);
        }
        self.state = ReadState::Hanging { reading, mounts };
        Scan::unreadable("does not answer".to_owned())
    }

    /// Waits for a reason to read again; at once if a reading is still to be waited for.
    pub(super) async fn wait(&mut self, known: Option<KnownFiles>, rescan: Duration) {
        if let ReadState::Idle(reader) = &mut self.state {
            if let Some(known) = known {
                reader.remember(known);
            }
            reader.wait(rescan).await;
        }
    }

    fn new_reader(&self) -> DirectoryReader {
        DirectoryReader::new(self.source.clone(), self.key.clone())
    }

    fn begin(&self, mut reader: DirectoryReader, was_single: bool) -> PendingReading {
        let thread = self.threads.clone();
        Box::pin(smol::unblock(move || {
            let scan = reader.read(was_single);
            drop(thread);
            (reader, scan)
        }))
    }

    /// The mounts that the path lies on. Reading the table blocks nobody, whatever is mounted.
    fn mounts(&self) -> Vec<Vec<u8>> {
        mounts_above(&self.source.path, &fs::read(MOUNT_TABLE).unwrap_or_default())
    }
}

/// The key that manifests must be signed with, if they must be. One that does not answer in time was not read.
pub(super) async fn read_key(source: &DirSource) -> Option<SigningKey> {
    let Signing::Required(path) = &source.signing else { return None };
    let (unread, own_uid) = (SigningKey::at(path.clone()), source.trust.own_uid());
    let mut key = unread.clone();
    let read = smol::unblock(move || {
        key.reread(own_uid);
        key
    });
    Some(within(READ_DEADLINE, read).await.unwrap_or(unread))
}

/// The lines of a table of mounts whose mount points lie on a path. Links are not followed: that could hang.
fn mounts_above(path: &Path, table: &[u8]) -> Vec<Vec<u8>> {
    let is_above = |line: &&[u8]| {
        let mount_point = line.split(|byte| *byte == b' ').nth(4).map(unescape);
        mount_point.is_some_and(|point| path.starts_with(point))
    };
    table.split(|byte| *byte == b'\n').filter(is_above).map(<[u8]>::to_vec).collect()
}

/// Spaces and the like are written as `\040` in the table.
fn unescape(field: &[u8]) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.filter(|_| first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_on_the_path_count() {
        let table = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 0:20 / /etc rw - tmpfs none rw\n\
            3 1 0:21 / /etc/pods\\040of\\040ours rw - nfs server:/x rw\n\
            4 1 0:22 / /var/lib/containerd/\xff rw - overlay overlay rw\n\
            5 1 0:23 / /etcetera rw - tmpfs none rw\n\
            6 1 0:24 / /etc/pods\\040of\\040ours/below rw - tmpfs none rw\n";
        let numbers = |path: &str| {
            let lines = mounts_above(Path::new(path), table);
            lines.iter().map(|line| line[0] - b'0').collect::<Vec<_>>()
        };
        assert_eq!(numbers("/etc/pods of ours"), [1, 2, 3]);
        assert_eq!(numbers("/etc/manifests/a.yaml"), [1, 2]);
        assert_eq!(numbers("/srv"), [1]);
    }
}
