//! What the responder has to say, in the order of the requests (IBA 9.9.1): READ responses are streamed as there is
//! room, and an acknowledgement of a later request waits behind them. Acknowledgements of earlier ones need not be
//! sent, because a response acknowledges all before it.

use std::collections::VecDeque;

use weft_verbs::Access;
use weft_wire::ext::AtomicAckEth;
use weft_wire::{Aeth, Headers, Kind, NakCode, Syndrome};

use crate::core::{Bits, Core};
use crate::{Env, TxBatch};

use super::resources::Answered;

/// Replies that wait at most, beyond the depth granted to the peer: it may have asked again for each.
const REPLAYS_MAX: usize = 64;

/// A READ's last bytes, all of a short one's, are sent as one copy; the link is faster where it need not.
const UNSTEADY_BYTES: u64 = 64 << 10;

/// A reply to a READ, an atomic, a FLUSH or an ATOMIC WRITE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    /// First PSN of the reply.
    pub first: u64,
    /// PSN to be sent next.
    pub next: u64,
    /// PSN after its last.
    pub end: u64,
    /// MSN.
    pub msn: u32,
    /// For a READ the range that `first..end` covers.
    pub what: Answered,
    /// First answer to the request, not a repetition.
    pub fresh: bool,
    /// Some of its packets were sent before, and did not arrive.
    pub again: bool,
}

/// What is to be said once all replies are out. Later ones outrank earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Answer {
    /// Nothing.
    #[default]
    None,
    /// Everything so far is done.
    Ack,
    /// A PSN was skipped.
    SequenceNak,
    /// No receive; the timer code.
    RnrNak(u8),
    /// The request at this PSN is refused, and the connection ends.
    Fatal(NakCode, u64),
}

/// How far the responder has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Expected PSN.
    pub epsn: u64,
    /// Messages completed.
    pub msn: u32,
    /// Credit code of acknowledgements.
    pub credits: u8,
    /// An acknowledgement shall wait.
    pub hold_ack: bool,
}

/// The queue of replies.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    queue: VecDeque<Reply>,
    pub answer: Answer,
}

impl Replies {
    /// Whether something is to be sent, an answer that [`Replies::poll_transmit`] is told to hold back excepted.
    pub fn wants_transmit(&self, hold_ack: bool) -> bool {
        !self.queue.is_empty() || !(self.answer == Answer::None || (hold_ack && self.answer == Answer::Ack))
    }

    /// First answers that still wait.
    pub fn fresh(&self) -> usize {
        self.queue.iter().filter(|r| r.fresh).count()
    }

    /// Drop everything but a plain acknowledgement.
    pub fn clear_but_ack(&mut self) {
        self.queue.clear();
        if self.answer != Answer::Ack {
            self.answer = Answer::None;
        }
    }

    /// Drop what waits, because it cannot be read any more.
    fn abandon(&mut self, code: NakCode, psn: u64) {
        self.queue.clear();
        self.answer = Answer::Fatal(code, psn);
    }

    /// Answer a new request.
    pub fn push(&mut self, reply: Reply) {
        if self.answer == Answer::Ack {
            self.answer = Answer::None;
        }
        self.queue.push_back(reply);
    }

    /// Answer a request that came again: in PSN order among what waits, and not twice.
    pub fn replay(&mut self, reply: Reply, depth: usize) {
        let at = self.queue.partition_point(|r| r.end <= reply.first);
        if let Some(waiting) = self.queue.get_mut(at) {
            let within = waiting.first <= reply.first && reply.end <= waiting.end;
            if within && waiting.next <= reply.first {
                return;
            }
            if within && waiting.end == reply.end {
                // All from here on is wanted again: the peer goes back, and so do we.
                waiting.next = reply.first;
                waiting.again = true;
                return;
            }
        }
        if self.queue.len() < depth + REPLAYS_MAX {
            self.queue.insert(at, reply);
        }
    }

    /// Send what there is room for. False if a READ can no longer be answered, which ends the connection.
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

/// Send one packet of a reply.
fn send<E: Env>(core: &mut Core, reply: &mut Reply, credits: u8, tx: &mut TxBatch, env: &mut E) -> Result<(), ()> {
    let psn = reply.next;
    let aeth = Some(Aeth::new(Syndrome::Ack(credits), reply.msn));
    let mut ext = Headers { aeth, ..Headers::default() };
    match reply.what {
        Answered::Atomic(original) => {
            ext.atomic_ack = Some(AtomicAckEth::new(original));
            core.begin(tx, Kind::AtomicAcknowledge, psn, Bits::default(), &ext, 0);
        }
        Answered::Done => core.begin(tx, Kind::ReadResponseOnly, psn, Bits::default(), &ext, 0),
        Answered::Read { pd, rkey, va, len } => {
            let mtu = u64::from(core.mtu());
            let offset = (psn - reply.first) * mtu;
            let bytes = len.saturating_sub(offset).min(mtu);
            // The key is looked at for each packet: the region may go while a long READ streams.
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
            // A program may go on writing to what others read. A packet that comes to harm by it is missed at once where
            // many follow; where none does it would take a timeout.
            if reply.again || len.saturating_sub(offset) <= UNSTEADY_BYTES {
                tx.unsteady();
            }
        }
    }
    reply.next += 1;
    Ok(())
}
