//! Waits for changes of the machine's links, addresses or routes: a server may be reachable after one.
//!
//! Open only while requests fail, so that it costs nothing at other times.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use smol::Async;

/// The groups of rtnetlink(7), as a mask: links, and addresses and routes of both families.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// A subscription to the kernel's notices.
#[derive(Debug)]
pub(super) struct Network(Async<OwnedFd>);

impl Network {
    /// Subscribes. What changes from now on is not missed.
    pub(super) fn open() -> std::io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self(Async::new(socket)?))
    }

    /// Waits for a change, and takes in all that is told of it. What exactly changed does not matter.
    pub(super) async fn changed(&self) -> std::io::Result<()> {
        self.0.readable().await?;
        let mut notice = [0; 8192];
        loop {
            match recv(&self.0, &mut notice, RecvFlags::DONTWAIT) {
                // Also where some notices were lost.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
