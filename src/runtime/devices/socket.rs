//! The socket at which device plugins register: made, and served. What is said there is read by [`Conversation`].

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::{AsyncReadExt, AsyncWriteExt};
use smol::Async;
use tracing::{debug, info, warn};

use super::DevicePlugins;
use super::registration::Conversation;
use crate::host::files::{FileError, make_dir, on};
use crate::runtime::cri::proto::device_plugin::RegisterRequest;
use crate::sync::handles::Handles;
use crate::time::within::within;

/// How long a plugin may take to register, and keep its connection.
const CONNECTION_LIMIT: Duration = Duration::from_secs(60);

const SOCKET: &str = "kubelet.sock";

/// Makes the socket anew: plugins see that, and register again. Blocking.
pub(super) fn open(dir: &Path) -> Result<Async<UnixListener>, FileError> {
    make_dir(dir, 0o750)?;
    remove_sockets(dir);
    let path = dir.join(SOCKET);
    Async::<UnixListener>::bind(&path).map_err(on("cannot listen at", &path))
}

/// Serves plugins for as long as the socket does.
pub(super) async fn accept(
    plugins: &Arc<DevicePlugins>,
    listener: &Async<UnixListener>,
    handles: &Handles,
) -> io::Error {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => handles.spawn(serve(plugins.clone(), stream, handles.clone())),
            Err(error) => return error,
        }
    }
}

/// Serves one connection until its peer closes it.
async fn serve(plugins: Arc<DevicePlugins>, mut stream: Async<UnixStream>, handles: Handles) {
    let mut talk = Conversation::new();
    let served = async {
        let mut bytes = [0; 2048];
        loop {
            stream.write_all(&talk.take_answers()).await?;
            let length = stream.read(&mut bytes).await?;
            if length == 0 {
                return Ok::<_, io::Error>(());
            }
            for asked in talk.read(bytes.get(..length).unwrap_or_default()).map_err(io::Error::other)? {
                let answer = register(&plugins, asked.request.as_ref(), &handles).await;
                talk.answer(&asked, answer);
            }
        }
    };
    // gRPC connects anew where a plugin has more to say.
    match within(CONNECTION_LIMIT, served).await {
        Some(Ok(())) => {}
        Some(Err(error)) => debug!(%error, "a device plugin broke its connection off"),
        None => debug!("a device plugin kept its connection open for too long"),
    }
}

async fn register(
    plugins: &Arc<DevicePlugins>,
    request: Result<&RegisterRequest, &String>,
    handles: &Handles,
) -> Result<(), String> {
    let connected = match request {
        Ok(request) => plugins.connect(request).await.map(|known| (request, known)),
        Err(reason) => Err(reason.clone()),
    };
    match connected {
        Ok((request, known)) => {
            let (resource, endpoint) = (request.resource_name.clone(), &request.endpoint);
            info!(resource, endpoint, "a device plugin has registered");
            handles.spawn(plugins.clone().follow(resource, known, handles.clone()));
            Ok(())
        }
        Err(error) => {
            warn!(error, "a device plugin is refused");
            Err(error)
        }
    }
}

/// What an earlier agent and its plugins listened at, as kubelet removes it. What is no socket stays.
fn remove_sockets(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_socket())
            && let Err(error) = fs::remove_file(entry.path())
        {
            warn!(path = %entry.path().display(), %error, "cannot remove a socket");
        }
    }
}
