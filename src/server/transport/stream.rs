//! The bytes of a connection, whichever way they come, and how long the other side has not taken any.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

use super::slots::Slot;

/// How long a client may take nothing of a whole response.
const STALL: Duration = Duration::from_secs(20);

/// A connection's bytes. One type for all kinds, so that the code that serves them exists once.
pub(super) enum PortStream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// The unix socket.
    Unix(UnixStream),
}

impl AsyncRead for PortStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            PortStream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            PortStream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            PortStream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            PortStream::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            PortStream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            PortStream::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            PortStream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            PortStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            PortStream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            PortStream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            PortStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            PortStream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A connection that tells its slot when the client takes nothing, and gives up on one that does so for too long.
pub(super) struct WatchedStream {
    stream: PortStream,
    slot: Arc<Slot>,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl WatchedStream {
    /// A connection in this slot.
    pub(super) fn new(stream: PortStream, slot: Arc<Slot>) -> Self {
        Self { stream, slot, stalled: None }
    }

    /// Notes how a write went, and ends one that waits for too long.
    fn note<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stalled.take().is_some() {
                self.slot.set_blocked(false);
            }
            return written;
        }
        if self.stalled.is_none() {
            self.slot.set_blocked(true);
            self.stalled = Some(Box::pin(sleep(STALL)));
        }
        // Whoever follows a log may look at a page of it for as long as nobody else needs the slot.
        if let Some(stalled) = &mut self.stalled
            && !self.slot.is_streaming()
            && stalled.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
