//! The files of a pod's logs. Blocking: called through `smol::unblock`.
//!
//! A container may write here through a hostPath. So directories are opened one after the other, by names that are no
//! links, everything is done relative to what was opened, and only regular files are read and written.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::files::{FileError, on};
use crate::plan::log_rotation::{LogFile, TEMPORARY, compressed_name, current_of};

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);
/// A pipe in the place of a log must not hold up anybody.
const REGULAR: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
const CHUNK: usize = 64 * 1024;

/// The directory of one container's logs.
#[derive(Debug)]
pub(crate) struct LogDir {
    /// The container's name.
    pub(crate) container: String,
    dir: OwnedFd,
    path: PathBuf,
}

/// Opens the directories of all containers of a pod; none if the pod has no logs.
pub(crate) fn open_pod_logs(pod: &Path) -> Result<Vec<LogDir>, FileError> {
    let opened = match fs::openat(CWD, pod, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        opened => opened.map_err(io::Error::from).map_err(on("cannot open", pod))?,
    };
    let mut found = Vec::new();
    for name in names(&opened).map_err(on("cannot read", pod))? {
        // What is no directory has no logs of ours.
        if let Ok(dir) = fs::openat(&opened, &name, DIRECTORY, Mode::empty()) {
            found.push(LogDir { path: pod.join(&name), container: name, dir });
        }
    }
    Ok(found)
}

fn names(dir: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        // Ours are ASCII.
        match entry?.file_name().to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => names.push(name.to_owned()),
        }
    }
    Ok(names)
}

impl LogDir {
    /// The regular files in it.
    pub(crate) fn list(&self) -> Result<Vec<LogFile>, FileError> {
        let names = names(&self.dir).map_err(on("cannot read", &self.path))?;
        let file = |name: String| {
            let stat = fs::statat(&self.dir, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            FileType::from_raw_mode(stat.st_mode).is_file().then_some(LogFile { name, size })
        };
        Ok(names.into_iter().filter_map(file).collect())
    }

    /// Whether its file system has no space left.
    pub(crate) fn is_on_full_disk(&self) -> bool {
        fs::fstatvfs(&self.dir).is_ok_and(|disk| disk.f_blocks > 0 && disk.f_bavail == 0)
    }

    /// Removes a file; one that is gone is removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), FileError> {
        match fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed.map_err(io::Error::from).map_err(on("cannot remove", &self.path.join(name))),
        }
    }

    /// Gives a file another name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        let renamed = fs::renameat(&self.dir, from, &self.dir, to).map_err(io::Error::from);
        renamed.map_err(on("cannot rename", &self.path.join(from)))
    }

    /// The same, unless there is one by that name.
    pub(crate) fn restore(&self, from: &str, to: &str) -> Result<(), FileError> {
        let renamed = fs::renameat_with(&self.dir, from, &self.dir, to, RenameFlags::NOREPLACE);
        match renamed {
            Err(Errno::EXIST | Errno::NOENT) => Ok(()),
            renamed => renamed.map_err(io::Error::from).map_err(on("cannot rename", &self.path.join(from))),
        }
    }

    /// Compresses a file, which goes once the compressed one is on disk. One that is still written to stays as it is.
    pub(crate) fn compress(&self, name: &str) -> Result<(), FileError> {
        let (temporary, compressed) = (format!("{name}{TEMPORARY}"), compressed_name(name));
        let written = self.write_compressed(name, &temporary).and_then(|whole| {
            if whole {
                fs::renameat(&self.dir, &temporary, &self.dir, &compressed)?;
            }
            Ok(whole)
        });
        match written {
            Ok(true) => {
                self.remove(name)?;
                // The container was removed with its log meanwhile.
                match current_of(name).filter(|current| !self.exists(current)) {
                    Some(_) => self.remove(&compressed),
                    None => Ok(()),
                }
            }
            Ok(false) => self.remove(&temporary),
            Err(error) => {
                self.remove(&temporary)?;
                Err(on("cannot compress", &self.path.join(name))(error))
            }
        }
    }

    fn exists(&self, name: &str) -> bool {
        fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether all of the file was written.
    fn write_compressed(&self, name: &str, temporary: &str) -> io::Result<bool> {
        let source = self.open(name)?;
        let target = self.create(temporary, &source)?;
        // Quick rather than small: text shrinks well all the same.
        let mut encoder = GzEncoder::new(target, Compression::fast());
        let read = io::copy(&mut BufReader::with_capacity(CHUNK, &source), &mut encoder)?;
        let target = encoder.finish()?;
        target.sync_data()?;
        Ok(source.metadata()?.len() == read)
    }

    /// Keeps the last whole lines of a file, as many as fit into `keep` bytes; without space for them, none.
    pub(crate) fn cut(&self, name: &str, keep: u64) -> Result<(), FileError> {
        let temporary = format!("{name}{TEMPORARY}");
        let done = match self.write_end(name, keep, &temporary) {
            Err(error) if is_full(&error) => {
                self.remove(&temporary)?;
                self.open_with(name, OFlags::WRONLY).and_then(|file| file.set_len(0))
            }
            written => written,
        };
        done.map_err(on("cannot cut", &self.path.join(name)))
    }

    fn write_end(&self, name: &str, keep: u64, temporary: &str) -> io::Result<()> {
        if keep == 0 {
            // No need for any space.
            return Err(ErrorKind::StorageFull.into());
        }
        let mut source = self.open(name)?;
        let begin = source.metadata()?.len().saturating_sub(keep);
        source.seek(SeekFrom::Start(begin.saturating_sub(1)))?;
        let mut target = self.create(temporary, &source)?;
        let mut source = BufReader::with_capacity(CHUNK, source);
        if begin > 0 {
            io::BufRead::skip_until(&mut source, b'\n')?;
        }
        io::copy(&mut source.take(keep), &mut target)?;
        fs::renameat(&self.dir, temporary, &self.dir, name)?;
        Ok(())
    }

    fn open(&self, name: &str) -> io::Result<File> {
        self.open_with(name, OFlags::RDONLY)
    }

    fn open_with(&self, name: &str, access: OFlags) -> io::Result<File> {
        let file = File::from(fs::openat(&self.dir, name, REGULAR | access, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file")),
        }
    }

    /// A new file with the mode of another.
    fn create(&self, name: &str, like: &File) -> io::Result<File> {
        let mode = Mode::from_raw_mode(fs::fstat(like)?.st_mode) & Mode::from_raw_mode(0o777);
        let flags = REGULAR | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        Ok(File::from(fs::openat(&self.dir, name, flags, mode)?))
    }
}

/// Whether there was no space for what was to be written.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
