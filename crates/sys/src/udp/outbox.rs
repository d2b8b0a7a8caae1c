//! Messages to send, with the C structures of sendmmsg.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::{HOP_LIMIT_DEFAULT, MESSAGES_MAX, PIECES_MAX, Path, STAGE_BYTES, calls};
use crate::many;

const UDP_SEGMENT: i32 = 103;
/// Room for the control messages of one send, in 8-byte words (cmsghdr must be aligned).
const CONTROL_WORDS: usize = 16;
/// Room for a `sockaddr_in6`, in words.
const NAME_WORDS: usize = 4;

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

/// Messages for one socket. Our own bytes are in the stage; bytes of the program are named by address.
pub struct Outbox {
    stage: Box<[u8]>,
    staged: usize,
    pieces: Vec<libc::iovec>,
    /// First piece of the message under construction.
    open: usize,
    messages: Vec<Message>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers inside point into the stage (owned), or are addresses that only the kernel follows.
unsafe impl Send for Outbox {}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("staged", &self.staged).field("messages", &self.messages.len()).finish()
    }
}

/// Result of a hand-over.
#[derive(Debug)]
pub struct Handed {
    /// Messages that the kernel took.
    pub messages: usize,
    /// Reason why the kernel refused the next message.
    pub error: Option<io::Error>,
}

impl Outbox {
    /// Creates an empty outbox.
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

    /// Discards everything.
    pub fn clear(&mut self) {
        self.staged = 0;
        self.pieces.clear();
        self.open = 0;
        self.messages.clear();
    }

    /// Returns the number of finished messages that await the hand-over.
    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Whether the message under construction has room for this much more.
    pub fn has_room(&self, stage_bytes: usize, pieces: usize) -> bool {
        self.staged + stage_bytes <= self.stage.len()
            && self.pieces.len() - self.open + pieces <= PIECES_MAX
            && self.messages.len() < MESSAGES_MAX
    }

    /// Appends `len` bytes of the stage to the message under construction, for the caller to fill.
    ///
    /// # Panics
    /// If there is no room: check [`Outbox::has_room`] first.
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

    /// Ends the message with its path and, if the kernel must split it, the segment length (0: no split).
    pub fn end(&mut self, path: &Path, segment: u16) {
        self.messages.push(Message {
            pieces: (self.open as u32, self.pieces.len() as u32),
            name: name_of(path),
            control: control_of(path, segment),
        });
        self.open = self.pieces.len();
    }

    /// Ends a message for a connected socket, which has the destination and a default segment length; `segment`
    /// overrides the length (0: no split).
    pub fn end_to_peer(&mut self, segment: Option<u16>) {
        let mut control = Control::EMPTY;
        if let Some(segment) = segment {
            control.put(libc::IPPROTO_UDP, UDP_SEGMENT, segment);
        }
        let name = Name { words: [0; NAME_WORDS], len: 0 };
        self.messages.push(Message { pieces: (self.open as u32, self.pieces.len() as u32), name, control });
        self.open = self.pieces.len();
    }

    /// Hands the messages to the kernel in order until it refuses one, then discards all.
    pub fn hand_over(&mut self, fd: impl AsFd) -> Handed {
        let fd = fd.as_fd().as_raw_fd();
        if let ([Message { name: Name { len: 0, .. }, control: Control { len: 0, .. }, .. }], [piece]) =
            (self.messages.as_slice(), self.pieces.as_slice())
        {
            let error = send(fd, piece).err();
            self.clear();
            return Handed { messages: usize::from(error.is_none()), error };
        }
        self.headers.clear();
        for m in &mut self.messages {
            let (start, end) = (m.pieces.0 as usize, m.pieces.1 as usize);
            // SAFETY: msghdr is plain data; zero is a valid value for each field.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            if m.name.len != 0 {
                header.msg_hdr.msg_name = m.name.words.as_mut_ptr().cast();
                header.msg_hdr.msg_namelen = m.name.len;
            }
            header.msg_hdr.msg_iov = self.pieces[start..end].as_mut_ptr();
            header.msg_hdr.msg_iovlen = (end - start) as _;
            if m.control.len != 0 {
                header.msg_hdr.msg_control = m.control.words.as_mut_ptr().cast();
                header.msg_hdr.msg_controllen = m.control.len as _;
            }
            self.headers.push(header);
        }
        let mut done = 0;
        let mut error = None;
        while done < self.headers.len() {
            let rest = &mut self.headers[done..];
            // SAFETY: every header points to a name, a control block and pieces that `self` owns and that stay in place
            // until the call returns; the pieces point into the stage, or the kernel checks them (EFAULT).
            let n = unsafe {
                if rest.len() == 1 {
                    match calls::sendmsg(fd, &raw const rest[0].msg_hdr, libc::MSG_NOSIGNAL) {
                        -1 => -1,
                        _ => 1,
                    }
                } else {
                    many::send(fd, rest.as_mut_ptr(), rest.len() as u32, libc::MSG_NOSIGNAL)
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

/// Sends by the shortest call: the socket knows the destination and the segment length.
fn send(fd: i32, piece: &libc::iovec) -> io::Result<()> {
    loop {
        // SAFETY: the piece is in the stage, or the kernel checks it (EFAULT).
        if unsafe { calls::send(fd, piece, libc::MSG_NOSIGNAL) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
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

    /// Adds a UDP_SEGMENT control message, unless `segment` is 0.
    fn segment(&mut self, segment: u16) {
        if segment != 0 {
            self.put(libc::IPPROTO_UDP, UDP_SEGMENT, segment);
        }
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
    c.segment(segment);
    c
}
