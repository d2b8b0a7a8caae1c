//! Datagrams by the hundred: gather lists cut into segments by the kernel (UDP_SEGMENT), receives that bring many
//! segments at once (UDP_GRO), with the addresses, traffic class and hop limit of each. An [`Outbox`] and an [`Inbox`]
//! keep the C structures of sendmmsg and recvmmsg, so that nothing is allocated on a packet's way.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::roce_port::Family;
use crate::sockopt::set_int;

/// Segments of one send: what every kernel with UDP_SEGMENT takes (newer ones take 128).
pub const SEGMENTS_MAX: usize = 64;
/// Bytes of one send, all segments together: the largest IPv4 datagram's payload.
pub const SEND_BYTES_MAX: usize = 65_507;
/// Pieces of one gather list (UIO_MAXIOV).
pub const PIECES_MAX: usize = 1024;
/// Bytes of one receive buffer: the largest datagram, and the most that UDP_GRO merges.
pub const RECEIVE_BYTES_MAX: usize = 65_536;
/// Bytes that an outbox can hold itself.
pub const STAGE_BYTES: usize = 128 << 10;
/// Messages that an outbox gathers at most.
pub const MESSAGES_MAX: usize = 64;
/// First source port of ours: the range that RoCE v2 senders use (and Linux's ephemeral range ends below its end).
pub const SOURCE_PORT_MIN: u16 = 49_152;
/// Hop limit that sockets start with.
pub const HOP_LIMIT_DEFAULT: u8 = 64;

const UDP_SEGMENT: i32 = 103;
const UDP_GRO: i32 = 104;
/// Room for the control messages of one send or receive, in 8-byte words (cmsghdr must be aligned).
const CONTROL_WORDS: usize = 24;
/// Room for a `sockaddr_in6`, in words.
const NAME_WORDS: usize = 4;

/// How a datagram travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Source address; must be one of this host.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Destination port.
    pub port: u16,
    /// Interface to leave by, 0 for the routing table's choice.
    pub ifindex: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

/// Makes a socket to send from: not connected, never fragmenting (so that IPv4's identification is 0, or the number of
/// the segment), bound to a source port of RoCE's range. Answers the port too. `entropy` chooses where to look first.
pub fn sender(family: Family, entropy: u32) -> io::Result<(OwnedFd, u16)> {
    const ATTEMPTS: u32 = 512;
    let domain = match family {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(domain, SocketType::DGRAM, flags, None)?;
    match family {
        Family::V4 => {
            set_int(&fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
            set_int(&fd, libc::IPPROTO_IP, libc::IP_TTL, HOP_LIMIT_DEFAULT.into())?;
            set_int(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, HOP_LIMIT_DEFAULT.into())?;
            set_int(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 1)?;
        }
        Family::V6 => {
            rustix::net::sockopt::set_ipv6_v6only(&fd, true)?;
            let level = libc::IPPROTO_IPV6;
            set_int(&fd, level, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
            set_int(&fd, level, libc::IPV6_UNICAST_HOPS, HOP_LIMIT_DEFAULT.into())?;
            set_int(&fd, level, libc::IPV6_MULTICAST_HOPS, HOP_LIMIT_DEFAULT.into())?;
            set_int(&fd, level, libc::IPV6_MULTICAST_LOOP, 1)?;
        }
    }
    let ports = u32::from(u16::MAX - SOURCE_PORT_MIN) + 1;
    for attempt in 0..ATTEMPTS {
        let port = SOURCE_PORT_MIN + (entropy.wrapping_add(attempt.wrapping_mul(7919)) % ports) as u16;
        let address: std::net::SocketAddr = match family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
        };
        match rustix::net::bind(&fd, &address) {
            Ok(()) => return Ok((fd, port)),
            Err(rustix::io::Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

#[derive(Clone, Copy)]
struct Name {
    words: [u64; NAME_WORDS],
    len: u32,
}

#[derive(Clone, Copy)]
struct Control {
    words: [u64; CONTROL_WORDS],
    len: usize,
}

#[derive(Clone, Copy)]
struct Message {
    pieces: (u32, u32),
    name: Name,
    control: Control,
}

/// Messages on their way to one socket. Bytes of our own stand in the stage; bytes of the program are named by address.
pub struct Outbox {
    stage: Box<[u8]>,
    staged: usize,
    pieces: Vec<libc::iovec>,
    /// First piece of the message under construction.
    open: usize,
    messages: Vec<Message>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers inside are the stage's (owned) and addresses that only the kernel follows.
unsafe impl Send for Outbox {}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("staged", &self.staged).field("messages", &self.messages.len()).finish()
    }
}

/// How far a hand-over came.
#[derive(Debug)]
pub struct Handed {
    /// Messages that the kernel took.
    pub messages: usize,
    /// Why the next one was not taken.
    pub error: Option<io::Error>,
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Outbox {
        Outbox {
            stage: vec![0; STAGE_BYTES].into_boxed_slice(),
            staged: 0,
            pieces: Vec::with_capacity(PIECES_MAX),
            open: 0,
            messages: Vec::with_capacity(MESSAGES_MAX),
            headers: Vec::with_capacity(MESSAGES_MAX),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.staged = 0;
        self.pieces.clear();
        self.open = 0;
        self.messages.clear();
    }

    /// Messages ended and not yet handed over.
    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Whether the message under construction can take this much more.
    pub fn has_room(&self, stage_bytes: usize, pieces: usize) -> bool {
        self.staged + stage_bytes <= self.stage.len()
            && self.pieces.len() - self.open + pieces <= PIECES_MAX
            && self.messages.len() < MESSAGES_MAX
    }

    /// Appends `len` bytes of the stage to the message under construction, to be filled by the caller.
    ///
    /// # Panics
    /// If there is no room: ask [`Outbox::has_room`] first.
    pub fn stage(&mut self, len: usize) -> &mut [u8] {
        let room = &mut self.stage[self.staged..self.staged + len];
        self.staged += len;
        let base: *mut u8 = room.as_mut_ptr();
        match self.pieces.get_mut(self.open..).and_then(|p| p.last_mut()) {
            Some(last) if last.iov_base.addr() + last.iov_len == base.addr() => last.iov_len += len,
            _ => self.pieces.push(libc::iovec { iov_base: base.cast(), iov_len: len }),
        }
        room
    }

    /// Appends memory of the program. The kernel checks the address when it reads.
    pub fn host(&mut self, addr: u64, len: usize) {
        self.pieces.push(libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(addr as usize), iov_len: len });
    }

    /// Ends the message: where it goes, and the length of its segments if the kernel shall cut it (0: it shall not).
    pub fn end(&mut self, path: &Path, segment: u16) {
        self.messages.push(Message {
            pieces: (self.open as u32, self.pieces.len() as u32),
            name: name_of(path),
            control: control_of(path, segment),
        });
        self.open = self.pieces.len();
    }

    /// Hands the messages to the kernel in order, until one is refused; then all are forgotten.
    pub fn hand_over(&mut self, fd: impl AsFd) -> Handed {
        let fd = fd.as_fd().as_raw_fd();
        self.headers.clear();
        for m in &mut self.messages {
            let (start, end) = (m.pieces.0 as usize, m.pieces.1 as usize);
            // SAFETY: msghdr is plain data; zero is a valid value for each field.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = m.name.words.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = m.name.len;
            header.msg_hdr.msg_iov = self.pieces[start..end].as_mut_ptr();
            header.msg_hdr.msg_iovlen = (end - start) as _;
            header.msg_hdr.msg_control = m.control.words.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = m.control.len as _;
            self.headers.push(header);
        }
        let mut done = 0;
        let mut error = None;
        while done < self.headers.len() {
            let rest = &mut self.headers[done..];
            // SAFETY: every header points at a name, a control block and pieces that `self` owns and that stay in place
            // until the call returns; what the pieces point at is the stage or is checked by the kernel (EFAULT).
            let n = unsafe {
                if rest.len() == 1 {
                    match libc::sendmsg(fd, &raw const rest[0].msg_hdr, libc::MSG_NOSIGNAL) {
                        -1 => -1,
                        _ => 1,
                    }
                } else {
                    libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as u32, libc::MSG_NOSIGNAL)
                }
            };
            if n > 0 {
                done += n as usize;
                continue;
            }
            let e = io::Error::last_os_error();
            if e.kind() != io::ErrorKind::Interrupted {
                error = Some(e);
                break;
            }
        }
        self.headers.clear();
        self.clear();
        Handed { messages: done, error }
    }
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new()
    }
}

fn name_of(path: &Path) -> Name {
    let mut name = Name { words: [0; NAME_WORDS], len: 0 };
    match path.dst {
        IpAddr::V4(ip) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: path.port.to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: `words` is larger than a sockaddr_in and better aligned.
            unsafe { name.words.as_mut_ptr().cast::<libc::sockaddr_in>().write(address) };
            name.len = size_of::<libc::sockaddr_in>() as u32;
        }
        IpAddr::V6(ip) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: path.port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                sin6_scope_id: path.ifindex,
            };
            // SAFETY: `words` is larger than a sockaddr_in6 and better aligned.
            unsafe { name.words.as_mut_ptr().cast::<libc::sockaddr_in6>().write(address) };
            name.len = size_of::<libc::sockaddr_in6>() as u32;
        }
    }
    name
}

impl Control {
    const EMPTY: Control = Control { words: [0; CONTROL_WORDS], len: 0 };

    fn put<T: Copy>(&mut self, level: i32, kind: i32, value: T) {
        let header = size_of::<libc::cmsghdr>();
        let space = (header + size_of::<T>()).next_multiple_of(size_of::<u64>());
        assert!(self.len + space <= CONTROL_WORDS * 8, "the control messages of a send are too many for their room");
        let at = self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.len);
        // SAFETY: cmsghdr is plain data; zero is a valid value for each field.
        let mut h: libc::cmsghdr = unsafe { std::mem::zeroed() };
        h.cmsg_len = (header + size_of::<T>()) as _;
        h.cmsg_level = level;
        h.cmsg_type = kind;
        // SAFETY: `at` is 8-byte aligned and `space` bytes of room follow it, as asserted.
        unsafe {
            at.cast::<libc::cmsghdr>().write(h);
            at.add(header).cast::<T>().write_unaligned(value);
        }
        self.len += space;
    }
}

fn control_of(path: &Path, segment: u16) -> Control {
    let mut c = Control::EMPTY;
    match path.src {
        IpAddr::V4(src) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: path.ifindex as i32,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from(src).to_be() },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            c.put(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            if path.traffic_class != 0 {
                c.put(libc::IPPROTO_IP, libc::IP_TOS, i32::from(path.traffic_class));
            }
            if path.hop_limit != HOP_LIMIT_DEFAULT {
                c.put(libc::IPPROTO_IP, libc::IP_TTL, i32::from(path.hop_limit.max(1)));
            }
        }
        IpAddr::V6(src) => {
            let info =
                libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: src.octets() }, ipi6_ifindex: path.ifindex };
            c.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            if path.traffic_class != 0 {
                c.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, i32::from(path.traffic_class));
            }
            if path.hop_limit != HOP_LIMIT_DEFAULT {
                c.put(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, i32::from(path.hop_limit));
            }
        }
    }
    if segment != 0 {
        c.put(libc::IPPROTO_UDP, UDP_SEGMENT, segment);
    }
    c
}

/// What came in one receive: a datagram, or several of one sender that the kernel merged.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The bytes, of all segments.
    pub bytes: &'a [u8],
    /// Length of each segment but the last, which may be shorter.
    pub segment: usize,
    /// Source address.
    pub src: IpAddr,
    /// Source port.
    pub sport: u16,
    /// Destination address as the packet had it.
    pub dst: IpAddr,
    /// Interface it came in by, 0 if unknown.
    pub ifindex: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

/// Buffers to receive into, used again and again. Pages are touched only when data comes that long.
pub struct Inbox {
    data: Box<[u8]>,
    names: Box<[[u64; NAME_WORDS]]>,
    controls: Box<[[u64; CONTROL_WORDS]]>,
    pieces: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the raw pointers inside point at the other fields' own boxes, and only the kernel follows them.
unsafe impl Send for Inbox {}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("buffers", &self.headers.len()).finish()
    }
}

impl Inbox {
    /// With this many buffers of [`RECEIVE_BYTES_MAX`] bytes.
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

    /// Buffers.
    pub fn buffers(&self) -> usize {
        self.headers.len()
    }

    /// Receives what waits, at most `limit` messages, never sleeping; answers how many came, 0 for none.
    pub fn receive(&mut self, fd: impl AsFd, limit: usize) -> io::Result<usize> {
        let fd = fd.as_fd().as_raw_fd();
        let limit = limit.clamp(1, self.headers.len());
        for header in &mut self.headers[..limit] {
            header.msg_hdr.msg_namelen = (NAME_WORDS * 8) as u32;
            header.msg_hdr.msg_controllen = (CONTROL_WORDS * 8) as _;
        }
        loop {
            // SAFETY: each header points at a name, a control block and a piece with room as long as it says, all owned
            // by `self` in boxes that never move; nobody else has them while `self` is borrowed mutably.
            let n = unsafe {
                if limit == 1 {
                    let n = libc::recvmsg(fd, &raw mut self.headers[0].msg_hdr, libc::MSG_DONTWAIT);
                    if n >= 0 {
                        self.headers[0].msg_len = n as u32;
                        1
                    } else {
                        -1
                    }
                } else {
                    libc::recvmmsg(
                        fd,
                        self.headers.as_mut_ptr(),
                        limit as u32,
                        libc::MSG_DONTWAIT,
                        std::ptr::null_mut(),
                    )
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

    /// What the last receive put into buffer `index`; `None` if it is no IP datagram or was cut off.
    pub fn message(&self, index: usize) -> Option<Received<'_>> {
        let header = self.headers.get(index)?;
        if header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return None;
        }
        let start = index * RECEIVE_BYTES_MAX;
        let bytes = self.data.get(start..start + header.msg_len as usize)?;
        let (src, sport) = address(self.names.get(index)?, header.msg_hdr.msg_namelen as usize)?;
        let mut received = Received {
            bytes,
            segment: bytes.len(),
            src,
            sport,
            dst: src,
            ifindex: 0,
            traffic_class: 0,
            hop_limit: HOP_LIMIT_DEFAULT,
        };
        let words = self.controls.get(index)?;
        let mut known = false;
        each_control(words, header.msg_hdr.msg_controllen as usize, |c| {
            known |= c.apply(&mut received);
        });
        known.then_some(received)
    }

    /// Pieces, for the compiler to see that they are kept alive.
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

    /// Notes what it says; true if it told the destination.
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

    fn pair() -> (OwnedFd, OwnedFd, u16) {
        let (tx, _) = sender(Family::V4, crate::random::u64() as u32).unwrap();
        let (rx, port) = sender(Family::V4, crate::random::u64() as u32).unwrap();
        set_int(&rx, libc::IPPROTO_IP, libc::IP_PKTINFO, 1).unwrap();
        set_int(&rx, libc::IPPROTO_IP, libc::IP_RECVTOS, 1).unwrap();
        set_int(&rx, libc::IPPROTO_IP, libc::IP_RECVTTL, 1).unwrap();
        set_int(&rx, libc::IPPROTO_UDP, UDP_GRO, 1).unwrap();
        (tx, rx, port)
    }

    fn path(port: u16) -> Path {
        Path {
            src: Ipv4Addr::LOCALHOST.into(),
            dst: Ipv4Addr::LOCALHOST.into(),
            port,
            ifindex: 0,
            traffic_class: 0x28,
            hop_limit: 9,
        }
    }

    #[test]
    fn segments_leave_in_one_call_and_arrive_with_all_that_was_said() {
        let (tx, rx, port) = pair();
        let payload: Vec<u8> = (0..=255).collect();
        let mut out = Outbox::new();
        for i in 0..3u8 {
            out.stage(4).fill(i);
            out.host(payload.as_ptr() as u64, 96);
        }
        out.end(&path(port), 100);
        assert!(out.hand_over(&tx).error.is_none());
        let mut inbox = Inbox::new(4);
        let mut seen = Vec::new();
        while seen.len() < 300 {
            let n = inbox.receive(&rx, 4).unwrap();
            for i in 0..n {
                let m = inbox.message(i).unwrap();
                assert_eq!(m.segment, 100);
                assert_eq!((m.traffic_class, m.hop_limit), (0x28, 9));
                assert_eq!(m.dst, IpAddr::from(Ipv4Addr::LOCALHOST));
                seen.extend_from_slice(m.bytes);
            }
        }
        assert_eq!(seen[100], 1);
        assert_eq!(seen[104..200], payload[..96]);
        assert_eq!(inbox.receive(&rx, 1).unwrap(), 0);
    }

    #[test]
    fn memory_that_is_not_mapped_is_an_error_and_no_crash() {
        let (tx, _rx, port) = pair();
        let mut out = Outbox::new();
        out.stage(4).fill(1);
        out.host(4096, 96);
        out.end(&path(port), 0);
        let handed = out.hand_over(&tx);
        assert_eq!(handed.messages, 0);
        assert_eq!(handed.error.unwrap().raw_os_error(), Some(libc::EFAULT));
    }
}
