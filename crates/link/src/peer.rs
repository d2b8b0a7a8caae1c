//! A flow's own socket, connected to where the flow goes: sends over it cost the kernel less. A flow earns one by use;
//! one that goes wrong in any way is given up for the shared sockets, which need no more than a route.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_sys::udp::{self, Path};
use weft_sys::{fork, roce_port};
use weft_wire::icrc::Flow;

use crate::seal::Seeds;
use crate::sockets::SEND_BUFFER_BYTES;

/// Messages after which the kernel is asked again how it numbers them: whatever else may touch the count, a wrong one
/// must not last, because a peer drops packets with a wrong ICRC.
const MESSAGES_TRUSTED: u32 = 1 << 14;

/// The socket.
#[derive(Debug)]
pub struct PeerSocket {
    fd: OwnedFd,
    src: IpAddr,
    /// Its source port.
    pub port: u16,
    /// Whether the kernel may be asked to cut (UDP_SEGMENT).
    pub segments: bool,
    /// Seeds of its packets' ICRC.
    pub seeds: Seeds,
    /// IPv4's identification of the next message.
    next_id: u16,
    messages: u32,
}

impl PeerSocket {
    /// One for `path`.
    ///
    /// # Errors
    /// There is no way, or the kernel does not tell how it numbers packets.
    pub fn open(path: &Path, segments: bool, entropy: u32) -> io::Result<PeerSocket> {
        let (fd, port) = udp::connected(path, entropy)?;
        roce_port::enlarge_send_buffer(&fd, SEND_BUFFER_BYTES);
        let covered = match (path.src, path.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Flow::V4 { src, dst, sport: port },
            (IpAddr::V6(src), IpAddr::V6(dst)) => Flow::V6 { src, dst, sport: port },
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let seeds = Seeds::new(covered);
        let mut socket = PeerSocket { fd, src: path.src, port, segments, seeds, next_id: 0, messages: 0 };
        socket.next_id = socket.ask()?;
        fork::track(&socket.fd);
        Ok(socket)
    }

    /// IPv4's identification of the first packet of the message that is the `nth` from now on.
    #[inline]
    pub fn ip_id(&self, nth: usize) -> u16 {
        self.next_id.wrapping_add(nth as u16)
    }

    /// The kernel took that many messages.
    ///
    /// # Errors
    /// It numbers them otherwise than was thought.
    #[inline]
    pub fn on_sent(&mut self, messages: usize) -> io::Result<()> {
        self.next_id = self.ip_id(messages);
        self.messages += messages as u32;
        if self.messages < MESSAGES_TRUSTED {
            return Ok(());
        }
        self.messages = 0;
        let thought = self.next_id;
        self.next_id = self.ask()?;
        // The question took one itself.
        let right = thought.wrapping_add(1) == self.next_id || matches!(self.src, IpAddr::V6(_));
        if right { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn ask(&self) -> io::Result<u16> {
        match self.src {
            IpAddr::V4(src) => udp::identification(&self.fd, src),
            IpAddr::V6(_) => Ok(0),
        }
    }
}

impl Drop for PeerSocket {
    fn drop(&mut self) {
        fork::forget(&self.fd);
    }
}

impl AsFd for PeerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
