//! A raw socket for ICMP over IPv4 (raw(7)). It needs CAP_NET_RAW, which programs of a virtual host have.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto, socket_with};

/// The socket. It receives every ICMP message that arrives in its network namespace.
#[derive(Debug)]
pub struct IcmpSocket(OwnedFd);

impl IcmpSocket {
    /// Opens it.
    ///
    /// # Errors
    /// `EPERM`: the process lacks CAP_NET_RAW.
    pub fn open() -> io::Result<IcmpSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(IcmpSocket(socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::ICMP))?))
    }

    /// Sends an ICMP message; the kernel writes the IP header.
    ///
    /// # Errors
    /// `ENETUNREACH` and the like: no interface leads there.
    pub fn send(&self, to: Ipv4Addr, message: &[u8]) -> io::Result<()> {
        sendto(&self.0, message, SendFlags::empty(), &SocketAddrV4::new(to, 0))?;
        Ok(())
    }

    /// Receives an IP packet with its header. `None`: none came within the time.
    ///
    /// # Errors
    /// The socket fails.
    pub fn recv(&self, buffer: &mut [u8], within: Duration) -> io::Result<Option<usize>> {
        let timeout = Timespec::try_from(within).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            polled => polled?,
        };
        match recv(&self.0, buffer, RecvFlags::empty()) {
            Ok((length, _)) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
