//! Sockets of iWARP streams. A queue pair says where the next bytes of its stream go and which bytes to send; here are the
//! TCP connection, the waiting for it, and its end.
//!
//! All sockets are in one epoll set, which is level-triggered: bytes that a bounded turn leaves are found by the next one.
//! Threads sleep on the set itself ([`crate::sources`]). A process without streams has no set. While the program polls, the set does
//! not watch the stream that alone brings something ([`unwatched`]).

mod attach;
mod established;
mod lingering;
mod orders;
mod preferred;
mod receive;
mod send;
mod unwatched;
mod watch;

pub use receive::Arrivals;

use std::os::fd::{AsFd, BorrowedFd};

use preferred::Preferred;
use rustc_hash::FxHashMap;
use unwatched::Unwatched;
use weft_link::stream::{StreamBuffers, StreamSocket};
use weft_sys::epoll::{Epoll, Ready};
use weft_verbs::{Duration, Instant, QpId, Qpn};

/// Time between two looks of a polling thread at streams without data.
const LIFELINE_INTERVAL: Duration = Duration::from_micros(200);

/// A stream of a queue pair.
#[derive(Debug)]
struct Stream {
    socket: StreamSocket,
    qp: QpId,
    /// Number of the queue pair, by which the daemon knows the connection.
    qpn: Qpn,
    /// TCP has no room; the set watches for it.
    blocked: bool,
    /// Its queue pair takes no bytes for now; the set does not watch for any.
    paused: bool,
    /// The set watches it. It would report the end of a paused connection again and again.
    watched: bool,
    /// The peer has ended its direction, or the connection is gone.
    ended: bool,
    /// When the direction to the peer was shut down.
    shut_down: Option<Instant>,
    /// When to ask for the segment size next; never for a peer that does not depend on it.
    segment_at: Option<Instant>,
    /// It tells the end of the connection alone: the data takes the ring to another process.
    lifeline: bool,
}

/// A place in the table of sockets.
#[derive(Debug)]
enum Entry {
    Free,
    Stream(Stream),
    /// Its queue pair is gone, the peer's last bytes are not.
    Lingering(Lingering),
}

/// A socket without a queue pair.
#[derive(Debug)]
struct Lingering {
    socket: StreamSocket,
    until: Instant,
}

/// The sockets of all iWARP queue pairs of a process.
#[derive(Debug, Default)]
pub struct Streams {
    /// The sockets; the places are their tokens in the set.
    table: Vec<Entry>,
    by_qp: FxHashMap<QpId, usize>,
    /// Made with the first stream.
    parts: Option<Parts>,
    /// Number of streams whose send buffer is full, of paused ones, of those without data, and of lingering sockets.
    blocked: usize,
    paused: usize,
    lifelines: usize,
    lingering: usize,
    /// The stream to read first.
    preferred: Preferred,
    /// The stream that the set does not watch for bytes.
    unwatched: Unwatched,
    /// When the set was last asked.
    looked_at: Instant,
    /// When streams without data were last asked.
    lifelines_at: Instant,
    /// The earliest end of a lingering socket's time.
    linger_end: Option<Instant>,
    /// Queue pairs whose streams ended, for the daemon.
    ended: Vec<Qpn>,
}

/// Parts that only a process with streams has.
#[derive(Debug)]
struct Parts {
    set: Epoll,
    ready: Vec<Ready>,
    buffers: StreamBuffers,
}

impl Streams {
    /// Whether there are sockets.
    #[inline]
    pub fn are_open(&self) -> bool {
        !self.by_qp.is_empty() || self.lingering != 0
    }

    /// Whether any of them may carry data.
    #[inline]
    pub fn carry_data(&self) -> bool {
        self.by_qp.len() > self.lifelines || self.lingering != 0
    }

    /// Whether it is time to receive. Only ends come from streams without data: a polling thread seldom looks for them.
    #[inline]
    pub fn are_due(&self, now: Instant, thorough: bool) -> bool {
        self.carry_data() || self.lifelines != 0 && (thorough || now.since(self.lifelines_at) >= LIFELINE_INTERVAL)
    }

    /// Returns a descriptor that is readable while a socket waits for service; `None` in a process without streams.
    pub fn set(&self) -> Option<BorrowedFd<'_>> {
        self.parts.as_ref().map(|parts| parts.set.as_fd())
    }

    /// Whether the daemon must hear of ended streams.
    #[inline]
    pub fn have_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Takes the numbers of the queue pairs whose streams ended since the last call, each stream once.
    pub fn take_ended(&mut self) -> Vec<Qpn> {
        std::mem::take(&mut self.ended)
    }

    /// Whether bytes of completed requests may be on their way still. If the process ends with bytes of a peer unread,
    /// TCP drops them.
    pub fn have_unacknowledged(&self) -> bool {
        self.table.iter().any(|entry| match entry {
            Entry::Stream(Stream { socket, .. }) | Entry::Lingering(Lingering { socket, .. }) => {
                socket.has_unacknowledged()
            }
            Entry::Free => false,
        })
    }

    /// Returns TCP's smoothed round trip of a queue pair's stream; `None` if the data takes another path. A system call.
    pub fn round_trip(&self, id: QpId) -> Option<Duration> {
        match self.table.get(*self.by_qp.get(&id)?) {
            Some(Entry::Stream(stream)) if !stream.lifeline => stream.socket.round_trip(),
            _ => None,
        }
    }

    /// Returns the stream at a place.
    fn stream(&mut self, at: usize) -> Option<&mut Stream> {
        match self.table.get_mut(at) {
            Some(Entry::Stream(stream)) => Some(stream),
            _ => None,
        }
    }
}
