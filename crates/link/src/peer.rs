//! A flow's own socket, connected to the flow's destination: sends on it cost the kernel less. A flow earns one by use.
//! If the socket fails in any way, the flow returns to the shared sockets, which need no more than a route.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_sys::udp::{self, Path};
use weft_sys::{fork, roce_port};
use weft_wire::icrc::Flow;

use crate::run::Run;
use crate::seal::Seeds;
use crate::sockets::SEND_BUFFER_BYTES;

/// Messages after which the kernel is asked again how it numbers them: another user of the counter may change it, and a
/// wrong number must not last, because a peer drops packets with a wrong ICRC.
const MESSAGES_TRUSTED: u32 = 1 << 14;

/// Messages with the same cut after which the socket option sets it once for all: the kernel takes time to read control
/// data with each message.
const CUTS_TO_TELL: u32 = 32;

/// The socket.
#[derive(Debug)]
pub struct PeerSocket {
    fd: OwnedFd,
    src: IpAddr,
    /// Its source port.
    pub port: u16,
    /// Whether to let the kernel cut (UDP_SEGMENT).
    pub segments: bool,
    /// ICRC seeds of its packets.
    pub seeds: Seeds,
    /// IPv4's identification of the next message.
    next_id: u16,
    messages: u32,
    /// The socket's own segment size; 0 if it does not cut.
    told: u16,
    /// The last segment size that differed from it, and how often.
    wanted: (u16, u32),
}

impl PeerSocket {
    /// Opens a socket for `path`.
    ///
    /// # Errors
    /// There is no route, or the kernel does not report how it numbers packets.
    pub fn open(path: &Path, segments: bool, entropy: u32) -> io::Result<PeerSocket> {
        let (fd, port) = udp::connected(path, entropy)?;
        roce_port::enlarge_send_buffer(&fd, SEND_BUFFER_BYTES);
        let covered = match (path.src, path.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Flow::V4 { src, dst, sport: port },
            (IpAddr::V6(src), IpAddr::V6(dst)) => Flow::V6 { src, dst, sport: port },
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let seeds = Seeds::new(covered);
        let mut socket =
            PeerSocket { fd, src: path.src, port, segments, seeds, next_id: 0, messages: 0, told: 0, wanted: (0, 0) };
        socket.next_id = socket.ask()?;
        fork::track(&socket.fd);
        Ok(socket)
    }

    /// Returns IPv4's identification of the first packet of the `nth` message from now on.
    #[inline]
    pub fn ip_id(&self, nth: usize) -> u16 {
        self.next_id.wrapping_add(nth as u16)
    }

    /// Returns the UDP_SEGMENT value for a message, if the socket would cut otherwise.
    #[inline]
    pub fn cut(&mut self, run: &Run) -> Option<u16> {
        let segment = run.segment();
        let fits = if segment == 0 { self.told == 0 || run.bytes() <= self.told.into() } else { segment == self.told };
        if fits {
            return None;
        }
        if segment != 0 {
            self.wanted = (segment, if self.wanted.0 == segment { self.wanted.1 + 1 } else { 1 });
        }
        Some(segment)
    }

    /// Makes the socket cut by default as the last messages asked for, if that is worthwhile. No message may wait for
    /// the hand-over: the kernel cuts it as the socket says then, not as it said when [`PeerSocket::cut`] was asked.
    #[inline]
    pub fn learn(&mut self) {
        if self.wanted.1 >= CUTS_TO_TELL {
            let (segment, _) = std::mem::take(&mut self.wanted);
            if udp::cut(&self.fd, segment).is_ok() {
                self.told = segment;
            }
        }
    }

    /// Records that the kernel took that many messages.
    ///
    /// # Errors
    /// The kernel numbers them differently than expected.
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
        // The query itself took one number.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_that_is_wanted_again_and_again_is_said_no_more() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let path = Path { src: here, dst: here, port: 9, ifindex: 0, traffic_class: 0, hop_limit: 64 };
        let mut peer = PeerSocket::open(&path, true, weft_sys::random::u64() as u32).unwrap();
        let run = |lens: &[usize]| {
            let mut run = Run::default();
            lens.iter().for_each(|&len| _ = run.add(len, 1));
            run
        };
        assert_eq!(peer.cut(&run(&[1000])), None, "nothing was said");
        for _ in 0..CUTS_TO_TELL {
            peer.learn();
            assert_eq!(peer.cut(&run(&[24, 20])), Some(24));
        }
        peer.learn();
        assert_eq!(peer.cut(&run(&[24, 20])), None);
        assert_eq!(peer.cut(&run(&[24])), None);
        assert_eq!(peer.cut(&run(&[28])), Some(0), "not to be cut");
        for _ in 0..2 * CUTS_TO_TELL {
            peer.learn();
            assert_eq!(peer.cut(&run(&[28, 28])).unwrap_or(28), 28);
            assert_eq!(peer.cut(&run(&[24, 24])).unwrap_or(24), 24);
        }
    }
}
