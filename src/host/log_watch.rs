//! Tells of the first write to each log that is watched, and then no more until it is watched anew: a log at rest costs
//! nothing, and one that is written to all the time one event per look.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use smol::Async;

/// The watch of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchId(i32);

/// What became of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchEvent {
    /// The log was written to.
    Written(WatchId),
    /// The watch has ended: it has told, or its file is gone.
    Ended(WatchId),
    /// Some were lost.
    Overflow,
}

/// Watches logs.
#[derive(Debug)]
pub(crate) struct LogWatch(Async<OwnedFd>);

impl LogWatch {
    /// Watches none yet.
    ///
    /// # Errors
    /// When the kernel has no more of them.
    pub(crate) fn new() -> io::Result<Self> {
        Async::new(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?).map(Self)
    }

    /// Watches a log until its next write.
    ///
    /// # Errors
    /// When there is no such file, or the kernel watches too many already.
    pub(crate) fn watch(&self, log: &Path) -> io::Result<WatchId> {
        let flags = WatchFlags::MODIFY | WatchFlags::ONESHOT | WatchFlags::DONT_FOLLOW;
        Ok(WatchId(inotify::add_watch(self.0.get_ref(), log, flags)?))
    }

    /// Waits until there are events.
    pub(crate) async fn ready(&self) {
        if self.0.readable().await.is_err() {
            std::future::pending().await
        }
    }

    /// The events that there are.
    pub(crate) fn events(&self) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(self.0.get_ref(), &mut buffer);
        while let Ok(event) = reader.next() {
            let (id, kind) = (WatchId(event.wd()), event.events());
            if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                events.push(WatchEvent::Overflow);
            } else if kind.contains(ReadFlags::IGNORED) {
                events.push(WatchEvent::Ended(id));
            } else if kind.contains(ReadFlags::MODIFY) {
                events.push(WatchEvent::Written(id));
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_first_write_is_told_and_only_that() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let watch = LogWatch::new().unwrap();
        for _ in 0..2 {
            let id = watch.watch(&path).unwrap();
            assert_eq!(watch.watch(&path).unwrap(), id, "watched once");
            assert_eq!(watch.events(), []);
            log.write_all(b"a\n").unwrap();
            log.write_all(b"b\n").unwrap();
            smol::block_on(watch.ready());
            assert_eq!(watch.events(), [WatchEvent::Written(id), WatchEvent::Ended(id)]);
        }
        log.write_all(b"c\n").unwrap();
        assert_eq!(watch.events(), []);
        assert!(watch.watch(&dir.path().join("1.log")).is_err());
    }
}
