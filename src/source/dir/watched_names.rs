//! Which names decide what a path leads to: the links on its way, and the first name that is missing. Blocking.
//!
//! This is for the watch alone: what is read is followed by handles, in `source::trust`.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::scan::is_manifest_name;
use crate::source::trust::names;

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// What follows from a change of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameEffect {
    /// The file that is read was written.
    NewContents,
    /// The path leads elsewhere.
    NewTarget,
}

/// Names to watch, by the directory that holds them.
pub(super) type WatchedNames = BTreeMap<PathBuf, BTreeMap<OsString, NameEffect>>;

/// What the manifests' path depends on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Watched {
    /// The directory of the manifests, or of the single one, without links; none if there is none.
    pub(super) directory: Option<PathBuf>,
    /// What is watched in other directories, and names in this one that are no manifests.
    pub(super) names: WatchedNames,
}

/// What to watch for the manifests at a path, which may be a single file that is gone, and for a key.
pub(super) fn observe_watched(path: &Path, was_single: bool, key: Option<&Path>) -> Watched {
    let is_single = match fs::metadata(path) {
        Ok(metadata) => metadata.is_file(),
        Err(_) => was_single,
    };
    let directory = path.parent().filter(|_| is_single).unwrap_or(path);
    let mut names = WatchedNames::new();
    add_path(&mut names, directory);
    let links = if is_single { vec![path.to_owned()] } else { manifest_links(directory) };
    links.iter().map(PathBuf::as_path).chain(key).for_each(|file| add_file(&mut names, file));
    let directory = fs::canonicalize(directory).ok().filter(|directory| directory.is_dir());
    Watched { directory, names }
}

/// The manifests that are links: what they say depends on more than their directory.
fn manifest_links(directory: &Path) -> Vec<PathBuf> {
    // What cannot be listed has no links; the reading tells why.
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let links = entries.filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_symlink())
            && is_manifest_name(&entry.file_name().to_string_lossy())
    });
    links.map(|entry| entry.path()).collect()
}

/// Adds the links on the way of a path, and the first name of it that is missing.
fn add_path(watched: &mut WatchedNames, path: &Path) {
    walk(watched, path);
}

/// The same for a file, with the file itself where the links lead to.
fn add_file(watched: &mut WatchedNames, path: &Path) {
    if let Some(end) = walk(watched, path)
        && let (Some(directory), Some(name)) = (end.parent(), end.file_name())
    {
        let names = watched.entry(directory.to_owned()).or_default();
        names.entry(name.to_owned()).or_insert(NameEffect::NewContents);
    }
}

/// Walks along a path as the kernel does, and tells where it ends, if it does.
fn walk(watched: &mut WatchedNames, path: &Path) -> Option<PathBuf> {
    let mut here = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(&std::path::absolute(path).ok()?).collect();
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        let metadata = fs::symlink_metadata(&next);
        if metadata.as_ref().is_ok_and(|metadata| !metadata.is_symlink()) {
            here = next;
            continue;
        }
        watched.entry(here.clone()).or_default().insert(name, NameEffect::NewTarget);
        links += 1;
        let target = fs::read_link(&next).ok().filter(|_| links <= MAX_LINKS)?;
        if target.is_absolute() {
            here = PathBuf::from("/");
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            ahead.push_front(name);
        }
    }
    Some(here)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// As `directory/name`, with `!` where the target is decided.
    fn text(watched: &WatchedNames, root: &Path) -> String {
        let each = watched.iter().flat_map(|(directory, names)| {
            names.iter().map(move |(name, effect)| {
                let path = directory.join(name);
                let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                if *effect == NameEffect::NewTarget { format!("{path}!") } else { path }
            })
        });
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn links_and_missing_names_on_the_way() {
        let temporary = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temporary.path()).unwrap();
        let at = |path: &str| root.join(path);
        fs::create_dir_all(at("releases/1")).unwrap();
        fs::create_dir_all(at("etc/..1")).unwrap();
        fs::write(at("releases/1/a.yaml"), "").unwrap();
        fs::write(at("etc/..1/b.yaml"), "").unwrap();
        symlink("releases/1", at("current")).unwrap();
        symlink(at("current"), at("etc/manifests")).unwrap();
        symlink("../etc/./..data/b.yaml", at("etc/b.yaml")).unwrap();
        symlink("..1", at("etc/..data")).unwrap();
        symlink("round", at("round")).unwrap();
        symlink("nowhere/x", at("dangling")).unwrap();
        let cases = [
            ("releases/1", "", "releases/1"),
            ("etc/manifests", "current! etc/manifests!", "current! etc/manifests! releases/1"),
            ("etc/manifests/a.yaml", "current! etc/manifests!", "current! etc/manifests! releases/1/a.yaml"),
            ("etc/b.yaml", "etc/..data! etc/b.yaml!", "etc/..data! etc/b.yaml! etc/..1/b.yaml"),
            ("missing/deep", "missing!", "missing!"),
            ("dangling", "dangling! nowhere!", "dangling! nowhere!"),
            ("round", "round!", "round!"),
        ];
        for (path, target, file) in cases {
            let (mut as_path, mut as_file) = (WatchedNames::new(), WatchedNames::new());
            add_path(&mut as_path, &at(path));
            add_file(&mut as_file, &at(path));
            let sorted = |line: &str| {
                let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(sorted(&text(&as_path, &root)), sorted(target), "{path}");
            assert_eq!(sorted(&text(&as_file, &root)), sorted(file), "{path} as a file");
        }
    }
}
