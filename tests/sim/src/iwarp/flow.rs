//! The requests of one side, and the model of what they do. Each side has memory of its own at the peer, so that the two
//! sides' requests do not meet: a region of slots for READs and WRITEs, and words for atomics.

use std::collections::VecDeque;

use weft_transport::Qp;
use weft_verbs::{
    Access, Instant, RecvWr, RemoteTarget, SendFlags, SendOp, SendWr, Sge, Wc, WcFlags, WcOpcode, WcStatus,
};

use super::host::{Host, Region};
use super::run::Outcome;
use crate::Rng;

/// Bytes of a slot, and their number.
const SLOT: u64 = 24 << 10;
const SLOTS: u64 = 8;
/// Words for atomics.
const WORDS: u64 = 4;
/// Requests of a side that are not complete.
const OPEN_MAX: usize = 12;

/// Expectation of a request.
#[derive(Debug)]
struct Posted {
    op: SendOp,
    len: u32,
    /// Slot that it reads.
    reads: Option<u64>,
    /// Where its answer goes, and what that is.
    answer: Option<(Vec<Sge>, Vec<u8>)>,
    signaled: bool,
}

/// Expectation of a receive at the peer.
#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    into: Vec<Sge>,
    opcode: WcOpcode,
    byte_len: u32,
    imm: Option<u32>,
    invalidated: Option<u32>,
    solicited: bool,
}

/// Requests of one side.
pub(super) struct Flow {
    extensions: bool,
    source: Region,
    source_bytes: Vec<u8>,
    sink: Region,
    /// At the peer.
    slots: Region,
    words: Region,
    into: Region,
    model: Vec<u8>,
    model_words: [u64; WORDS as usize],
    posted: VecDeque<(u64, Posted)>,
    messages: VecDeque<(u64, Message)>,
    next_id: u64,
    next_recv: u64,
    /// Receives that the peer's program posts later, in order.
    late: VecDeque<(u64, Message)>,
    next_key: u32,
    pub left: u64,
    failed: bool,
    /// A request of this side is invalid on purpose.
    pub misbehaved: bool,
}

fn random(rng: &mut Rng, len: u64) -> Vec<u8> {
    (0..len).map(|_| rng.bits() as u8).collect()
}

impl Flow {
    /// Registers the memory of a side's requests, at both ends.
    pub fn new(rng: &mut Rng, near: &mut Host, far: &mut Host, key: u32, extensions: bool) -> Flow {
        let source_bytes = random(rng, SLOT);
        let model = random(rng, SLOT * SLOTS);
        let model_words = [(); WORDS as usize].map(|()| rng.bits());
        let words: Vec<u8> = model_words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let remote = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        Flow {
            extensions,
            source: near.region(key, &source_bytes, Access::empty()),
            source_bytes,
            sink: near.region(key + 1, &vec![0; (SLOT * OPEN_MAX as u64) as usize], Access::LOCAL_WRITE),
            slots: far.region(key + 2, &model, remote),
            words: far.region(key + 3, &words, Access::LOCAL_WRITE | Access::REMOTE_ATOMIC),
            into: far.region(key + 4, &vec![0; (SLOT * OPEN_MAX as u64) as usize], Access::LOCAL_WRITE),
            model,
            model_words,
            posted: VecDeque::new(),
            messages: VecDeque::new(),
            next_id: 1,
            next_recv: 1,
            late: VecDeque::new(),
            next_key: key + 100,
            left: rng.range(5, 40),
            failed: false,
            misbehaved: false,
        }
    }

    pub fn is_done(&self) -> bool {
        self.left == 0 && self.posted.is_empty() && self.messages.is_empty() && self.late.is_empty()
    }

    pub fn is_idle(&self) -> bool {
        self.posted.is_empty() && self.messages.is_empty()
    }

    /// Cuts a range of a region into a list of one to three elements, with empty ones between.
    fn list(rng: &mut Rng, region: Region, offset: u64, len: u64) -> Vec<Sge> {
        let (mut list, mut at) = (Vec::new(), 0);
        for left in (0..rng.range(1, 3)).rev() {
            let length = if left == 0 { len - at } else { rng.below(len - at + 1) };
            list.push(Sge { addr: region.addr + offset + at, length: length as u32, lkey: region.key });
            at += length;
        }
        list
    }

    fn length(rng: &mut Rng) -> u64 {
        let most = rng.pick(&[0, 1, 9, 600, 3000, SLOT]);
        rng.range(0, most)
    }

    /// Posts the next request, with the receive that it needs at the peer.
    pub fn post(&mut self, rng: &mut Rng, now: Instant, [near, far]: [(&mut Qp, &mut Host); 2], met: &mut Outcome) {
        if self.left == 0 || self.posted.len() >= OPEN_MAX || self.messages.len() + self.late.len() >= OPEN_MAX {
            return;
        }
        self.left -= 1;
        let len = Self::length(rng);
        let from = rng.below(SLOT - len + 1);
        let slot = rng.below(SLOTS);
        let at = slot * SLOT + rng.below(SLOT - len + 1);
        let target = RemoteTarget { addr: self.slots.addr + at, rkey: self.slots.key };
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, rng.chance(3, 4));
        flags.set(SendFlags::SOLICITED, rng.chance(1, 4));
        flags.set(SendFlags::FENCE, rng.chance(1, 8));
        let kind = rng.below(if self.extensions { 7 } else { 4 });
        let (op, answers) = match kind {
            0 => (SendOp::Send, false),
            1 => {
                self.next_key += 1;
                far.1.region(self.next_key, &[0; 8], Access::REMOTE_READ);
                (SendOp::SendInv(self.next_key), false)
            }
            2 => (SendOp::Write(target), false),
            3 => (SendOp::Read(target), true),
            4 => (SendOp::WriteImm(target, rng.bits() as u32), false),
            word => (self.atomic(rng, word == 5), true),
        };
        let is_word = kind > 4;
        if matches!(op, SendOp::Write(_) | SendOp::WriteImm(..)) {
            // A WRITE may overtake the answer to an earlier READ of the same memory.
            if self.posted.iter().any(|(_, posted)| posted.reads == Some(slot)) {
                flags |= SendFlags::FENCE;
            }
            self.model[at as usize..(at + len) as usize]
                .copy_from_slice(&self.source_bytes[from as usize..(from + len) as usize]);
        }
        let bytes = self.source_bytes[from as usize..(from + len) as usize].to_vec();
        if op.takes_receive() {
            self.make_recv(rng, &op, &bytes, flags);
            if !rng.chance(1, 4) {
                self.post_recvs(now, far);
            }
        }
        let id = self.next_id;
        let sink = (id % OPEN_MAX as u64) * SLOT;
        let sges = match (answers, is_word) {
            (true, true) => Self::list(rng, self.sink, sink, 8),
            (true, false) => Self::list(rng, self.sink, sink, len),
            _ => Self::list(rng, self.source, from, len),
        };
        if !answers && len <= 256 && rng.chance(1, 3) {
            flags |= SendFlags::INLINE;
        }
        let expected = match op {
            SendOp::Read(_) => self.model[at as usize..(at + len) as usize].to_vec(),
            _ => self.execute_word(&op),
        };
        let posted = Posted {
            op,
            len: if is_word { 8 } else { len as u32 },
            reads: matches!(op, SendOp::Read(_)).then_some(slot),
            answer: answers.then(|| (sges.clone(), expected)),
            signaled: flags.contains(SendFlags::SIGNALED),
        };
        let wr = SendWr { wr_id: id, flags, op, sges: &sges, ud: None, xrc_srqn: None };
        near.0.post_send(now, &wr, near.1).expect("the queue has room");
        self.posted.push_back((id, posted));
        self.next_id += 1;
        met.count(op.info().name);
        if op.imm().is_some() {
            met.count("immediate data");
        }
    }

    fn atomic(&self, rng: &mut Rng, adds: bool) -> SendOp {
        let word = rng.below(WORDS);
        let target = RemoteTarget { addr: self.words.addr + word * 8, rkey: self.words.key };
        if adds {
            return SendOp::FetchAdd { target, add: rng.bits() };
        }
        let hit = rng.chance(1, 2);
        let compare = if hit { self.model_words[word as usize] } else { rng.bits() };
        SendOp::CompareSwap { target, compare, swap: rng.bits() }
    }

    /// Executes an atomic in the model; returns the bytes of its answer.
    fn execute_word(&mut self, op: &SendOp) -> Vec<u8> {
        let (target, apply): (_, Box<dyn Fn(u64) -> u64>) = match *op {
            SendOp::FetchAdd { target, add } => (target, Box::new(move |old| old.wrapping_add(add))),
            SendOp::CompareSwap { target, compare, swap } => {
                (target, Box::new(move |old| if old == compare { swap } else { old }))
            }
            _ => return Vec::new(),
        };
        let word = &mut self.model_words[((target.addr - self.words.addr) / 8) as usize];
        let old = std::mem::replace(word, apply(*word));
        old.to_ne_bytes().to_vec()
    }

    fn make_recv(&mut self, rng: &mut Rng, op: &SendOp, bytes: &[u8], flags: SendFlags) {
        let id = self.next_recv;
        self.next_recv += 1;
        let len = bytes.len() as u64;
        let room = (len + rng.below(100)).min(SLOT);
        let into = Self::list(rng, self.into, (id % OPEN_MAX as u64) * SLOT, room);
        let writes = matches!(op, SendOp::WriteImm(..));
        let message = Message {
            bytes: if writes { Vec::new() } else { bytes.to_vec() },
            into: into.clone(),
            opcode: if writes { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv },
            byte_len: len as u32,
            imm: op.imm(),
            invalidated: op.invalidates(),
            solicited: flags.contains(SendFlags::SOLICITED),
        };
        self.late.push_back((id, message));
    }

    /// Posts the receives that wait for the peer's program.
    pub fn post_recvs(&mut self, now: Instant, far: (&mut Qp, &mut Host)) {
        while let Some((id, message)) = self.late.pop_front() {
            if far.0.post_recv(&RecvWr { wr_id: id, sges: &message.into }, far.1).is_ok() {
                self.messages.push_back((id, message));
                far.0.resume_stream(now, far.1);
            }
        }
    }

    /// Posts a request that the peer must refuse.
    pub fn misbehave(&mut self, rng: &mut Rng, now: Instant, near: (&mut Qp, &mut Host)) {
        let bad = RemoteTarget { addr: self.slots.addr, rkey: self.source.key + 77 };
        let beyond = RemoteTarget { addr: self.slots.addr + SLOT * SLOTS - 3, rkey: self.slots.key };
        let op = rng.pick(&[
            SendOp::Write(bad),
            SendOp::Read(bad),
            SendOp::Write(beyond),
            SendOp::Read(beyond),
            // No receive is posted for it, or one that is too short for nothing more.
            SendOp::Send,
        ]);
        let region = if matches!(op, SendOp::Read(_)) { self.sink } else { self.source };
        let sge = Sge { addr: region.addr, length: 100, lkey: region.key };
        let wr = SendWr { wr_id: self.next_id, flags: SendFlags::SIGNALED, op, sges: &[sge], ud: None, xrc_srqn: None };
        near.0.post_send(now, &wr, near.1).expect("the queue has room");
        let posted = Posted { op, len: 100, reads: None, answer: None, signaled: true };
        self.posted.push_back((self.next_id, posted));
        self.next_id += 1;
        (self.misbehaved, self.left) = (true, 0);
    }

    fn gather(host: &Host, sges: &[Sge], len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = sges.iter().flat_map(|sge| host.memory.bytes(sge.addr, sge.length as usize)).collect();
        bytes.truncate(len);
        bytes
    }

    /// Checks a completion of this side's send queue.
    pub fn on_send(&mut self, wc: &Wc, near: &Host) -> Result<(), String> {
        loop {
            let (id, posted) = self.posted.pop_front().ok_or_else(|| format!("a completion of nothing: {wc:?}"))?;
            if id != wc.wr_id {
                // Unsignaled requests before it are done.
                if posted.signaled || wc.status == WcStatus::Success && self.failed {
                    return Err(format!("{posted:?} should have completed before {wc:?}"));
                }
                self.check_answer(&posted, near)?;
                continue;
            }
            if wc.status != WcStatus::Success {
                self.failed = true;
                return Ok(());
            }
            if self.failed || !posted.signaled || wc.opcode != posted.op.info().completion || wc.byte_len != posted.len
            {
                return Err(format!("{posted:?} completed as {wc:?}"));
            }
            return self.check_answer(&posted, near);
        }
    }

    fn check_answer(&self, posted: &Posted, near: &Host) -> Result<(), String> {
        match &posted.answer {
            Some((sges, expected)) if Self::gather(near, sges, expected.len()) != *expected => {
                Err(format!("the answer to {:?} is wrong", posted.op))
            }
            _ => Ok(()),
        }
    }

    /// Takes unsignaled requests at the tail of a finished flow for done: all their effects are checked.
    pub fn settle(&mut self, is_drained: bool, near: &Host) -> Result<(), String> {
        if is_drained && self.left == 0 {
            while let Some((_, posted)) = self.posted.front().filter(|(_, posted)| !posted.signaled) {
                self.check_answer(posted, near)?;
                self.posted.pop_front();
            }
        }
        Ok(())
    }

    /// Checks a completion of the peer's receive queue.
    pub fn on_recv(&mut self, wc: &Wc, far: &Host) -> Result<(), String> {
        let (id, message) = self.messages.pop_front().ok_or_else(|| format!("a receive of nothing: {wc:?}"))?;
        if id != wc.wr_id {
            return Err(format!("receive {id} should have completed before {wc:?}"));
        }
        if wc.status != WcStatus::Success {
            return Ok(());
        }
        let flags = match (message.imm, message.invalidated) {
            (Some(_), _) => WcFlags::WITH_IMM,
            (_, Some(_)) => WcFlags::WITH_INV,
            _ => WcFlags::empty(),
        };
        let data = message.imm.or(message.invalidated).unwrap_or(0);
        let expected = (message.opcode, message.byte_len, flags, data, message.solicited);
        let got = (wc.opcode, wc.byte_len, wc.flags, wc.imm_data, wc.solicited);
        if got != expected {
            return Err(format!("{wc:?} instead of {expected:?}"));
        }
        if Self::gather(far, &message.into, message.bytes.len()) != message.bytes {
            return Err(format!("the bytes of {wc:?} are wrong"));
        }
        Ok(())
    }

    /// Compares the peer's memory with the model.
    pub fn check_memory(&self, far: &Host) -> Result<(), String> {
        let slots = far.memory.bytes(self.slots.addr, self.model.len());
        if let Some(at) = slots.iter().zip(&self.model).position(|(is, should)| is != should) {
            let wrong = slots.iter().zip(&self.model).filter(|(is, should)| is != should).count();
            return Err(format!("the peer's memory differs from the model in {wrong} bytes from {at} on"));
        }
        let words: Vec<u8> = self.model_words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        if far.memory.bytes(self.words.addr, words.len()) != words {
            return Err("the peer's words differ from the model".into());
        }
        Ok(())
    }
}
