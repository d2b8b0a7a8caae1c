//! An open port's way to the daemon: datagrams with their heads, through rings in shared memory as long as there is room
//! (`weft_ipc::umad_ring`), else by the socket, long ones in several packets (`weft_ipc::umad`). To a program it behaves
//! like the kernel's device: sending never waits for the program itself to receive, what does not fit its buffer stays
//! until a larger one comes, and the descriptor is readable exactly as long as something waits. It may read and write it by
//! itself, too.
//!
//! A child of fork has no rings: what it does goes by the socket, which it shares with its parent.

use libc::{EAGAIN, EINVAL, ENODEV, ETIMEDOUT, c_int};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weft_ipc::UMAD_MESSAGE_BYTES_MAX;
use weft_ipc::umad::{UMAD_HEAD_BYTES, UMAD_PACKET_BYTES_MAX, UmadHead};
use weft_ipc::umad_ring::{AnswerReader, Pushed, RequestWriter, UMAD_BELL, UMAD_NO_RING, UMAD_RING_ME};
use weft_ipc::umad_waiting::Waiting;
use zerocopy::IntoBytes;

use crate::errors::errno;
use crate::inbox::{Inbox, Received};
use crate::patience::Patience;

/// Agents of one port.
const AGENTS_MAX: u32 = 32;

/// What the daemon's answers may take while the program does not read; what is refused goes to default sizes.
const BUFFER_BYTES: c_int = 1 << 20;

/// A port's socket and rings.
#[derive(Debug)]
pub(crate) struct Socket {
    /// A bit for each agent.
    agents: AtomicU32,
    inbox: Mutex<Inbox>,
    /// Held while the packets of one datagram are sent.
    outgoing: Mutex<Outgoing>,
    /// Requests that wait for their answers.
    waiting: Mutex<Waiting>,
    patience: Patience,
    /// How often the process was forked when the port was opened.
    forks: u32,
}

#[derive(Debug)]
struct Outgoing {
    ring: Option<RequestWriter>,
    /// This process is a child of the one that opened the port, and the daemon knows that the rings are left.
    left_rings: bool,
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

/// How often this process and those it comes from were forked since they loaded the library.
static FORKS: AtomicU32 = AtomicU32::new(0);

fn on_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

impl Socket {
    /// Over the program's ends of the rings, if there are any.
    pub(crate) fn new(rings: Option<(RequestWriter, AnswerReader)>) -> Socket {
        // Where a child could not be told from its parent, neither has rings.
        let rings = rings.filter(|_| weft_sys::fork::at_fork_in_child(on_fork).is_ok());
        let (requests, answers) = rings.unzip();
        Socket {
            agents: AtomicU32::new(0),
            inbox: Mutex::new(Inbox::new(answers)),
            outgoing: Mutex::new(Outgoing { ring: requests, left_rings: false }),
            waiting: Mutex::default(),
            patience: Patience::default(),
            forks: FORKS.load(Ordering::Relaxed),
        }
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
        lock(&self.waiting).forget_agent(number);
    }

    fn has_agent(&self, number: u32) -> bool {
        number < AGENTS_MAX && self.agents.load(Ordering::Acquire) >> number & 1 != 0
    }

    /// In a child of fork: its parent's rings are not there, and the daemon has to know.
    fn leave_rings(&self, fd: c_int) {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            return;
        }
        let mut outgoing = lock(&self.outgoing);
        if !std::mem::replace(&mut outgoing.left_rings, true) {
            // The memory is not mapped here: nothing of it may be touched, nor given back.
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

    /// A request waits from now on, unless another with its transaction ID does so: its answer may have come already.
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

    /// The daemon is busy, or waits for us to receive: keep what it has for us, for the program may do nothing but send.
    fn make_room(&self, fd: c_int) {
        if poll(fd, libc::POLLIN | libc::POLLOUT, -1).unwrap_or(0) & libc::POLLIN != 0 {
            lock(&self.inbox).keep_one(fd);
        }
    }

    /// Sends a packet that is no datagram; between the packets of one it would be taken for a part.
    fn call(&self, fd: c_int, packet: &[u8]) {
        let _one_at_a_time = lock(&self.outgoing);
        let _ = self.send_packet(fd, packet, &[]);
    }

    /// Receives a datagram with its head; EAGAIN if none is there, ENODEV if the daemon or the fabric is gone. To find
    /// that out takes asking the socket, which is left out unless it is to be done thoroughly.
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

    /// Waits until there is something to receive, or an end; ETIMEDOUT if there is nothing within the time.
    pub(crate) fn wait(&self, fd: c_int, deadline: Option<Instant>) -> Result<(), c_int> {
        self.leave_rings(fd);
        if lock(&self.inbox).is_ready() {
            return Ok(());
        }
        if self.patience.is_dense() && lock(&self.inbox).begin_look() {
            self.patience.look(deadline, || lock(&self.inbox).stirs());
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
        self.patience.on_slept(begin.elapsed());
        match polled {
            // What came in the last moment lies in the ring.
            Ok(0) if !lock(&self.inbox).is_ready() => Err(ETIMEDOUT),
            Ok(_) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

/// As poll(2) takes it: -1 for ever, and never less than what is left.
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
        // SAFETY: zeroes are a header that names nothing; it is made to name the two parts, which are only read.
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

/// What a descriptor is ready for, nothing if it was not within the time; an errno value if it cannot be told.
pub(crate) fn poll(fd: c_int, events: i16, timeout_ms: c_int) -> Result<i16, c_int> {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one structure.
    match unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } {
        1.. => Ok(poll.revents),
        0 => Ok(0),
        _ => Err(errno()),
    }
}
