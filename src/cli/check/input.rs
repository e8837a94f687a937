//! What `rkubelet check` reads: the files, directories and pipes that its arguments name.
//!
//! Invariant: no argument makes it hang or fill the memory, stdin and pipes of the shell apart, which end when their
//! writer ends. It reads only; the caller decides what the bytes mean.

use std::collections::BTreeSet;
use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::pod::decode::MAX_MANIFEST;
use crate::source::dir::{is_manifest_name, read_regular};

/// Something to check: its name, and its bytes or why they could not be read.
pub(in crate::cli) type Input = (String, Result<Vec<u8>, String>);

/// Reads what the paths name; a directory stands for its manifests, `-` for stdin.
pub(in crate::cli) fn read(paths: &[PathBuf]) -> Vec<Input> {
    let mut seen = BTreeSet::new();
    let mut inputs = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            inputs.push(("-".to_owned(), read_whole(io::stdin())));
            continue;
        }
        let files = match list(path) {
            Ok(files) => files,
            Err(error) => {
                inputs.push((path.display().to_string(), Err(cannot_be_read(&error))));
                continue;
            }
        };
        for file in files {
            if seen.insert(entry_of(&file)) {
                inputs.push((file.display().to_string(), read_file(&file)));
            }
        }
    }
    inputs
}

/// The files that a path stands for.
fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if is_manifest_name(&entry.file_name().to_string_lossy()) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(file: &Path) -> Result<Vec<u8>, String> {
    let file_type = fs::metadata(file).map_err(|error| cannot_be_read(&error))?.file_type();
    if is_anonymous_pipe(file, file_type) {
        return File::open(file).map_err(|error| cannot_be_read(&error)).and_then(read_whole);
    }
    // Before it is opened: opening a device can have effects.
    if let Some(what) = name_of(file_type) {
        return Err(format!("is {what}, not a file"));
    }
    read_regular(file, MAX_MANIFEST).map(|(bytes, _)| bytes).map_err(|error| cannot_be_read(&error))
}

/// Whether this is `/dev/fd/N` of the shell's `<(command)`, or `/dev/stdin`: a pipe that has no name in a file system,
/// and that therefore has a writer.
fn is_anonymous_pipe(file: &Path, file_type: FileType) -> bool {
    file_type.is_fifo() && fs::canonicalize(file).is_err()
}

/// What an entry is that is no file.
fn name_of(file_type: FileType) -> Option<&'static str> {
    match file_type {
        _ if file_type.is_fifo() => Some("a FIFO"),
        _ if file_type.is_socket() => Some("a socket"),
        _ if file_type.is_char_device() || file_type.is_block_device() => Some("a device"),
        _ if file_type.is_dir() => Some("a directory"),
        _ => None,
    }
}

/// The directory's entry that a path means: a file that is named twice, or named beside its directory, is one file.
/// A link to it is another, as it is for the agent.
fn entry_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (fs::canonicalize(parent), file.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => file.to_owned(),
    }
}

fn read_whole(from: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    // One byte more than is allowed tells that it is too much.
    from.take(MAX_MANIFEST as u64 + 1).read_to_end(&mut bytes).map_err(|error| cannot_be_read(&error))?;
    Ok(bytes)
}

fn cannot_be_read(error: &io::Error) -> String {
    format!("cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_no_file_is_named_and_does_not_hang() {
        let directory = tempfile::tempdir().unwrap();
        let (fifo, socket) = (directory.path().join("a.yaml"), directory.path().join("b.yaml"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        fs::create_dir(directory.path().join("c.yaml")).unwrap();
        let named =
            |path: &Path, what: &str| (path.display().to_string(), Err(format!("is {what}, not a file")));
        assert_eq!(
            read(&[directory.path().to_owned()]),
            [
                named(&fifo, "a FIFO"),
                named(&socket, "a socket"),
                named(&directory.path().join("c.yaml"), "a directory")
            ]
        );
        let zero = PathBuf::from("/dev/zero");
        assert_eq!(read(&[fifo.clone(), zero.clone()]), [named(&fifo, "a FIFO"), named(&zero, "a device")]);
    }

    #[test]
    fn a_pipe_of_the_shell_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"kind: Pod").unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
        assert_eq!(
            read(std::slice::from_ref(&path)),
            [(path.display().to_string(), Ok(b"kind: Pod".to_vec()))]
        );
    }

    #[test]
    fn an_endless_file_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.yaml");
        fs::File::create(&file)
            .unwrap()
            .set_len(u64::MAX >> 2)
            .or_else(|_| {
                // The file system may have a smaller limit.
                fs::File::create(&file)?.set_len(1 << 40)
            })
            .unwrap();
        let inputs = read(&[file]);
        assert_eq!(inputs[0].1.as_ref().map(Vec::len), Ok(MAX_MANIFEST + 1));
    }
}
