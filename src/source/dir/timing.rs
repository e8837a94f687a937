//! Every delay of the directory source, and why it is there.

use std::time::Duration;

/// A reading that takes longer is said not to answer, and pods of other sources are waited for no more. It goes on: a
/// file system on the network answers when its server is back.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(10);
/// A directory that is missing is looked for again this soon: there is nothing that could be watched.
pub(super) const MISSING_RETRY: Duration = Duration::from_secs(1);
/// The shortest time between two readings: a flood of events costs one reading, not thousands.
pub(super) const READ_INTERVAL: Duration = Duration::from_millis(20);

/// How long a file must be gone to count as removed: editors and `rm a; cp b a` take it away for a moment.
pub(super) const REMOVAL_GRACE: Duration = Duration::from_millis(150);
/// The same in a directory that has taken the place of another: it may be on its way to being filled.
pub(super) const REPLACED_GRACE: Duration = Duration::from_secs(3);

/// How long a file is left alone after its last write while its writer has it open: no manifest is read half written.
pub(super) const OPEN_WRITER: Duration = Duration::from_secs(10);
/// A file that was written to within this time may not be whole, unless its writer was seen to close it. Counts where
/// inotify tells nothing.
pub(super) const QUIET: Duration = Duration::from_millis(50);
/// How long a file must stay empty to count as empty. Whoever writes a file anew cuts it short first, and a busy file
/// system takes its time to tell.
pub(super) const EMPTY_GRACE: Duration = Duration::from_secs(1);
/// How long the first snapshot, for which sources of lower precedence wait, is held back for files that were written just
/// now.
pub(super) const FIRST_SNAPSHOT_GRACE: Duration = Duration::from_secs(1);
/// How long after an event more of the same is waited for: where the event says little, and where a signature belongs
/// to a manifest.
pub(super) const EVENT_PAUSE: Duration = Duration::from_millis(100);
/// How long a reading waits for inotify to tell of what happened before it. The fence's event ends the wait much sooner,
/// unless the machine is very busy.
pub(super) const FENCE_DEADLINE: Duration = Duration::from_secs(1);
/// File systems stamp files by a coarse clock: a stamp that is younger may stand for two different contents.
pub(super) const STAMP_GRANULARITY: Duration = Duration::from_millis(50);
