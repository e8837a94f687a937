//! The logs of containers, as `/containerLogs` gives them.
//!
//! Owns the reading of log files for clients: from the place that was asked for, on through rotations, for as long as the
//! container runs and the client stays. Invariant: a chunk is read when the client has taken the one before, so that
//! nothing grows; a log at rest costs no wake-up. The runtime is not asked: a log can be read while it is away.

pub(crate) mod select;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_lite::{future, stream};
use hyper::body::Bytes;
use jiff::Timestamp;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use smol::{Async, Timer};

use super::Endpoints;
use super::request::{Reply, Request, Response};
use crate::host::open_below::open_below;
use crate::pod::state::{ContainerSummary, RunState};
use crate::pod::{ContainerId, PodName};
use crate::sync::published::{Published, ViewWatch};
use crate::sync::view::View;
use select::{Selection, Selector, TailSearch};

const CHUNK: usize = 64 * 1024;

/// How often a log is looked at where it cannot be watched.
const UNWATCHED: Duration = Duration::from_secs(1);

/// What is asked of the log of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogOptions {
    /// Go on with what is written from now on.
    pub follow: bool,
    /// The log of the container before.
    pub previous: bool,
    /// The last entries alone.
    pub tail: Option<u64>,
    /// What was written in the last seconds alone.
    pub since_seconds: Option<i64>,
    /// What else.
    pub selection: Selection,
}

impl LogOptions {
    /// The options that the request's parameters say.
    ///
    /// # Errors
    /// As kubelet refuses them.
    pub(crate) fn parse(request: &Request) -> Result<Self, Response> {
        let undecodable = || Response::text(400, "{\"message\": \"Unable to decode query.\"}");
        let invalid = || Response::text(422, "{\"message\": \"Invalid request.\"}");
        let flag = |name| request.parameter(name).is_some_and(|value| is_true(&value));
        let number = |name| {
            let text = request.parameter(name).filter(|text| !text.is_empty());
            text.map(|text| text.parse::<i64>().map_err(|_| undecodable())).transpose()
        };
        let tail = match request.parameter("tail").filter(|tail| !tail.is_empty()).as_deref() {
            Some("all") => None,
            Some(tail) => Some(tail.parse().map_err(|_| undecodable())?),
            None => number("tailLines")?,
        };
        let (limit, since_seconds) = (number("limitBytes")?, number("sinceSeconds")?);
        let since = request.parameter("sinceTime").filter(|text| !text.is_empty());
        let since = since.map(|text| text.parse().map_err(|_| undecodable())).transpose()?;
        let stream = match request.parameter("stream").as_deref() {
            None | Some("" | "All") => None,
            Some("Stdout") => Some("stdout"),
            Some("Stderr") => Some("stderr"),
            Some(_) => return Err(invalid()),
        };
        let is_invalid = limit.is_some_and(|limit| limit < 1)
            || since_seconds.is_some_and(|seconds| seconds < 1)
            || (since_seconds.is_some() && since.is_some())
            || (stream.is_some() && tail.is_some());
        if is_invalid {
            return Err(invalid());
        }
        let tail = tail.map(|tail: i64| u64::try_from(tail).map_err(|_| invalid())).transpose()?;
        let follow = flag("follow");
        Ok(Self {
            follow,
            previous: flag("previous"),
            tail,
            since_seconds,
            selection: Selection {
                since,
                timestamps: flag("timestamps"),
                limit_bytes: limit.and_then(|limit| u64::try_from(limit).ok()),
                limit_entries: tail.filter(|_| !follow),
                stream,
            },
        })
    }
}

/// As Kubernetes reads a parameter that is true or false.
pub(crate) fn is_true(text: &str) -> bool {
    !(text.is_empty() || text == "0" || text.eq_ignore_ascii_case("false"))
}

/// Which attempt of a container has the log that is asked for, and which container that was.
fn find_attempt(
    view: &View,
    pod: &PodName,
    container: &str,
    previous: bool,
) -> Result<(u32, Option<ContainerId>), Response> {
    let (shown, name) = (format!("{container:?}"), format!("{:?}", pod.name));
    let Some(found) = view.pods.get(pod) else {
        return Err(Response::text(404, format!("pod {name} does not exist")));
    };
    let spec = &found.pod.spec;
    let mut names = spec.containers.iter().chain(spec.init_containers.iter().flatten()).map(|c| &c.name);
    if !names.any(|name| name == container) {
        return Err(Response::text(404, format!("container {shown} not found in pod {name}")));
    }
    let summary = found.state.iter().flat_map(|state| state.all_containers()).find(|c| c.name == container);
    let refuse = |why: &str| Response::text(400, format!("container {shown} in pod {name} {why}"));
    let summary = summary.ok_or_else(|| refuse("is not available"))?;
    select_attempt(summary, previous).ok_or_else(|| match (&summary.state, previous) {
        (_, true) => {
            Response::text(400, format!("previous terminated container {shown} in pod {name} not found"))
        }
        (RunState::Waiting(waiting), _) => refuse(&format!("is waiting to start: {}", waiting.reason)),
        _ => refuse("is terminated"),
    })
}

/// The attempt of a container, and its id: the one that runs or has run last, or the one before.
fn select_attempt(summary: &ContainerSummary, previous: bool) -> Option<(u32, Option<ContainerId>)> {
    let last = u32::try_from(summary.restarts).unwrap_or(0);
    let before = summary.last_termination.as_ref().map(|ended| ended.id.clone());
    match (&summary.state, previous) {
        (RunState::Waiting(_), _) => before.map(|id| (last, id)),
        (RunState::Running { .. } | RunState::Terminated(_), false) => Some((last, summary.id().cloned())),
        (RunState::Running { .. } | RunState::Terminated(_), true) => {
            before.map(|id| (last.saturating_sub(1), id))
        }
    }
}

/// Whether a container still runs, as far as is known: what is not known may.
fn may_run(view: &View, pod: &PodName, container: &str, id: Option<&ContainerId>) -> bool {
    let Some(found) = view.pods.get(pod) else { return false };
    let Some(state) = &found.state else { return true };
    let summary = state.all_containers().find(|c| c.name == container);
    summary.is_some_and(|summary| summary.running_since().is_some() && summary.id() == id)
}

/// The reply to a request for a container's log.
pub(crate) async fn container_log(
    own: &Endpoints,
    pod: PodName,
    container: String,
    mut options: LogOptions,
) -> Reply {
    let view = own.view.load();
    let found = find_attempt(&view, &pod, &container, options.previous);
    let (attempt, id) = match found {
        Ok(found) => found,
        Err(response) => return response.into(),
    };
    if let Some(ago) = options.since_seconds.and_then(|seconds| u64::try_from(seconds).ok()) {
        options.selection.since = Timestamp::now().checked_sub(Duration::from_secs(ago)).ok();
    }
    let Some(uid) = view.pods.get(&pod).map(|found| found.pod.uid.clone()) else {
        return Response::text(404, format!("pod {:?} does not exist", pod.name)).into();
    };
    let path = own.dirs.log(&pod, &uid, &container, attempt);
    let root = own.dirs.pod_logs().to_owned();
    let follow = options.follow.then(|| Follow::new(own.view.clone(), pod, container, id, &path));
    let opened = smol::unblock(move || LogReader::open(root, path, options)).await;
    match opened {
        Ok(reader) => Reply::Streamed {
            content_type: "text/plain; charset=utf-8",
            chunks: Box::pin(stream::unfold((Some(reader), follow), next_chunk)),
        },
        Err(error) => Response::text(500, format!("cannot read the log: {error}\n")).into(),
    }
}

/// Where a reader is in a log.
struct LogReader {
    root: PathBuf,
    path: PathBuf,
    file: File,
    selector: Selector,
}

/// What came of a look at a log.
enum LogRead {
    /// This, for the client.
    Some(Vec<u8>),
    /// No more for now.
    End,
    /// No more, and the log goes on in another file, which is open now.
    Rotated,
}

impl LogReader {
    fn open(root: PathBuf, path: PathBuf, options: LogOptions) -> io::Result<Self> {
        let mut file = open_below(&root, &path)?;
        if let Some(entries) = options.tail {
            let start = find_tail(&mut file, entries)?;
            file.seek(SeekFrom::Start(start))?;
        }
        Ok(Self { root, path, file, selector: Selector::new(options.selection) })
    }

    /// Reads on. Blocking.
    fn read(&mut self, follows: bool) -> io::Result<LogRead> {
        if self.selector.is_done() {
            return Ok(LogRead::End);
        }
        // Before the end is seen: what was written until then is in the old file.
        let next = if follows { self.rotated() } else { None };
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = self.file.read(&mut chunk)?;
            if length == 0 {
                break;
            }
            let selected = self.selector.select(&chunk[..length]);
            if !selected.is_empty() {
                return Ok(LogRead::Some(selected));
            }
            if self.selector.is_done() {
                return Ok(LogRead::End);
            }
        }
        let Some(next) = next else { return Ok(LogRead::End) };
        self.file = next;
        self.selector.cut();
        Ok(LogRead::Rotated)
    }

    /// The file by the log's name, if it is another one by now.
    fn rotated(&self) -> Option<File> {
        let next = open_below(&self.root, &self.path).ok()?;
        let (own, there) = (self.file.metadata().ok()?, next.metadata().ok()?);
        ((own.ino(), own.dev()) != (there.ino(), there.dev())).then_some(next)
    }
}

/// Where the last entries of a file begin.
fn find_tail(file: &mut File, entries: u64) -> io::Result<u64> {
    let mut search = TailSearch::new(entries);
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = vec![0; CHUNK];
    while end > 0 {
        let length = end.min(CHUNK as u64);
        let start = end - length;
        file.seek(SeekFrom::Start(start))?;
        let block = &mut block[..usize::try_from(length).unwrap_or(CHUNK)];
        file.read_exact(block)?;
        if let Some(at) = search.search(block) {
            return Ok(start + at as u64);
        }
        end = start;
    }
    Ok(0)
}

/// Waits for more of a log.
struct Follow {
    view: Published,
    changes: ViewWatch,
    pod: PodName,
    container: String,
    id: Option<ContainerId>,
    /// The log's directory; none if it cannot be watched.
    watch: Option<Async<OwnedFd>>,
    /// The container has ended: what is there is read, and no more is waited for.
    has_ended: bool,
}

impl Follow {
    fn new(view: Published, pod: PodName, container: String, id: Option<ContainerId>, log: &Path) -> Self {
        let watch = watch_directory(log).inspect_err(|error| tracing::debug!(%error, "cannot watch a log"));
        Self { changes: view.watch(), view, pod, container, id, watch: watch.ok(), has_ended: false }
    }

    /// Waits until there may be more. False if there will not be.
    async fn more(&mut self) -> bool {
        if self.has_ended {
            return false;
        }
        if !may_run(&self.view.load(), &self.pod, &self.container, self.id.as_ref()) {
            self.has_ended = true;
            return true;
        }
        let written = async {
            match &self.watch {
                Some(watch) if watch.readable().await.is_ok() => drain(watch),
                _ => drop(Timer::after(UNWATCHED).await),
            }
        };
        future::or(written, self.changes.changed()).await;
        true
    }
}

/// Watches what is written and made beside a log.
fn watch_directory(log: &Path) -> io::Result<Async<OwnedFd>> {
    let directory = log.parent().ok_or(io::ErrorKind::NotFound)?;
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watch, directory, WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
    Async::new(watch)
}

/// Reads away what a watch has told.
fn drain(watch: &Async<OwnedFd>) {
    let mut buffer = [0; 4096];
    while rustix::io::read(watch.get_ref(), &mut buffer).is_ok_and(|length| length > 0) {}
}

type LogState = (Option<LogReader>, Option<Follow>);

async fn next_chunk((reader, mut follow): LogState) -> Option<(Bytes, LogState)> {
    let mut reader = reader?;
    loop {
        let follows = follow.is_some();
        let (back, read) = smol::unblock(move || {
            let read = reader.read(follows);
            (reader, read)
        })
        .await;
        reader = back;
        match read {
            Ok(LogRead::Some(bytes)) => return Some((bytes.into(), (Some(reader), follow))),
            Ok(LogRead::Rotated) => {}
            Ok(LogRead::End) if reader.selector.is_done() => return None,
            Ok(LogRead::End) => {
                let Some(follow) = &mut follow else { return None };
                if !follow.more().await {
                    return None;
                }
            }
            Err(error) => {
                tracing::debug!(%error, path = %reader.path.display(), "cannot read a log on");
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
