//! An open port's connection to the daemon. Datagrams with their headers go through rings in shared memory as long as
//! there is room (`weft_ipc::umad_ring`), else through the socket, long ones in several packets (`weft_ipc::umad`). To
//! a program it behaves like the kernel's device: sending never waits for the program's own receives, a datagram that
//! does not fit its buffer stays until a larger buffer comes, and the descriptor is readable exactly as long as a
//! datagram waits. The program may also read and write the descriptor directly.
//!
//! A child of fork has no rings: it uses the socket, which it shares with its parent.

use libc::{EAGAIN, EINVAL, ENODEV, ETIMEDOUT, c_int};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weft_ipc::UMAD_MESSAGE_BYTES_MAX;
use weft_ipc::umad::{UMAD_HEAD_BYTES, UMAD_PACKET_BYTES_MAX, UmadHead};
use weft_ipc::umad_ring::{AnswerReader, Pushed, RequestWriter, UMAD_BELL, UMAD_NO_RING, UMAD_RING_ME};
use weft_ipc::umad_waiting::Waiting;
use zerocopy::IntoBytes;

use crate::busy_poll::BusyPoll;
use crate::errors::errno;
use crate::inbox::{Inbox, Received};
use crate::poll::poll;

/// Maximum number of agents on one port.
const AGENTS_MAX: u32 = 32;

/// Buffer size for the daemon's answers while the program does not read; if the kernel refuses it, the default sizes
/// stay.
const BUFFER_BYTES: c_int = 1 << 20;

/// A port's socket and rings.
#[derive(Debug)]
pub(crate) struct Socket {
    /// One bit for each agent.
    agents: AtomicU32,
    inbox: Mutex<Inbox>,
    /// Held while the packets of one datagram are sent.
    outgoing: Mutex<Outgoing>,
    /// Requests that await their answers.
    waiting: Mutex<Waiting>,
    busy_poll: BusyPoll,
    /// Fork count of the process when the port was opened.
    forks: u32,
}

#[derive(Debug)]
struct Outgoing {
    ring: Option<RequestWriter>,
    /// This process is a child of the one that opened the port, and has told the daemon that it does not use the rings.
    left_rings: bool,
}

/// Makes a socket non-blocking, like the kernel's device after opening.
pub(crate) fn prepare(fd: c_int) {
    let size = BUFFER_BYTES;
    // SAFETY: fcntl with integer arguments touches no memory; setsockopt reads an int.
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

/// Number of forks of this process and its ancestors since they loaded the library.
static FORKS: AtomicU32 = AtomicU32::new(0);

fn on_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

impl Socket {
    /// Wraps the program's ends of the rings, if there are any.
    pub(crate) fn new(rings: Option<(RequestWriter, AnswerReader)>) -> Socket {
        // If a child cannot be told from its parent, neither gets rings.
        let rings = rings.filter(|_| weft_sys::fork::at_fork_in_child(on_fork).is_ok());
        let (requests, answers) = rings.unzip();
        Socket {
            agents: AtomicU32::new(0),
            inbox: Mutex::new(Inbox::new(answers)),
            outgoing: Mutex::new(Outgoing { ring: requests, left_rings: false }),
            waiting: Mutex::default(),
            busy_poll: BusyPoll::default(),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    /// Checks that an agent number is free.
    pub(crate) fn may_register(&self) -> Result<(), c_int> {
        if self.agents.load(Ordering::Acquire) == u32::MAX { Err(libc::ENOMEM) } else { Ok(()) }
    }

    pub(crate) fn add_agent(&self, number: u32) {
        self.agents.fetch_or(1u32.checked_shl(number).unwrap_or(0), Ordering::AcqRel);
    }

    pub(crate) fn remove_agent(&self, number: u32) {
        self.agents.fetch_and(!1u32.checked_shl(number).unwrap_or(0), Ordering::AcqRel);
        lock(&self.waiting).forget_agent(number);
    }

    fn has_agent(&self, number: u32) -> bool {
        number < AGENTS_MAX && self.agents.load(Ordering::Acquire) >> number & 1 != 0
    }

    /// In a child of fork: tells the daemon that the parent's rings do not exist here.
    fn leave_rings(&self, fd: c_int) {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            return;
        }
        let mut outgoing = lock(&self.outgoing);
        if !std::mem::replace(&mut outgoing.left_rings, true) {
            // The memory is not mapped here, so this process must neither touch nor unmap it.
            std::mem::forget(outgoing.ring.take());
            lock(&self.inbox).leave_ring();
            let _ = send_packet(fd, UMAD_NO_RING, &[]);
        }
    }

    /// Sends a datagram of an agent.
    pub(crate) fn send(&self, fd: c_int, mut head: UmadHead, mad: &[u8]) -> Result<(), c_int> {
        let whole = UMAD_HEAD_BYTES + mad.len();
        if !self.has_agent(head.agent) || whole > UMAD_MESSAGE_BYTES_MAX {
            return Err(EINVAL);
        }
        self.leave_rings(fd);
        head.length = whole as u32;
        self.note_request(fd, &head, mad)?;
        self.transmit(fd, &head, mad).inspect_err(|_| lock(&self.waiting).forget(head.agent, mad))
    }

    /// Records a waiting request; EINVAL if another with its transaction ID still waits. The other's answer may already
    /// have arrived, so this reads the socket before it refuses.
    fn note_request(&self, fd: c_int, head: &UmadHead, mad: &[u8]) -> Result<(), c_int> {
        if head.timeout_ms == 0 || lock(&self.waiting).insert(head.agent, mad) {
            return Ok(());
        }
        let holds = {
            let mut inbox = lock(&self.inbox);
            inbox.keep_all(fd);
            let mut waiting = lock(&self.waiting);
            inbox.kept().for_each(|message| waiting.on_received(message));
            inbox.wants_bell()
        };
        if holds {
            self.call(fd, UMAD_RING_ME);
        }
        if lock(&self.waiting).insert(head.agent, mad) { Ok(()) } else { Err(EINVAL) }
    }

    fn transmit(&self, fd: c_int, head: &UmadHead, mad: &[u8]) -> Result<(), c_int> {
        let mut outgoing = lock(&self.outgoing);
        if let (Some(ring), Ok(mad)) = (&mut outgoing.ring, mad.try_into()) {
            match ring.push(head, mad) {
                Pushed::Seen => return Ok(()),
                Pushed::Call => return self.send_packet(fd, UMAD_BELL, &[]),
                Pushed::NoRoom => {}
            }
        }
        let (first, rest) = mad.split_at(mad.len().min(UMAD_PACKET_BYTES_MAX - UMAD_HEAD_BYTES));
        self.send_packet(fd, head.as_bytes(), first)?;
        rest.chunks(UMAD_PACKET_BYTES_MAX).try_for_each(|packet| self.send_packet(fd, packet, &[]))
    }

    fn send_packet(&self, fd: c_int, head: &[u8], rest: &[u8]) -> Result<(), c_int> {
        loop {
            match send_packet(fd, head, rest) {
                Err(EAGAIN) => self.make_room(fd),
                result => return result,
            }
        }
    }

    /// Makes room when the daemon is busy or waits for our receives: keeps its datagrams, for the program may never
    /// receive.
    fn make_room(&self, fd: c_int) {
        if poll(fd, libc::POLLIN | libc::POLLOUT, -1).unwrap_or(0) & libc::POLLIN != 0 {
            lock(&self.inbox).keep_one(fd);
        }
    }

    /// Sends a control packet. It must not come between the packets of one datagram, where it would be taken for a
    /// part.
    fn call(&self, fd: c_int, packet: &[u8]) {
        let _one_at_a_time = lock(&self.outgoing);
        let _ = self.send_packet(fd, packet, &[]);
    }

    /// Receives a datagram with its header; EAGAIN if there is none, ENODEV if the daemon or the fabric is gone. The
    /// latter requires a system call, which happens only if `thorough`.
    pub(crate) fn receive(&self, fd: c_int, buffer: &mut [u8], thorough: bool) -> Result<Received, c_int> {
        self.leave_rings(fd);
        let (received, call, holds) = {
            let mut inbox = lock(&self.inbox);
            let received = inbox.receive(fd, buffer, thorough);
            (received, inbox.take_call(), inbox.wants_bell())
        };
        if let Ok(Received::Whole(length)) = received {
            lock(&self.waiting).on_received(&buffer[..length]);
        }
        if call {
            self.call(fd, UMAD_BELL);
        }
        if holds {
            self.call(fd, UMAD_RING_ME);
        }
        received
    }

    /// Waits until a datagram or the end of the connection arrives; ETIMEDOUT on timeout.
    pub(crate) fn wait(&self, fd: c_int, deadline: Option<Instant>) -> Result<(), c_int> {
        self.leave_rings(fd);
        if lock(&self.inbox).is_ready() {
            return Ok(());
        }
        if self.busy_poll.is_worthwhile() && lock(&self.inbox).begin_look() {
            self.busy_poll.poll(deadline, || lock(&self.inbox).stirs());
        }
        let waited = if lock(&self.inbox).begin_sleep() { self.sleep(fd, deadline) } else { Ok(()) };
        let call = {
            let mut inbox = lock(&self.inbox);
            inbox.end_wait();
            inbox.take_call()
        };
        if call {
            self.call(fd, UMAD_BELL);
        }
        waited
    }

    fn sleep(&self, fd: c_int, deadline: Option<Instant>) -> Result<(), c_int> {
        let begin = Instant::now();
        let polled = poll(fd, libc::POLLIN, milliseconds_until(begin, deadline));
        self.busy_poll.on_slept(begin.elapsed());
        match polled {
            // A datagram that arrived in the last moment is in the ring.
            Ok(0) if !lock(&self.inbox).is_ready() => Err(ETIMEDOUT),
            Ok(_) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

/// Returns the time left as poll(2) takes it: -1 for no limit, and rounded up.
fn milliseconds_until(now: Instant, deadline: Option<Instant>) -> c_int {
    let Some(deadline) = deadline else { return -1 };
    let left = deadline.saturating_duration_since(now).as_nanos().div_ceil(1_000_000);
    c_int::try_from(left).unwrap_or(c_int::MAX)
}

/// Sends a packet in two parts without sleeping.
fn send_packet(fd: c_int, head: &[u8], rest: &[u8]) -> Result<(), c_int> {
    let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut parts = [part(head), part(rest)];
    loop {
        // SAFETY: an all-zero header is valid and names nothing; it then names the two parts, which the kernel only
        // reads.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = parts.as_mut_ptr();
            message.msg_iovlen = parts.len();
            libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        };
        if sent >= 0 {
            return Ok(());
        }
        match errno() {
            libc::EINTR => {}
            libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN => return Err(ENODEV),
            errno => return Err(errno),
        }
    }
}
