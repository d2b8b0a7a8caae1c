//! The state that a datagram socket's lock guards, and its changes by completions.

use libc::pollfd;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use super::queue_pair::{Done, Handle, QueuePair};
use crate::rsocket::options::{Options, QUEUE_MAX};
use crate::rsocket::proto::datagram::SLOT_BYTES;
use crate::rsocket::wait::Progress;
use crate::rsocket::wake::Wakers;

/// Maximum number of remembered peers.
pub(super) const PEERS_MAX: usize = 4096;
/// Above this, only peers that the program sends to are remembered: any host can send UDP.
pub(super) const STRANGERS_MAX: usize = 2048;

/// The state of a datagram socket. Fields are dropped in their order.
pub(crate) struct Core {
    pub(crate) options: Options,
    /// The socket receives messages.
    pub(super) started: bool,
    pub(super) closed: bool,
    pub(super) wakers: Wakers,
    pub(super) received: VecDeque<Received>,
    pub(super) connected: Option<SocketAddr>,
    pub(super) peers: BTreeMap<SocketAddr, Peer>,
    pub(super) queues: Vec<QueuePair>,
}

/// A destination of messages.
pub(super) struct Peer {
    /// Index of the queue pair on the path to it.
    pub(super) queue: usize,
    /// Address handle and number of its queue pair, once known.
    pub(super) reachable: Option<(Handle, u32)>,
    /// Number of the queue pair that is being resolved.
    pub(super) resolving: Option<u32>,
}

/// A message that waits for the program.
pub(super) enum Received {
    /// In a receive slot of a queue pair, header and data.
    Slot { queue: usize, slot: u32, bytes: usize },
    /// Received over UDP.
    Udp { source: SocketAddr, data: Vec<u8> },
}

impl Core {
    pub(super) fn new(options: Options) -> Core {
        Core {
            options,
            started: false,
            closed: false,
            wakers: Wakers::default(),
            received: VecDeque::new(),
            connected: None,
            peers: BTreeMap::new(),
            queues: Vec::new(),
        }
    }

    /// Makes queues and buffers consistent in size: one slot for each request.
    pub(super) fn settle_sizes(&mut self) {
        let settle = |queue: &mut u16, bytes: &mut u32| {
            let slots = (*bytes / SLOT_BYTES as u32).min(u32::from(*queue)).clamp(1, QUEUE_MAX);
            *queue = slots as u16;
            *bytes = slots * SLOT_BYTES as u32;
        };
        settle(&mut self.options.rq_size, &mut self.options.receive_bytes);
        settle(&mut self.options.sq_size, &mut self.options.send_bytes);
    }

    /// Whether all sends have completed.
    pub(super) fn idle(&self) -> bool {
        self.queues.iter().all(QueuePair::idle)
    }

    /// Keeps a message received over UDP if there is room, else drops it.
    pub(super) fn keep(&mut self, source: SocketAddr, data: &[u8]) {
        if self.received.len() < usize::from(self.options.rq_size) {
            self.received.push_back(Received::Udp { source, data: data.to_vec() });
        }
    }

    /// Returns the ready events, as poll(2) reports them.
    pub(super) fn ready(&self, events: i16) -> i16 {
        let mut ready = 0;
        if !self.received.is_empty() {
            ready |= events & (libc::POLLIN | libc::POLLRDNORM);
        }
        if self.started && self.queues.iter().all(QueuePair::can_send) {
            ready |= events & (libc::POLLOUT | libc::POLLWRNORM);
        }
        ready
    }
}

impl Progress for Core {
    fn progress(&mut self) {
        let mut done = Vec::new();
        let mut any = false;
        for (number, queue) in self.queues.iter_mut().enumerate() {
            queue.take_completions(&mut done);
            any |= !done.is_empty();
            for done in done.drain(..) {
                match done {
                    Done::Sent => {}
                    Done::Received { slot, bytes } => {
                        if self.received.len() < usize::from(self.options.rq_size) {
                            self.received.push_back(Received::Slot { queue: number, slot, bytes });
                        } else {
                            // The message is lost. A device that refuses a receive refuses everything from now on.
                            let _ = queue.post_receive(slot);
                        }
                    }
                }
            }
        }
        if any {
            self.wakers.wake();
        }
    }

    fn arm(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.completions.arm());
    }

    fn drain(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.completions.drain());
        self.wakers.wake();
    }

    fn watch(&self, fds: &mut Vec<pollfd>) {
        fds.extend(self.queues.iter().map(|queue| queue.completions.watch()));
    }

    fn wakers(&mut self) -> &mut Wakers {
        &mut self.wakers
    }
}
