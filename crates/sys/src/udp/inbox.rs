//! Received messages, with the C structures of recvmmsg.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use super::{HOP_LIMIT_DEFAULT, Incoming, RECEIVE_BYTES_MAX, calls};
use crate::many;

const UDP_GRO: i32 = 104;
/// Room for the control messages of one receive, in 8-byte words (cmsghdr must be aligned).
const CONTROL_WORDS: usize = 24;
/// Room for a `sockaddr_in6`, in words.
const NAME_WORDS: usize = 4;
/// The longest message that [`Inbox::peek`] returns.
pub const PEEK_BYTES_MAX: usize = 128;

/// A received datagram, or several of one sender that the kernel merged.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The bytes of all segments.
    pub bytes: &'a [u8],
    /// Length of each segment but the last, which may be shorter.
    pub segment: usize,
    /// Source address.
    pub src: IpAddr,
    /// Source port.
    pub sport: u16,
    /// Destination address in the packet.
    pub dst: IpAddr,
    /// Incoming interface, 0 if unknown.
    pub ifindex: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

/// Reusable receive buffers. Only data of that length touches their pages.
pub struct Inbox {
    data: Box<[u8]>,
    names: Box<[[u64; NAME_WORDS]]>,
    controls: Box<[[u64; CONTROL_WORDS]]>,
    pieces: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the raw pointers point into boxes of the other fields, and only the kernel follows them.
unsafe impl Send for Inbox {}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("buffers", &self.headers.len()).finish()
    }
}

impl Inbox {
    /// Creates this many buffers of [`RECEIVE_BYTES_MAX`] bytes.
    pub fn new(buffers: usize) -> Inbox {
        let mut data = vec![0u8; buffers * RECEIVE_BYTES_MAX].into_boxed_slice();
        let mut names = vec![[0u64; NAME_WORDS]; buffers].into_boxed_slice();
        let mut controls = vec![[0u64; CONTROL_WORDS]; buffers].into_boxed_slice();
        let mut pieces: Box<[libc::iovec]> = data
            .chunks_mut(RECEIVE_BYTES_MAX)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() })
            .collect();
        let headers = (0..buffers)
            .map(|i| {
                // SAFETY: mmsghdr is plain data; zero is a valid value for each field.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_name = names[i].as_mut_ptr().cast();
                header.msg_hdr.msg_iov = &raw mut pieces[i];
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = controls[i].as_mut_ptr().cast();
                header
            })
            .collect();
        Inbox { data, names, controls, pieces, headers }
    }

    /// Returns the number of buffers.
    pub fn buffers(&self) -> usize {
        self.headers.len()
    }

    /// Receives at most `limit` waiting messages without sleeping; returns their number, 0 if there are none.
    #[inline]
    pub fn receive(&mut self, fd: impl AsFd, limit: usize) -> io::Result<usize> {
        let limit = limit.clamp(1, self.headers.len());
        for (header, name) in self.headers[..limit].iter_mut().zip(&mut self.names) {
            header.msg_hdr.msg_name = name.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = (NAME_WORDS * 8) as u32;
        }
        self.fill(fd.as_fd().as_raw_fd(), limit)
    }

    /// Receives from a socket that takes one flow, whose addresses are known.
    #[inline]
    pub fn receive_flow(&mut self, fd: impl AsFd, limit: usize) -> io::Result<usize> {
        let limit = limit.clamp(1, self.headers.len());
        for header in &mut self.headers[..limit] {
            header.msg_hdr.msg_name = std::ptr::null_mut();
            header.msg_hdr.msg_namelen = 0;
        }
        self.fill(fd.as_fd().as_raw_fd(), limit)
    }

    /// Peeks at the first waiting message of a socket that takes one flow, by the cheapest call, which does not report
    /// the segment boundaries of a merged message. Returns its length, or `None` if none waits; a message of up to
    /// [`PEEK_BYTES_MAX`] bytes is then in the first buffer.
    #[inline]
    pub fn peek(&mut self, fd: impl AsFd) -> io::Result<Option<usize>> {
        const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_TRUNC;
        let header = &mut self.headers[0];
        header.msg_hdr.msg_controllen = 0;
        header.msg_hdr.msg_flags = 0;
        // SAFETY: the first buffer is longer than that, and `self` is borrowed mutably.
        let n = unsafe { calls::recv(fd.as_fd().as_raw_fd(), self.data.as_mut_ptr(), PEEK_BYTES_MAX, FLAGS) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        header.msg_len = n as u32;
        if n as usize > PEEK_BYTES_MAX {
            (header.msg_len, header.msg_hdr.msg_flags) = (0, libc::MSG_TRUNC);
        }
        Ok(Some(n as usize))
    }

    /// Removes the message that [`Inbox::peek`] returned. A pending socket error comes first, and does not count as the
    /// message.
    #[inline]
    pub fn take_peeked(&mut self, fd: impl AsFd) {
        const ERRORS_MAX: usize = 16;
        for _ in 0..ERRORS_MAX {
            // SAFETY: nothing is written.
            let n = unsafe { calls::recv(fd.as_fd().as_raw_fd(), self.data.as_mut_ptr(), 0, libc::MSG_DONTWAIT) };
            if n >= 0 || io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
                return;
            }
        }
    }

    #[inline]
    fn fill(&mut self, fd: i32, limit: usize) -> io::Result<usize> {
        for header in &mut self.headers[..limit] {
            header.msg_hdr.msg_controllen = (CONTROL_WORDS * 8) as _;
        }
        loop {
            // SAFETY: each header points to a name, a control block and a piece of the stated lengths, all owned by
            // `self` in boxes that never move; `self` is borrowed mutably, so no other code accesses them.
            let n = unsafe {
                if limit == 1 {
                    let n = calls::recvmsg(fd, &raw mut self.headers[0].msg_hdr, libc::MSG_DONTWAIT);
                    if n >= 0 {
                        self.headers[0].msg_len = n as u32;
                        1
                    } else {
                        -1
                    }
                } else {
                    many::receive(fd, self.headers.as_mut_ptr(), limit as u32, libc::MSG_DONTWAIT)
                }
            };
            if n >= 0 {
                return Ok(n as usize);
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(0),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
    }

    /// Returns the last received message in buffer `index`; `None` if it is not an IP datagram or was truncated.
    pub fn message(&self, index: usize) -> Option<Received<'_>> {
        let header = self.headers.get(index)?;
        let (src, sport) = address(self.names.get(index)?, header.msg_hdr.msg_namelen as usize)?;
        let (received, known) = self.described(index, &Incoming { src, sport, dst: src, ifindex: 0 })?;
        known.then_some(received)
    }

    /// Returns the message that [`Inbox::receive_flow`] put into buffer `index`; `None` if it was truncated.
    #[inline]
    pub fn message_of(&self, index: usize, flow: &Incoming) -> Option<Received<'_>> {
        Some(self.described(index, flow)?.0)
    }

    /// Returns the message in a buffer, and whether control messages reported its destination.
    #[inline]
    fn described(&self, index: usize, flow: &Incoming) -> Option<(Received<'_>, bool)> {
        let header = self.headers.get(index)?;
        if header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return None;
        }
        let start = index * RECEIVE_BYTES_MAX;
        let bytes = self.data.get(start..start + header.msg_len as usize)?;
        let Incoming { src, sport, dst, ifindex } = *flow;
        let (traffic_class, hop_limit) = (0, HOP_LIMIT_DEFAULT);
        let mut received = Received { bytes, segment: bytes.len(), src, sport, dst, ifindex, traffic_class, hop_limit };
        let mut known = false;
        each_control(self.controls.get(index)?, header.msg_hdr.msg_controllen, |c| {
            known |= c.apply(&mut received);
        });
        Some((received, known))
    }

    /// Returns the length of all pieces, a use that shows the compiler that they stay alive.
    #[doc(hidden)]
    pub fn capacity_bytes(&self) -> usize {
        self.pieces.iter().map(|p| p.iov_len).sum()
    }
}

fn bytes_of<const N: usize>(words: &[u64; N]) -> &[u8] {
    // SAFETY: N words are N * 8 initialised bytes, and a byte has no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), N * 8) }
}

fn address(words: &[u64; NAME_WORDS], len: usize) -> Option<(IpAddr, u16)> {
    let b = bytes_of(words);
    let b = b.get(..len.min(b.len()))?;
    let family = u16::from_ne_bytes(*b.first_chunk()?);
    let port = u16::from_be_bytes(*b.get(2..)?.first_chunk()?);
    match i32::from(family) {
        libc::AF_INET => Some((Ipv4Addr::from(*b.get(4..)?.first_chunk::<4>()?).into(), port)),
        libc::AF_INET6 => Some((Ipv6Addr::from(*b.get(8..)?.first_chunk::<16>()?).into(), port)),
        _ => None,
    }
}

struct ControlMessage<'a> {
    level: i32,
    kind: i32,
    data: &'a [u8],
}

impl ControlMessage<'_> {
    fn int(&self) -> Option<i32> {
        Some(i32::from_ne_bytes(*self.data.first_chunk()?))
    }

    /// Applies a control message; returns true if it reported the destination.
    fn apply(&self, to: &mut Received<'_>) -> bool {
        match (self.level, self.kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                if let Some(d) = self.data.first_chunk::<12>() {
                    to.ifindex = u32::from_ne_bytes([d[0], d[1], d[2], d[3]]);
                    to.dst = Ipv4Addr::new(d[8], d[9], d[10], d[11]).into();
                    return true;
                }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                if let (Some(ip), Some(index)) =
                    (self.data.first_chunk::<16>(), self.data.get(16..).and_then(|d| d.first_chunk::<4>()))
                {
                    to.dst = Ipv6Addr::from(*ip).into();
                    to.ifindex = u32::from_ne_bytes(*index);
                    return true;
                }
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                to.traffic_class = self.data.first().copied().unwrap_or(0);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                to.traffic_class = self.int().unwrap_or(0) as u8;
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                to.hop_limit = self.int().unwrap_or(0) as u8;
            }
            (libc::IPPROTO_UDP, UDP_GRO) => {
                if let Some(size @ 1..) = self.int() {
                    to.segment = size as usize;
                }
            }
            _ => {}
        }
        false
    }
}

fn each_control(words: &[u64; CONTROL_WORDS], len: usize, mut each: impl FnMut(&ControlMessage<'_>)) {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let all = bytes_of(words);
    let mut rest = all.get(..len.min(all.len())).unwrap_or_default();
    while let Some(head) = rest.first_chunk::<HEADER>() {
        // cmsghdr: a size_t, then two ints.
        let (size, ints) = head.split_at(size_of::<usize>());
        let size = usize::from_ne_bytes(size.try_into().unwrap_or_default());
        let int =
            |at: usize| i32::from_ne_bytes(ints.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or_default());
        let Some(data) = rest.get(HEADER..size) else {
            break;
        };
        each(&ControlMessage { level: int(0), kind: int(4), data });
        rest = rest.get(size.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn what_is_looked_at_stays_until_it_is_taken() {
        let [a, b] = [(); 2].map(|()| UdpSocket::bind(("127.0.0.1", 0)).unwrap());
        b.connect(a.local_addr().unwrap()).unwrap();
        let mut inbox = Inbox::new(1);
        assert_eq!(inbox.peek(&b).unwrap(), None);
        for (byte, len) in [(1u8, 20), (2, PEEK_BYTES_MAX), (3, PEEK_BYTES_MAX + 1)] {
            a.send_to(&vec![byte; len], b.local_addr().unwrap()).unwrap();
        }
        let flow = Incoming { src: [127, 0, 0, 1].into(), sport: 1, dst: [127, 0, 0, 1].into(), ifindex: 0 };
        for (byte, len) in [(1u8, 20), (2, PEEK_BYTES_MAX)] {
            for _ in 0..2 {
                assert_eq!(inbox.peek(&b).unwrap(), Some(len));
                assert_eq!(inbox.message_of(0, &flow).unwrap().bytes, vec![byte; len]);
            }
            inbox.take_peeked(&b);
        }
        assert_eq!(inbox.peek(&b).unwrap(), Some(PEEK_BYTES_MAX + 1));
        assert!(inbox.message_of(0, &flow).is_none(), "it was not read whole");
        assert_eq!(inbox.receive_flow(&b, 1).unwrap(), 1);
        assert_eq!(inbox.message_of(0, &flow).unwrap().bytes, vec![3; PEEK_BYTES_MAX + 1]);
        assert_eq!(inbox.peek(&b).unwrap(), None);
        // A pending error of the socket does not count as the message.
        a.send_to(&[4], b.local_addr().unwrap()).unwrap();
        assert_eq!(inbox.peek(&b).unwrap(), Some(1));
        drop(a);
        let _ = b.send(&[0]);
        inbox.take_peeked(&b);
        assert_eq!(inbox.peek(&b).unwrap_or(None), None);
    }
}
