//! The responder's output, in the order of the requests: bytes of READs and results of atomic operations first, as far
//! as the ring has room; then any refusal.

use std::collections::VecDeque;

use weft_verbs::Access;

use crate::Env;
use crate::core::Core;
use crate::execute::Answered;
use crate::frame::{FRAME_BYTES_MAX, Frame, FrameFlags, FrameKind, HostRange, Outgoing};

use super::peer_ring::PeerRing;

/// Most queued replies beyond the depth granted to the peer, which may have repeated each request.
const REPEATED_MAX: usize = 64;

/// A queued reply.
#[derive(Clone, Copy, Debug)]
struct Reply {
    seq: u32,
    epoch: u8,
    found: Answered,
    /// Bytes of a READ sent so far.
    sent: u64,
    /// First answer to the request, not a repetition.
    fresh: bool,
}

/// Answer to send after all replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Outcome {
    /// Nothing.
    #[default]
    None,
    /// A frame of this kind and code about the expected frame, in this epoch.
    Say(FrameKind, u8, u8),
}

/// The queue of replies.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    queue: VecDeque<Reply>,
    /// The last requests of this kind, so that a repeated one gets the same answer.
    past: VecDeque<(u32, Answered)>,
    pub verdict: Outcome,
}

impl Replies {
    /// Returns whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.verdict == Outcome::None
    }

    /// Returns the number of queued first answers.
    pub fn fresh(&self) -> usize {
        self.queue.iter().filter(|reply| reply.fresh).count()
    }

    /// Enters ERR: forgets past answers. With `reply`, queued replies and the refusal are still sent.
    pub fn stop(&mut self, reply: bool) {
        self.past.clear();
        if !reply {
            self.queue.clear();
            self.verdict = Outcome::None;
        }
    }

    /// Answers a new request, and remembers the answer, as one of the last `depth`.
    pub fn push(&mut self, seq: u32, epoch: u8, found: Answered, depth: usize) {
        while self.past.len() >= depth.max(1) {
            self.past.pop_front();
        }
        self.past.push_back((seq, found));
        self.queue.push_back(Reply { seq, epoch, found, sent: 0, fresh: true });
    }

    /// Answers a repeated request, unless its answer is still queued.
    pub fn repeat(&mut self, seq: u32, epoch: u8, depth: usize) {
        let known = self.past.iter().rev().find(|(past, _)| *past == seq).copied();
        let waits = self.queue.iter().any(|reply| reply.seq == seq);
        if let Some((_, found)) = known
            && !waits
            && self.queue.len() < depth + REPEATED_MAX
        {
            self.queue.push_back(Reply { seq, epoch, found, sent: 0, fresh: false });
        }
    }

    /// Sends as much as the ring has room for. `Err`: a READ can no longer be answered, which ends the connection.
    pub fn transmit<E: Env>(&mut self, core: &mut Core, ring: &mut PeerRing, env: &mut E) -> Result<(), u32> {
        while let Some(reply) = self.queue.front_mut() {
            match send(core, reply, ring, env) {
                Ok(true) => {
                    self.queue.pop_front();
                }
                Ok(false) => return Ok(()),
                Err(()) => {
                    let seq = reply.seq;
                    self.queue.clear();
                    return Err(seq);
                }
            }
        }
        if let Outcome::Say(kind, code, epoch) = self.verdict {
            let mut frame = Frame::new(kind, core.qpn, core.attr.dest_qpn);
            (frame.seq, frame.code, frame.epoch) = (ring.expected, code, epoch);
            if ring.push(core, frame, Outgoing::NONE, env) {
                self.verdict = Outcome::None;
            }
        }
        Ok(())
    }
}

/// Sends frames of a reply. Returns whether that was the last.
fn send<E: Env>(core: &mut Core, reply: &mut Reply, ring: &mut PeerRing, env: &mut E) -> Result<bool, ()> {
    let mut frame = Frame::new(FrameKind::AtomicResult, core.qpn, core.attr.dest_qpn);
    (frame.seq, frame.epoch) = (reply.seq, reply.epoch);
    let (pd, key, addr, len) = match reply.found {
        Answered::Done => return Ok(ring.push(core, frame, Outgoing::NONE, env)),
        Answered::Value(value) => return Ok(ring.push(core, frame, Outgoing::Bytes(&value.to_ne_bytes()), env)),
        Answered::Read { pd, rkey, va, len } => (pd, rkey, va, len),
    };
    frame.kind = FrameKind::ReadData;
    loop {
        let offset = reply.sent;
        let bytes = (len - offset).min(u64::from(FRAME_BYTES_MAX));
        // Each frame checks the key: the region may go while a long READ streams.
        let range = match bytes {
            0 => None,
            _ => {
                let from = addr.wrapping_add(offset);
                let host = env.remote(pd, core.qpn, key, from, bytes, Access::REMOTE_READ).map_err(|_| ())?;
                Some(HostRange { addr: host, len: bytes })
            }
        };
        let last = offset + bytes == len;
        frame.addr = offset;
        frame.flags.set(FrameFlags::LAST, last);
        if !ring.push(core, frame, Outgoing::Memory(range.as_slice()), env) {
            return Ok(false);
        }
        reply.sent += bytes;
        if last {
            return Ok(true);
        }
    }
}
