//! The transports: HTTP/1 over TCP, TLS and the unix socket, by hyper, on the tokio thread.
//!
//! Owns the listening sockets and their connections. Invariant: a client can cost one slot of its own port, and
//! nothing else: no thread, no panic, no unbounded memory. Must not: know a path, or compute a page: the tokio thread
//! moves bytes.
//!
//! The unix socket is served by hyper too, and not by tiny_http: tiny_http accepts by itself, so that nobody can ask the
//! kernel who connected; its loop ends for good at the first failed accept (a process out of descriptors has many),
//! and reads heads without a limit.

mod body;
mod connection;
mod slots;
mod socket;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl};
use tokio::task::JoinHandle;

use super::Endpoints;
use super::request::{Peer, Port};
use super::tls::ServerTls;
use crate::http::Reactor;
use connection::{Connections, serve};
use stream::PortStream;

pub(crate) use socket::remove_socket;

/// The pause after a failed accept: descriptors may have run out, and come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Why a port is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The address is taken, or is not ours.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {}", path.display())]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody listens there.
    #[error("another process listens on {}", path.display())]
    SocketTaken {
        /// The socket's path.
        path: PathBuf,
    },
}

/// A port that is served until this is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    name: String,
    task: JoinHandle<()>,
}

impl Listening {
    /// The address or path, with the port that the kernel chose if none was asked for.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The address, of a port that has one.
    #[cfg(test)]
    pub(crate) fn address(&self) -> SocketAddr {
        self.name.parse().unwrap()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where connections come from.
enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<(PortStream, Peer)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((PortStream::Tcp(stream), Peer::Network(address)))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                // As the kernel noted it when the other side connected.
                let uid = stream.peer_cred()?.uid();
                Ok((PortStream::Unix(stream), Peer::Local { uid }))
            }
        }
    }
}

/// Listens on an address, with TLS if there is any, and serves `endpoints` there.
pub(crate) fn listen_on_address(
    reactor: &Reactor,
    port: Port,
    address: SocketAddr,
    tls: Option<Arc<ServerTls>>,
    endpoints: Endpoints,
) -> Result<Listening, ServerError> {
    let bind = |source| ServerError::Bind { address, source };
    let listener = std::net::TcpListener::bind(address).map_err(bind)?;
    keep_alive(&listener).map_err(bind)?;
    listener.set_nonblocking(true).map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let _entered = reactor.enter();
    let listener = Listener::Tcp(tokio::net::TcpListener::from_std(listener).map_err(bind)?);
    let task = reactor.spawn(run(reactor.clone(), listener, port, tls, endpoints));
    Ok(Listening { name: address.to_string(), task })
}

/// Listens on the unix socket at `path`, which only the agent's own user and root may use, and serves `endpoints` there.
pub(crate) fn listen_on_socket(
    reactor: &Reactor,
    path: &Path,
    endpoints: Endpoints,
) -> Result<Listening, ServerError> {
    let failed = |source| ServerError::Socket { path: path.to_owned(), source };
    let listener = socket::bind(path)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let _entered = reactor.enter();
    let listener = Listener::Unix(tokio::net::UnixListener::from_std(listener).map_err(failed)?);
    let task = reactor.spawn(run(reactor.clone(), listener, Port::Socket, None, endpoints));
    Ok(Listening { name: path.display().to_string(), task })
}

/// Accepts for ever.
async fn run(
    reactor: Reactor,
    listener: Listener,
    port: Port,
    tls: Option<Arc<ServerTls>>,
    endpoints: Endpoints,
) {
    let connections = Arc::new(Connections::new(reactor.clone(), port, tls, endpoints));
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let slot = connections.slots.take().await;
                reactor.spawn(serve(stream, peer, slot, connections.clone()));
            }
            // The client's fault: it went before we came.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(?port, %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// How often the kernel asks a client of whom nothing is heard.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Has the kernel end connections whose clients vanished: one without traffic would hold its slot for ever. Connections have
/// it from their listener.
fn keep_alive(listener: &std::net::TcpListener) -> io::Result<()> {
    set_socket_keepalive(listener, true)?;
    set_tcp_keepidle(listener, KEEP_ALIVE)?;
    Ok(set_tcp_keepintvl(listener, KEEP_ALIVE)?)
}

#[cfg(test)]
mod tests;
