//! The responder's output, in the order of the requests (IBA 9.9.1): READ responses are streamed as room permits, and
//! an acknowledgement of a later request waits behind them. Acknowledgements of earlier ones are unnecessary, because a
//! response acknowledges everything before it.

use std::collections::VecDeque;

use weft_verbs::Access;
use weft_wire::ext::AtomicAckEth;
use weft_wire::{Aeth, Headers, Kind, NakCode, Syndrome};

use crate::core::{Bits, Core};
use crate::execute::Answered;
use crate::{Env, TxBatch};

/// Most queued replies beyond the depth granted to the peer, which may have repeated each request.
const REPLAYS_MAX: usize = 64;

/// The last bytes of a READ, or all of a short one, are copied before they are sent; the link is faster without the
/// copy.
const UNSTEADY_BYTES: u64 = 64 << 10;

/// Reply to a request with a response of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    /// First PSN of the reply.
    pub first: u64,
    /// PSN to send next.
    pub next: u64,
    /// PSN after its last.
    pub end: u64,
    /// MSN.
    pub msn: u32,
    /// For a READ, the range that `first..end` covers.
    pub what: Answered,
    /// First answer to the request, not a repetition.
    pub fresh: bool,
    /// Whether some of its packets were sent before and did not arrive.
    pub again: bool,
}

/// Answer to send after all replies. Later variants outrank earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Answer {
    /// Nothing.
    #[default]
    None,
    /// Acknowledge everything so far.
    Ack,
    /// A PSN was skipped.
    SequenceNak,
    /// No receive, with the timer code.
    RnrNak(u8),
    /// The request at this PSN is refused, and the connection ends.
    Fatal(NakCode, u64),
}

/// Progress of the responder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Expected PSN.
    pub epsn: u64,
    /// Messages completed.
    pub msn: u32,
    /// Credit code of acknowledgements.
    pub credits: u8,
    /// Whether a due acknowledgement must wait.
    pub hold_ack: bool,
}

/// The queue of replies.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    queue: VecDeque<Reply>,
    pub answer: Answer,
}

impl Replies {
    /// Returns whether something is ready to send, except an answer that [`Replies::poll_transmit`] holds back.
    pub fn wants_transmit(&self, hold_ack: bool) -> bool {
        !self.queue.is_empty() || !(self.answer == Answer::None || (hold_ack && self.answer == Answer::Ack))
    }

    /// Returns the number of queued first answers.
    pub fn fresh(&self) -> usize {
        self.queue.iter().filter(|r| r.fresh).count()
    }

    /// Drops everything but a plain acknowledgement.
    pub fn clear_but_ack(&mut self) {
        self.queue.clear();
        if self.answer != Answer::Ack {
            self.answer = Answer::None;
        }
    }

    /// Drops the queue, because memory for a reply is no longer readable.
    fn abandon(&mut self, code: NakCode, psn: u64) {
        self.queue.clear();
        self.answer = Answer::Fatal(code, psn);
    }

    /// Answers a new request.
    pub fn push(&mut self, reply: Reply) {
        if self.answer == Answer::Ack {
            self.answer = Answer::None;
        }
        self.queue.push_back(reply);
    }

    /// Answers a repeated request: in PSN order within the queue, and not twice.
    pub fn replay(&mut self, reply: Reply, depth: usize) {
        let at = self.queue.partition_point(|r| r.end <= reply.first);
        if let Some(waiting) = self.queue.get_mut(at) {
            let within = waiting.first <= reply.first && reply.end <= waiting.end;
            if within && waiting.next <= reply.first {
                return;
            }
            if within && waiting.end == reply.end {
                // The peer goes back and wants everything from here on again.
                waiting.next = reply.first;
                waiting.again = true;
                return;
            }
        }
        if self.queue.len() < depth + REPLAYS_MAX {
            self.queue.insert(at, reply);
        }
    }

    /// Sends as much as there is room for. False if a READ can no longer be answered, which ends the connection.
    pub fn poll_transmit<E: Env>(
        &mut self,
        core: &mut Core,
        standing: Standing,
        tx: &mut TxBatch,
        env: &mut E,
        budget: &mut u32,
    ) -> bool {
        while *budget > 0 && tx.has_room() {
            let Some(reply) = self.queue.front_mut() else { break };
            if let Err(()) = send(core, reply, standing.credits, tx, env) {
                let psn = reply.next;
                self.abandon(NakCode::REMOTE_ACCESS, psn);
                return false;
            }
            *budget -= 1;
            if reply.next >= reply.end {
                self.queue.pop_front();
            }
        }
        if self.queue.is_empty() && self.wants_transmit(standing.hold_ack) && *budget > 0 && tx.has_room() {
            *budget -= 1;
            self.say(core, standing, tx);
        }
        true
    }

    fn say(&mut self, core: &mut Core, standing: Standing, tx: &mut TxBatch) {
        let Standing { epsn, msn, credits, .. } = standing;
        let (psn, syndrome) = match std::mem::take(&mut self.answer) {
            Answer::None => return,
            Answer::Ack => (epsn - 1, Syndrome::Ack(credits)),
            Answer::SequenceNak => {
                core.stats.sequence_naks_sent += 1;
                (epsn, Syndrome::Nak(NakCode::PSN_SEQUENCE))
            }
            Answer::RnrNak(timer) => {
                core.stats.rnr_naks_sent += 1;
                (epsn, Syndrome::RnrNak(timer))
            }
            Answer::Fatal(code, psn) => (psn, Syndrome::Nak(code)),
        };
        let ext = Headers { aeth: Some(Aeth::new(syndrome, msn)), ..Headers::default() };
        core.begin(tx, Kind::Acknowledge, psn, Bits::default(), &ext, 0);
    }
}

/// Sends one packet of a reply.
fn send<E: Env>(core: &mut Core, reply: &mut Reply, credits: u8, tx: &mut TxBatch, env: &mut E) -> Result<(), ()> {
    let psn = reply.next;
    let aeth = Some(Aeth::new(Syndrome::Ack(credits), reply.msn));
    let mut ext = Headers { aeth, ..Headers::default() };
    match reply.what {
        Answered::Value(original) => {
            ext.atomic_ack = Some(AtomicAckEth::new(original));
            core.begin(tx, Kind::AtomicAcknowledge, psn, Bits::default(), &ext, 0);
        }
        Answered::Done => core.begin(tx, Kind::ReadResponseOnly, psn, Bits::default(), &ext, 0),
        Answered::Read { pd, rkey, va, len } => {
            let mtu = u64::from(core.mtu());
            let offset = (psn - reply.first) * mtu;
            let bytes = len.saturating_sub(offset).min(mtu);
            // Each packet checks the key: the region may go while a long READ streams.
            let addr = match bytes {
                0 => 0,
                _ => env
                    .remote(pd, core.qpn, rkey, va.wrapping_add(offset), bytes, Access::REMOTE_READ)
                    .map_err(|_| ())?,
            };
            let (first, last) = (psn == reply.first, psn + 1 == reply.end);
            let kind = match (first, last) {
                (true, true) => Kind::ReadResponseOnly,
                (true, false) => Kind::ReadResponseFirst,
                (false, true) => Kind::ReadResponseLast,
                (false, false) => Kind::ReadResponseMiddle,
            };
            core.begin(tx, kind, psn, Bits::default(), &ext, bytes as u32);
            tx.piece(addr, bytes as u32);
            // A program may write to memory while a peer reads it. The peer misses a damaged packet at once if many
            // follow; if none does, it takes a timeout.
            if reply.again || len.saturating_sub(offset) <= UNSTEADY_BYTES {
                tx.copy_before_send();
            }
        }
    }
    reply.next += 1;
    Ok(())
}
