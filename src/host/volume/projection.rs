//! The files of a volume, replaced as a whole: who reads them sees the old ones or the new ones. Blocking.
//!
//! As kubelet lays them out: the files lie in a directory with a timestamp, `..data` leads to it, and every name in the volume
//! leads through `..data`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::ownership::{apply_group, group_mode};
use crate::host::files::{FileError, on, remove_file};
use crate::host::remove_tree::remove_tree;
use crate::pod::downward_api::{ProjectedFile, ProjectedFiles};

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";
/// So many versions of the files at the most are there at once, besides the current one.
const MAX_OLD: usize = 16;

/// What becomes of the files that are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OldFiles {
    /// They are removed.
    Remove,
    /// They stay for a while, the newest of them: whoever is on the way to one of them still finds it.
    KeepFor(Duration),
}

/// Writes the files of a volume, unless it holds them already. What an agent that was killed left half done is removed.
pub(super) fn write_files(
    volume: &Path,
    files: &ProjectedFiles,
    group: Option<u32>,
    old: OldFiles,
) -> Result<(), FileError> {
    let (data, new) = (volume.join(DATA), volume.join(DATA_NEW));
    let current = fs::read_link(&data).ok().filter(|target| target.components().count() == 1);
    let mut wanted = files.clone();
    if group.is_some() {
        wanted.values_mut().for_each(|file| file.mode = group_mode(file.mode, false, true));
    }
    let found = current.as_ref().and_then(|name| read_files(&volume.join(name)));
    let mut keep = current;
    if found.as_ref() != Some(&wanted) {
        let dir = make_timestamped(volume)?;
        files.iter().try_for_each(|(path, file)| write_file(&dir, path, file))?;
        if let Some(gid) = group {
            apply_group(&dir, gid, true)?;
        }
        remove_file(&new)?;
        keep = dir.file_name().map(PathBuf::from);
        if let Some(name) = &keep {
            symlink(name, &new).map_err(on("cannot create link", &new))?;
        }
        fs::rename(&new, &data).map_err(on("cannot rename", &new))?;
    }
    let names: BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &names {
        let (link, target) = (volume.join(name), Path::new(DATA).join(name));
        if fs::read_link(&link).ok().as_deref() != Some(&target) {
            remove_entry(&link)?;
            symlink(&target, &link).map_err(on("cannot create link", &link))?;
        }
    }
    let mut old_dirs = Vec::new();
    for entry in fs::read_dir(volume).map_err(on("cannot read", volume))?.flatten() {
        let name = entry.file_name();
        let is_current = name == DATA || keep.as_ref().is_some_and(|keep| keep.as_os_str() == name);
        if is_current || name.to_str().is_some_and(|name| names.contains(name)) {
            continue;
        }
        match entry.metadata().and_then(|found| found.modified()) {
            Ok(modified) if entry.file_type().is_ok_and(|kind| kind.is_dir()) => {
                old_dirs.push((modified, entry.path()));
            }
            _ => remove_entry(&entry.path())?,
        }
    }
    old_dirs.sort();
    let is_kept = |place: usize, modified: &SystemTime| match old {
        OldFiles::Remove => false,
        // A clock that was set back tells nothing.
        OldFiles::KeepFor(time) => place < MAX_OLD && modified.elapsed().is_ok_and(|age| age < time),
    };
    let stale = old_dirs.iter().rev().enumerate().filter(|(place, (modified, _))| !is_kept(*place, modified));
    stale.into_iter().try_for_each(|(_, (_, path))| remove_entry(path))
}

fn remove_entry(path: &Path) -> Result<(), FileError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_tree(path).map_err(on("cannot remove", path)),
        _ => remove_file(path),
    }
}

fn make_timestamped(volume: &Path) -> Result<PathBuf, FileError> {
    loop {
        let time = jiff::Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S");
        let dir = volume.join(format!("{time}.{}", fastrand::u32(..)));
        match fs::DirBuilder::new().mode(0o755).create(&dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            made => made.map_err(on("cannot create directory", &dir))?,
        }
        // Whatever the umask is.
        set_mode(&dir, 0o755)?;
        return Ok(dir);
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), FileError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(on("cannot set the mode of", path))
}

fn write_file(dir: &Path, path: &str, file: &ProjectedFile) -> Result<(), FileError> {
    let path = dir.join(path);
    for parent in
        path.ancestors().skip(1).take_while(|parent| *parent != dir).collect::<Vec<_>>().iter().rev()
    {
        match fs::create_dir(parent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                made.map_err(on("cannot create directory", parent))?;
                set_mode(parent, 0o755)?;
            }
        }
    }
    let write = |mut open: File| open.write_all(&file.contents);
    let made = File::options().write(true).create_new(true).mode(0o600).open(&path);
    made.and_then(write).map_err(on("cannot write", &path))?;
    set_mode(&path, file.mode)
}

/// The files in a directory and below it; none if it cannot be read.
fn read_files(dir: &Path) -> Option<ProjectedFiles> {
    let mut files = ProjectedFiles::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).ok()? {
            let path = entry.ok()?.path();
            let metadata = fs::symlink_metadata(&path).ok()?;
            if metadata.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).ok()?.to_str()?.to_owned();
            let mode = metadata.permissions().mode() & 0o7777;
            files.insert(name, ProjectedFile { contents: fs::read(&path).ok()?, mode });
        }
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str, u32)]) -> ProjectedFiles {
        let file = |text: &str, mode| ProjectedFile { contents: text.into(), mode };
        list.iter().map(|(path, text, mode)| ((*path).to_owned(), file(text, *mode))).collect()
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path();
        let first = files(&[("a", "1", 0o400), ("d/b", "2", 0o644), ("d/c", "3", 0o600)]);
        write_files(volume, &first, None, OldFiles::Remove).unwrap();
        assert_eq!(read_files(&volume.join(DATA)), Some(first.clone()));
        assert_eq!(fs::read_to_string(volume.join("d/b")).unwrap(), "2");
        assert_eq!(fs::read_link(volume.join("d")).unwrap(), Path::new("..data/d"));
        let before = (fs::read_link(volume.join(DATA)).unwrap(), names(volume));
        assert_eq!(before.1.len(), 4, "{before:?}");

        // The same again changes nothing.
        write_files(volume, &first, None, OldFiles::Remove).unwrap();
        assert_eq!((fs::read_link(volume.join(DATA)).unwrap(), names(volume)), before);

        // Left by a killed agent: half a directory, half a link, a name that leads nowhere.
        fs::create_dir(volume.join("..2026_01_01_00_00_00.1")).unwrap();
        symlink("nowhere", volume.join(DATA_NEW)).unwrap();
        fs::remove_file(volume.join("a")).unwrap();
        write_files(volume, &first, None, OldFiles::Remove).unwrap();
        assert_eq!((fs::read_link(volume.join(DATA)).unwrap(), names(volume)), before);

        let second = files(&[("d/b", "2", 0o644), ("e", "4", 0o644)]);
        write_files(volume, &second, None, OldFiles::Remove).unwrap();
        assert_eq!(read_files(&volume.join(DATA)), Some(second));
        let visible: Vec<_> = names(volume).into_iter().filter(|name| !name.starts_with("..")).collect();
        assert_eq!(visible, ["d", "e"]);
        assert_eq!(names(volume).len(), 4, "the old files are gone: {:?}", names(volume));
        assert_ne!(fs::read_link(volume.join(DATA)).unwrap(), before.0);

        // Whoever reads while the files change finds those that were there, until the next write.
        let old = fs::read_link(volume.join(DATA)).unwrap();
        let third = files(&[("e", "5", 0o644)]);
        write_files(volume, &third, None, OldFiles::KeepFor(Duration::from_secs(60))).unwrap();
        assert_eq!(fs::read_to_string(volume.join(&old).join("e")).unwrap(), "4");
        assert_eq!(fs::read_to_string(volume.join("e")).unwrap(), "5");
        write_files(volume, &third, None, OldFiles::Remove).unwrap();
        assert!(!volume.join(&old).exists());

        write_files(volume, &files(&[]), None, OldFiles::Remove).unwrap();
        assert!(names(volume).iter().all(|name| name.starts_with("..")), "{:?}", names(volume));
    }

    #[test]
    fn a_group_can_read_them() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let gid = fs::metadata(dir.path()).unwrap().gid();
        let wanted = files(&[("a", "1", 0o400)]);
        write_files(dir.path(), &wanted, Some(gid), OldFiles::Remove).unwrap();
        let link = fs::read_link(dir.path().join(DATA)).unwrap();
        assert_eq!(fs::metadata(dir.path().join("a")).unwrap().mode() & 0o7777, 0o440);
        write_files(dir.path(), &wanted, Some(gid), OldFiles::Remove).unwrap();
        assert_eq!(fs::read_link(dir.path().join(DATA)).unwrap(), link, "nothing changed");
    }
}
