//! Where it is decided what a path means: the links on its way, and the names that are missing. Blocking.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// What a change of a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meaning {
    /// The file that is read was written.
    Contents,
    /// The path leads elsewhere.
    Way,
}

/// Names to look out for, by the directory that holds them.
pub(super) type Places = BTreeMap<PathBuf, BTreeMap<OsString, Meaning>>;

/// Adds the links on the way of a path, and the first name of it that is missing.
pub(super) fn add_way(places: &mut Places, path: &Path) {
    walk(places, path);
}

/// The same for a file, with the file itself where the links lead to.
pub(super) fn add_file(places: &mut Places, path: &Path) {
    if let Some(end) = walk(places, path)
        && let (Some(directory), Some(name)) = (end.parent(), end.file_name())
    {
        places.entry(directory.to_owned()).or_default().entry(name.to_owned()).or_insert(Meaning::Contents);
    }
}

/// Walks along a path as the kernel does, and tells where it ends, if it does.
fn walk(places: &mut Places, path: &Path) -> Option<PathBuf> {
    let mut here = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(path).collect();
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
        places.entry(here.clone()).or_default().insert(name, Meaning::Way);
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

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// As `directory/name`, with `!` where the way is decided.
    fn told(places: &Places, root: &Path) -> String {
        let each = places.iter().flat_map(|(directory, names)| {
            names.iter().map(move |(name, meaning)| {
                let path = directory.join(name);
                let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                if *meaning == Meaning::Way { format!("{path}!") } else { path }
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
        for (path, way, file) in cases {
            let (mut as_way, mut as_file) = (Places::new(), Places::new());
            add_way(&mut as_way, &at(path));
            add_file(&mut as_file, &at(path));
            let sorted = |text: &str| {
                let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(sorted(&told(&as_way, &root)), sorted(way), "{path}");
            assert_eq!(sorted(&told(&as_file, &root)), sorted(file), "{path} as a file");
        }
    }
}
