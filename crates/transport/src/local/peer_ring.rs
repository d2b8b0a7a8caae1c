//! The ring that carries a queue pair's frames to its peer.

use weft_verbs::{Duration, Instant};

use crate::core::Core;
use crate::frame::{Frame, FrameFlags, Outgoing};
use crate::peers::PeerId;
use crate::{Env, Peers};

/// Time until a full ring is tried again; usually something arrives from the peer sooner.
const RING_RETRY: Duration = Duration::from_micros(50);
/// How many times that time doubles while the peer takes nothing.
const RING_RETRY_DOUBLINGS: u32 = 7;

/// The ring to the peer, and the fields common to all its frames.
#[derive(Debug)]
pub(crate) struct PeerRing {
    /// The peer's process.
    pub peer: PeerId,
    /// Number of the next expected frame, for acknowledgements: everything before it was executed.
    pub expected: u32,
    /// Whether the peer must still be told that number.
    pub ack_due: bool,
    /// If the ring was full at the last try: when to try again.
    pub full_until: Option<Instant>,
    /// Number of failed tries in a row.
    refusals: u32,
    /// Write position of the ring after the last own frame.
    pub mark: u64,
}

impl PeerRing {
    /// Returns the ring to a peer, before the first frame.
    pub fn new(peer: PeerId) -> PeerRing {
        PeerRing { peer, expected: 0, ack_due: false, full_until: None, refusals: 0, mark: 0 }
    }

    /// Sends a frame, with any due acknowledgement. `false`: there is no room now.
    #[inline]
    pub fn push<E: Env>(&mut self, core: &mut Core, mut frame: Frame, payload: Outgoing<'_>, env: &mut E) -> bool {
        frame.flags |= FrameFlags::ACK;
        frame.ack = self.expected;
        if core.path_closed {
            env.lose_frame(frame.src_qpn, frame.dest_qpn);
        // A frame for a dead process is lost, as it would be on a wire.
        } else if !env.peers().push(self.peer, &frame, payload) && env.peers().is_alive(self.peer) {
            self.full_until = Some(core.now + RING_RETRY * (1 << self.refusals));
            self.refusals = (self.refusals + 1).min(RING_RETRY_DOUBLINGS);
            return false;
        }
        self.refusals = 0;
        self.mark = env.peers().ring_mark(self.peer);
        self.full_until = None;
        self.ack_due = false;
        core.stats.ring_frames_sent += 1;
        core.stats.ring_bytes_sent += payload.len();
        true
    }

    /// Returns whether the ring may have room.
    pub fn is_open(&self, now: Instant) -> bool {
        self.full_until.is_none_or(|until| until <= now)
    }
}
