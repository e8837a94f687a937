//! What events in the watched directories mean. Pure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};

use crate::source::dir::scan;
use crate::source::dir::watched_names::{NameEffect, Watched};

/// How many directories are watched at most; links into more of them are left to the rescan.
const MAX_WATCHED: usize = 64;

/// What follows from an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hint {
    /// Look at once.
    Look,
    /// Look soon: more is likely to follow.
    LookSoon,
    /// This file is being written to.
    Writing(PathBuf),
    /// This file is whole again.
    Whole(PathBuf),
    /// This file is gone; another may be on its way.
    Gone(PathBuf),
    /// A path leads elsewhere, or a directory is gone: what is watched must be found anew.
    Moved,
}

impl Watched {
    /// What follows from an event; `None` if nothing does.
    pub(super) fn hint(&self, kind: &EventKind, path: &Path) -> Option<Hint> {
        let is_watched =
            |path: &Path| self.directory.as_deref() == Some(path) || self.names.contains_key(path);
        if is_watched(path) {
            match kind {
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => return Some(Hint::Moved),
                EventKind::Access(_) => return None,
                _ if self.directory.as_deref() == Some(path) => return Some(Hint::Look),
                _ => {}
            }
        }
        let (directory, name) = (path.parent()?, path.file_name()?);
        let effect = self.names.get(directory).and_then(|names| names.get(name));
        if effect == Some(&NameEffect::NewTarget) && !matches!(kind, EventKind::Access(_)) {
            return Some(Hint::Moved);
        }
        let name = name.to_string_lossy();
        // `..data` and its like: links of manifests lead through them.
        let of_interest = scan::is_name_of_interest(&name) || name.starts_with("..");
        if effect.is_none() && !(self.directory.as_deref() == Some(directory) && of_interest) {
            return None;
        }
        match kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(Hint::Whole(path.to_owned())),
            EventKind::Modify(ModifyKind::Name(_)) | EventKind::Remove(_) => {
                Some(Hint::Gone(path.to_owned()))
            }
            // Our own reading opens files.
            EventKind::Access(_) => None,
            EventKind::Modify(ModifyKind::Data(_)) => Some(Hint::Writing(path.to_owned())),
            EventKind::Modify(ModifyKind::Metadata(_)) => Some(Hint::Look),
            _ => Some(Hint::LookSoon),
        }
    }

    /// The directories to watch.
    pub(super) fn directories(&self) -> BTreeSet<&Path> {
        let others = self.names.keys().map(PathBuf::as_path);
        self.directory.as_deref().into_iter().chain(others).take(MAX_WATCHED).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use notify::event::{CreateKind, DataChange, MetadataKind, RemoveKind};

    use super::*;
    use crate::source::dir::watched_names::WatchedNames;

    #[test]
    fn what_events_say() {
        let file = || PathBuf::from("/d/a.yaml");
        let close = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let rename = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        let metadata = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        let create = EventKind::Create(CreateKind::File);
        let cases = [
            (close, "/d/a.yaml", Some(Hint::Whole(file()))),
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), "/d/a.yaml", None),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), "/d/a.yaml", None),
            (create, "/d/a.yaml", Some(Hint::LookSoon)),
            (write, "/d/a.yaml", Some(Hint::Writing(file()))),
            (rename, "/d/a.yaml", Some(Hint::Whole(file()))),
            (rename, "/d/..data", Some(Hint::Whole("/d/..data".into()))),
            (metadata, "/d/a.yaml", Some(Hint::Look)),
            (EventKind::Modify(ModifyKind::Name(RenameMode::From)), "/d/a.yaml", Some(Hint::Gone(file()))),
            (EventKind::Remove(RemoveKind::File), "/d/a.yaml", Some(Hint::Gone(file()))),
            (close, "/d/a.yaml.minisig", Some(Hint::Whole("/d/a.yaml.minisig".into()))),
            (close, "/d/notes.minisig", None),
            (close, "/d/notes.log", None),
            (write, "/d/.a.yaml.swp", None),
            (metadata, "/d", Some(Hint::Look)),
            (EventKind::Remove(RemoveKind::Folder), "/d", Some(Hint::Moved)),
            (rename, "/d", Some(Hint::Moved)),
            // What the path depends on elsewhere.
            (rename, "/etc/link", Some(Hint::Moved)),
            (create, "/etc/link", Some(Hint::Moved)),
            (close, "/etc/other", None),
            (create, "/etc/a.yaml", None),
            (close, "/t/target", Some(Hint::Whole("/t/target".into()))),
            (write, "/t/target", Some(Hint::Writing("/t/target".into()))),
            (metadata, "/t", None),
            (EventKind::Remove(RemoveKind::Folder), "/t", Some(Hint::Moved)),
        ];
        let names = |name: &str, effect| BTreeMap::from([(name.into(), effect)]);
        let watched = Watched {
            directory: Some("/d".into()),
            names: WatchedNames::from([
                ("/etc".into(), names("link", NameEffect::NewTarget)),
                ("/t".into(), names("target", NameEffect::NewContents)),
            ]),
        };
        for (kind, path, expect) in cases {
            assert_eq!(watched.hint(&kind, Path::new(path)), expect, "{kind:?} {path}");
        }
    }
}
