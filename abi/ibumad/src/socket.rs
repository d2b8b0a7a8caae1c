//! A port's socket to the daemon: datagrams with their heads, long ones in several packets (`weft_ipc::umad`). To a
//! program it behaves like the kernel's device: sending never waits for the program itself to receive, and what does not
//! fit its buffer stays until a larger one comes.

use libc::{EAGAIN, EINVAL, ENODEV, ENOSPC, c_int};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_ipc::UMAD_MESSAGE_BYTES_MAX;
use weft_ipc::umad::{UMAD_HEAD_BYTES, UMAD_PACKET_BYTES_MAX, UmadHead};
use zerocopy::IntoBytes;

use crate::errors::errno;

/// Agents of one port.
const AGENTS_MAX: u32 = 32;

/// Bytes of a datagram that a program must have room for, however long the whole is.
const MAD_LEN: usize = 256;

/// What the daemon's answers may take while the program does not read; what is refused goes to default sizes.
const BUFFER_BYTES: c_int = 1 << 20;

/// A port's socket.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: c_int,
    /// A bit for each agent.
    agents: AtomicU32,
    inbox: Mutex<Inbox>,
    /// Held while the packets of one datagram are sent.
    sending: Mutex<()>,
}

#[derive(Debug, Default)]
struct Inbox {
    /// Datagrams that came while the program was sending, or that did not fit its buffer, heads included.
    kept: VecDeque<Vec<u8>>,
    /// Room for a packet.
    packet: Vec<u8>,
}

/// What a receive brought.
pub(crate) enum Received {
    /// The whole datagram, this long with its head.
    Whole(usize),
    /// As much as fits a program's buffer that is too small: the errno value; the datagram stays.
    TooShort(c_int),
}

/// Makes a socket what the kernel's device is after opening: non-blocking.
pub(crate) fn prepare(fd: c_int) {
    let size = BUFFER_BYTES;
    // SAFETY: fcntl with numbers touches no memory; setsockopt reads an int.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        let length = size_of::<c_int>() as libc::socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw const size).cast(), length);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    pub(crate) fn new(fd: c_int) -> Socket {
        Socket { fd, agents: AtomicU32::new(0), inbox: Mutex::default(), sending: Mutex::new(()) }
    }

    /// Whether there is a number left for an agent.
    pub(crate) fn may_register(&self) -> Result<(), c_int> {
        if self.agents.load(Ordering::Acquire) == u32::MAX { Err(libc::ENOMEM) } else { Ok(()) }
    }

    pub(crate) fn add_agent(&self, number: u32) {
        self.agents.fetch_or(1u32.checked_shl(number).unwrap_or(0), Ordering::AcqRel);
    }

    pub(crate) fn remove_agent(&self, number: u32) {
        self.agents.fetch_and(!1u32.checked_shl(number).unwrap_or(0), Ordering::AcqRel);
    }

    fn has_agent(&self, number: u32) -> bool {
        number < AGENTS_MAX && self.agents.load(Ordering::Acquire) >> number & 1 != 0
    }

    /// Sends a datagram of an agent.
    pub(crate) fn send(&self, mut head: UmadHead, mad: &[u8]) -> Result<(), c_int> {
        let whole = UMAD_HEAD_BYTES + mad.len();
        if !self.has_agent(head.agent) || whole > UMAD_MESSAGE_BYTES_MAX {
            return Err(EINVAL);
        }
        head.length = whole as u32;
        let (first, rest) = mad.split_at(mad.len().min(UMAD_PACKET_BYTES_MAX - UMAD_HEAD_BYTES));
        let _one_at_a_time = lock(&self.sending);
        self.send_packet(head.as_bytes(), first)?;
        rest.chunks(UMAD_PACKET_BYTES_MAX).try_for_each(|packet| self.send_packet(&[], packet))
    }

    fn send_packet(&self, head: &[u8], rest: &[u8]) -> Result<(), c_int> {
        let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut parts = [part(head), part(rest)];
        loop {
            // SAFETY: zeroes are a header that names nothing; it is made to name the two parts, which are only read.
            let sent = unsafe {
                let mut message: libc::msghdr = std::mem::zeroed();
                message.msg_iov = parts.as_mut_ptr();
                message.msg_iovlen = parts.len();
                libc::sendmsg(self.fd, &raw const message, libc::MSG_NOSIGNAL)
            };
            if sent >= 0 {
                return Ok(());
            }
            match errno() {
                libc::EINTR => {}
                EAGAIN => self.make_room(),
                libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN => return Err(ENODEV),
                errno => return Err(errno),
            }
        }
    }

    /// The daemon is busy, or waits for us to receive: keep what it has for us, for the program may do nothing but send.
    fn make_room(&self) {
        let mut poll = libc::pollfd { fd: self.fd, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
        // SAFETY: one structure.
        unsafe { libc::poll(&raw mut poll, 1, -1) };
        if poll.revents & libc::POLLIN != 0 {
            let mut inbox = lock(&self.inbox);
            if let Ok(message) = inbox.receive(self.fd) {
                inbox.kept.push_back(message);
            }
        }
    }

    /// Whether something waits that the descriptor does not show.
    pub(crate) fn has_kept(&self) -> bool {
        !lock(&self.inbox).kept.is_empty()
    }

    /// Receives a datagram with its head; EAGAIN if none is there, ENODEV if the daemon or the fabric is gone.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Received, c_int> {
        let mut inbox = lock(&self.inbox);
        if inbox.kept.is_empty() {
            let length = inbox.receive_packet(self.fd)?;
            let packet = &inbox.packet[..length];
            let (head, _) = UmadHead::decode(packet).ok_or(libc::EPROTO)?;
            if head.length as usize == length && length <= buffer.len() {
                buffer[..length].copy_from_slice(packet);
                return Ok(Received::Whole(length));
            }
            let message = inbox.complete(self.fd, head.length as usize, length)?;
            inbox.kept.push_back(message);
        }
        Ok(inbox.hand_out(buffer))
    }
}

impl Inbox {
    /// Receives a datagram, all of it.
    fn receive(&mut self, fd: c_int) -> Result<Vec<u8>, c_int> {
        let length = self.receive_packet(fd)?;
        let (head, _) = UmadHead::decode(&self.packet[..length]).ok_or(libc::EPROTO)?;
        self.complete(fd, head.length as usize, length)
    }

    /// The datagram whose first packet is there.
    fn complete(&mut self, fd: c_int, whole: usize, first: usize) -> Result<Vec<u8>, c_int> {
        let mut message = self.packet[..first].to_vec();
        while message.len() < whole {
            match self.receive_packet(fd) {
                Ok(length) => message.extend_from_slice(&self.packet[..length]),
                // The rest is on its way.
                Err(EAGAIN) => {
                    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                    // SAFETY: one structure.
                    unsafe { libc::poll(&raw mut poll, 1, -1) };
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(message)
    }

    fn receive_packet(&mut self, fd: c_int) -> Result<usize, c_int> {
        self.packet.resize(UMAD_PACKET_BYTES_MAX, 0);
        loop {
            // SAFETY: the buffer is as long as it says.
            let length =
                unsafe { libc::recv(fd, self.packet.as_mut_ptr().cast(), self.packet.len(), libc::MSG_DONTWAIT) };
            match usize::try_from(length) {
                Ok(0) => return Err(ENODEV),
                Ok(length) => return Ok(length),
                Err(_) => match errno() {
                    libc::EINTR => {}
                    libc::ECONNRESET => return Err(ENODEV),
                    errno => return Err(errno),
                },
            }
        }
    }

    /// Gives the first of what is kept to a program, or as much as its buffer takes.
    fn hand_out(&mut self, buffer: &mut [u8]) -> Received {
        let Some(message) = self.kept.front() else { return Received::TooShort(EAGAIN) };
        if message.len() <= buffer.len() {
            buffer[..message.len()].copy_from_slice(message);
            let length = message.len();
            self.kept.pop_front();
            return Received::Whole(length);
        }
        if buffer.len() < UMAD_HEAD_BYTES {
            return Received::TooShort(EINVAL);
        }
        buffer[..UMAD_HEAD_BYTES].copy_from_slice(&message[..UMAD_HEAD_BYTES]);
        let first = UMAD_HEAD_BYTES + MAD_LEN;
        if message.len() <= first || buffer.len() < first {
            return Received::TooShort(EINVAL);
        }
        buffer[..first].copy_from_slice(&message[..first]);
        Received::TooShort(ENOSPC)
    }
}
