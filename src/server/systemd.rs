//! The service manager: readiness, status and watchdog over `$NOTIFY_SOCKET` (see sd_notify(3)).
//!
//! Owns the datagram socket. Invariant: a service manager that is absent, slow or gone costs an error value,
//! never a wait. Must not: decide when the agent is ready or alive; the sync loop knows that.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Why the service manager was not told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotifyError {
    /// `$NOTIFY_SOCKET` is no address.
    #[error("NOTIFY_SOCKET={address:?} is neither an absolute path nor an abstract name")]
    Address {
        /// The variable's value.
        address: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// No socket of our own.
    #[error("cannot open a datagram socket for the service manager")]
    Socket(#[source] io::Error),
    /// The message did not go.
    #[error("cannot send {message:?} to the service manager")]
    Send {
        /// The message.
        message: String,
        /// Why not.
        source: io::Error,
    },
}

/// The way to the service manager.
#[derive(Debug)]
pub(crate) struct Notifier {
    socket: UnixDatagram,
    manager: SocketAddr,
}

impl Notifier {
    /// The way that the environment names; `None` where no service manager asks to be told.
    pub(crate) fn from_env() -> Result<Option<Self>, NotifyError> {
        env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()).map(|a| Self::new(&a)).transpose()
    }

    /// The way to `address`: an absolute path, or `@` and an abstract name.
    pub(crate) fn new(address: &OsStr) -> Result<Self, NotifyError> {
        let manager = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            [b'/', ..] => SocketAddr::from_pathname(address),
            _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
        .map_err(|source| NotifyError::Address { address: address.to_string_lossy().into_owned(), source })?;
        let socket = UnixDatagram::unbound().map_err(NotifyError::Socket)?;
        // The sync loop feeds the watchdog: it must not wait for a manager whose queue is full.
        socket.set_nonblocking(true).map_err(NotifyError::Socket)?;
        Ok(Self { socket, manager })
    }

    /// The agent is up. Sent once the sync loop turns, whether or not the container runtime answers.
    pub(crate) fn ready(&self) -> Result<(), NotifyError> {
        self.send("READY=1")
    }

    /// The agent is about to end.
    pub(crate) fn stopping(&self) -> Result<(), NotifyError> {
        self.send("STOPPING=1")
    }

    /// One line for `systemctl status`.
    pub(crate) fn status(&self, line: &str) -> Result<(), NotifyError> {
        // A line break would begin another assignment.
        self.send(&format!("STATUS={}", line.replace(['\n', '\r'], " ")))
    }

    /// The sync loop has turned.
    pub(crate) fn watchdog(&self) -> Result<(), NotifyError> {
        self.send("WATCHDOG=1")
    }

    fn send(&self, message: &str) -> Result<(), NotifyError> {
        self.socket
            .send_to_addr(message.as_bytes(), &self.manager)
            .map(drop)
            .map_err(|source| NotifyError::Send { message: message.to_owned(), source })
    }
}

/// How often [`Notifier::watchdog`] should be called: half of what the service manager allows, as
/// sd_watchdog_enabled(3) advises. `None` where there is no watchdog, or it watches another process.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    let usec = env::var("WATCHDOG_USEC").ok()?;
    interval(&usec, env::var("WATCHDOG_PID").ok().as_deref(), std::process::id())
}

fn interval(usec: &str, watched: Option<&str>, own: u32) -> Option<Duration> {
    if watched.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None;
    }
    let usec = usec.parse::<u64>().ok().filter(|usec| *usec > 0)?;
    Some(Duration::from_micros(usec) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    fn tells_everything(address: &OsStr, manager: &UnixDatagram) {
        let notifier = Notifier::new(address).unwrap();
        notifier.ready().unwrap();
        notifier.status("2 pods\nMAINPID=1\r").unwrap();
        notifier.watchdog().unwrap();
        notifier.stopping().unwrap();
        for expected in ["READY=1", "STATUS=2 pods MAINPID=1 ", "WATCHDOG=1", "STOPPING=1"] {
            assert_eq!(received(manager), expected);
        }
    }

    #[test]
    fn speaks_to_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        tells_everything(path.as_os_str(), &manager);
    }

    #[test]
    fn speaks_to_an_abstract_name() {
        let name = format!("rkubelet-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        tells_everything(OsStr::new(&format!("@{name}")), &manager);
    }

    #[test]
    fn a_manager_that_does_not_read_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let _manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::new(path.as_os_str()).unwrap();
        let refused = (0..100_000).find_map(|_| notifier.watchdog().err());
        let Some(NotifyError::Send { source, .. }) = refused else {
            panic!("the queue has an end: {refused:?}")
        };
        assert_eq!(source.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn bad_addresses() {
        for address in ["relative", "", "vsock:2:1"] {
            let error = Notifier::new(OsStr::new(address)).unwrap_err();
            assert!(matches!(error, NotifyError::Address { .. }), "{address:?}: {error}");
        }
        let gone = Notifier::new(OsStr::new("/nonexistent/notify")).unwrap();
        assert!(matches!(gone.ready().unwrap_err(), NotifyError::Send { .. }));
    }

    #[test]
    fn intervals() {
        for (usec, pid, expected) in [
            ("60000000", None, Some(Duration::from_secs(30))),
            ("60000000", Some("7"), Some(Duration::from_secs(30))),
            ("60000000", Some("8"), None),
            ("60000000", Some(""), None),
            ("0", None, None),
            ("-1", None, None),
            ("soon", Some("7"), None),
        ] {
            assert_eq!(interval(usec, pid, 7), expected, "{usec} {pid:?}");
        }
    }
}
