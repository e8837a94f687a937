//! The node's logs, as `/logs/` gives them: files and directories below `/var/log`.
//!
//! Invariant: nothing outside of that directory is read, whatever a path or a link says. A file is read as the client takes
//! it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use futures_lite::stream;
use hyper::body::Bytes;

use super::request::{Reply, Response};
use crate::host::open_below::open_below_any;

const ROOT: &str = "/var/log";
const CHUNK: usize = 64 * 1024;

enum OpenedLog {
    /// A file, and how much of it there was then.
    File(File, u64),
    /// A directory's page.
    Directory(String),
}

/// The reply for a path below the directory of logs.
pub(super) async fn system_log(path: String) -> Reply {
    if path.split('/').any(|part| part == "..") {
        return Response::text(400, "invalid URL path\n").into();
    }
    match smol::unblock(move || open(Path::new(ROOT), &path)).await {
        Ok(OpenedLog::Directory(page)) => Response::page("text/html; charset=utf-8", page).into(),
        Ok(OpenedLog::File(file, length)) => Reply::Streamed {
            content_type: "text/plain; charset=utf-8",
            chunks: Box::pin(stream::unfold((file, length), next_chunk)),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Response::text(404, "404 page not found\n").into()
        }
        Err(_) => Response::text(403, "403 Forbidden\n").into(),
    }
}

fn open(root: &Path, path: &str) -> io::Result<OpenedLog> {
    let file = open_below_any(root, &root.join(path.trim_matches('/')))?;
    let found = file.metadata()?;
    if found.is_file() {
        return Ok(OpenedLog::File(file, found.len()));
    }
    // By the directory that was opened, not by its name.
    let opened = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let mut names: Vec<_> = fs::read_dir(opened)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let slash = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
            Some(format!("{}{slash}", entry.file_name().to_str()?))
        })
        .collect();
    names.sort();
    let mut page =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in names {
        let link = percent_encoding::utf8_percent_encode(&name, LINK);
        let _ = writeln!(page, "<a href=\"{link}\">{}</a>", escape(&name));
    }
    page.push_str("</pre>\n");
    Ok(OpenedLog::Directory(page))
}

/// What a link to a name cannot hold as it is.
const LINK: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_').remove(b'/');

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

async fn next_chunk((mut file, left): (File, u64)) -> Option<(Bytes, (File, u64))> {
    let (file, read) = smol::unblock(move || {
        let mut chunk = vec![0; usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK))];
        let read = file.read(&mut chunk).map(|length| {
            chunk.truncate(length);
            chunk
        });
        (file, read)
    })
    .await;
    let chunk = read.ok().filter(|chunk| !chunk.is_empty())?;
    let left = left.saturating_sub(chunk.len() as u64);
    Some((chunk.into(), (file, left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_listed_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("log");
        fs::create_dir_all(root.join("pods")).unwrap();
        fs::write(root.join("a<b.log"), "text").unwrap();
        fs::write(directory.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(directory.path(), root.join("up")).unwrap();
        let OpenedLog::Directory(page) = open(&root, "").unwrap() else { panic!("the root is a directory") };
        assert!(page.contains("<a href=\"a%3Cb.log\">a&lt;b.log</a>\n"), "{page}");
        assert!(page.contains("<a href=\"pods/\">pods/</a>\n"), "{page}");
        assert!(matches!(open(&root, "a<b.log"), Ok(OpenedLog::File(_, 4))));
        assert!(matches!(open(&root, "pods/"), Ok(OpenedLog::Directory(_))));
        for path in ["up/secret", "../secret", "pods/../../secret", "/etc/passwd", "none"] {
            assert!(open(&root, path).is_err(), "{path}");
        }
    }
}
