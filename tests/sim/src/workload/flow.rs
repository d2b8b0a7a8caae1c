//! One direction of a queue pair: its operations, prepared with their memory, and the expected result of each.

use std::collections::VecDeque;

use weft_verbs::{
    Access, QpType, RemoteTarget, SendFlags, SendOp, SendWr, Sge, UdTarget, VerbsError, Wc, WcOpcode, WcStatus,
};

use super::plan::PairPlan;
use crate::end::End;
use crate::memory::pattern_fill;
use crate::rng::{Rng, mix};
use crate::world::World;

/// A message that consumes a receive, as the receiver must see it.
#[derive(Clone, Debug)]
pub struct Message {
    /// Bytes that arrive in the receive's buffer (none for WRITE with immediate).
    pub data: Vec<u8>,
    /// Byte length in the completion.
    pub byte_len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Opcode of the completion.
    pub opcode: WcOpcode,
}

#[derive(Clone, Debug)]
struct Operation {
    op: SendOp,
    sges: Vec<Sge>,
    flags: SendFlags,
    opcode: WcOpcode,
    /// Returned bytes (READ, atomics).
    result: Option<Vec<u8>>,
    message: Option<Message>,
}

/// One direction of traffic in progress.
pub struct Flow {
    /// Sender.
    pub from: End,
    /// Receiver.
    pub to: End,
    /// Service.
    pub kind: QpType,
    number: u64,
    ops: Vec<Operation>,
    next: usize,
    /// Signalled operations that have yet to complete.
    waiting: VecDeque<usize>,
    unsignalled: u32,
    signal_every: u32,
    sig_all: bool,
    ud: Option<UdTarget>,
    srqn: Option<u32>,
    /// Messages that the receiver has yet to see (reliable: in this order, each once).
    pub expected: VecDeque<Message>,
    /// All messages (unreliable: whatever arrives must be one of them).
    pub messages: Vec<Message>,
    /// Messages that arrived.
    pub arrived: usize,
    source: (u64, Vec<u8>),
    target: (u64, Vec<u8>),
    fixed: (u64, Vec<u8>),
    /// Target before anything happened, and each byte as it would be after its WRITE (unreliable).
    before: Vec<u8>,
}

const TAG_FLOW_SHIFT: u32 = 32;

/// Gap between pieces of local memory.
const GAP: usize = 8;

struct Preparing<'a> {
    rng: &'a mut Rng,
    plan: &'a PairPlan,
    source: Vec<u8>,
    source_addr: u64,
    lkey: u32,
    target: Vec<u8>,
    target_addr: u64,
    target_key: u32,
    fixed: Vec<u8>,
    fixed_addr: u64,
    fixed_key: u32,
    key: u64,
    /// Next unused byte of the target (unreliable: each WRITE has a place of its own).
    fresh: usize,
    /// A READ of changing memory is outstanding: the next operation that changes that memory must carry a fence.
    fence: bool,
}

impl Preparing<'_> {
    fn length(&mut self, limit: u32) -> u32 {
        let mtu = self.plan.options.mtu.bytes() as u64;
        let len = match self.rng.below(12) {
            0 => 0,
            1..=3 => self.rng.range(1, 64),
            4 => mtu - 1,
            5 => mtu,
            6 => mtu + 1,
            7 => mtu * 2,
            8 | 9 => self.rng.range(1, mtu * 4),
            _ => self.rng.range(1, u64::from(self.plan.len_max)),
        };
        (len as u32).min(limit)
    }

    /// Allocates local memory of `len` bytes in random pieces; all of it then holds `content`.
    fn local(&mut self, content: &[u8], align: usize) -> Vec<Sge> {
        let sge_max = self.plan.options.cap.max_send_sge as u64;
        let count = self.rng.range(1, sge_max);
        let mut sges = Vec::new();
        let mut done = 0;
        for piece in 0..count {
            let rest = content.len() - done;
            let len = if piece + 1 == count { rest } else { self.rng.below(rest as u64 + 1) as usize };
            if len == 0 && (rest > 0 || self.rng.chance(1, 2)) {
                continue;
            }
            self.source.resize((self.source.len() + GAP).next_multiple_of(align), 0xee);
            let at = self.source.len();
            self.source.extend_from_slice(&content[done..done + len]);
            sges.push(Sge { addr: self.source_addr + at as u64, length: len as u32, lkey: self.lkey });
            done += len;
        }
        sges
    }

    fn payload(&mut self, len: u32) -> Vec<u8> {
        self.key = mix(self.key + 1);
        let mut data = vec![0; len as usize];
        pattern_fill(self.key, 0, &mut data);
        data
    }

    fn flags(&mut self, len: u32, can_inline: bool) -> SendFlags {
        let mut flags = SendFlags::empty();
        if can_inline && len <= self.plan.options.cap.max_inline_data && self.rng.chance(1, 3) {
            flags |= SendFlags::INLINE;
        }
        if self.rng.chance(1, 6) {
            flags |= SendFlags::SOLICITED;
        }
        if self.rng.chance(1, 10) {
            flags |= SendFlags::FENCE;
        }
        flags
    }

    /// Returns the flags of an operation that changes the target.
    fn changes(&mut self) -> SendFlags {
        if std::mem::take(&mut self.fence) { SendFlags::FENCE } else { SendFlags::empty() }
    }

    fn send(&mut self, limit: u32) -> Operation {
        let len = self.length(limit);
        let data = self.payload(len);
        let imm = self.rng.chance(1, 3).then(|| self.rng.bits() as u32);
        let op = imm.map_or(SendOp::Send, SendOp::SendImm);
        let mut sges = self.local(&data, 1);
        let flags = self.flags(len, true);
        if flags.contains(SendFlags::INLINE) {
            sges.iter_mut().for_each(|sge| sge.lkey = 0x0dead);
        }
        let message = Message { data, byte_len: len, imm, opcode: WcOpcode::Recv };
        Operation { op, sges, flags, opcode: WcOpcode::Send, result: None, message: Some(message) }
    }

    fn write(&mut self, reliable: bool) -> Operation {
        let len = self.length(self.plan.len_max);
        let data = self.payload(len);
        let at = if reliable {
            self.rng.below((self.target.len() - len as usize) as u64 + 1) as usize
        } else {
            let at = self.fresh;
            self.fresh += len as usize + GAP;
            at
        };
        self.target[at..at + len as usize].copy_from_slice(&data);
        let place = RemoteTarget { addr: self.target_addr + at as u64, rkey: self.target_key };
        let imm = self.rng.chance(1, 3).then(|| self.rng.bits() as u32);
        let op = imm.map_or(SendOp::Write(place), |imm| SendOp::WriteImm(place, imm));
        let sges = self.local(&data, 1);
        let flags = self.flags(len, true) | self.changes();
        let message =
            imm.map(|imm| Message { data: vec![], byte_len: len, imm: Some(imm), opcode: WcOpcode::RecvRdmaWithImm });
        Operation { op, sges, flags, opcode: WcOpcode::RdmaWrite, result: None, message }
    }

    fn read(&mut self) -> Operation {
        let len = self.length(self.plan.len_max) as usize;
        let changing = self.rng.chance(1, 2);
        let (from, addr, rkey) = if changing {
            (&self.target, self.target_addr, self.target_key)
        } else {
            (&self.fixed, self.fixed_addr, self.fixed_key)
        };
        let at = self.rng.below((from.len() - len) as u64 + 1) as usize;
        let result = from[at..at + len].to_vec();
        let place = RemoteTarget { addr: addr + at as u64, rkey };
        self.fence |= changing;
        // The model of the source memory holds the result from the start; the memory itself gets it from the READ.
        let sges = self.local(&result, 1);
        let flags = self.flags(u32::MAX, false);
        let op = SendOp::Read(place);
        Operation { op, sges, flags, opcode: WcOpcode::RdmaRead, result: Some(result), message: None }
    }

    fn word(&mut self) -> (usize, RemoteTarget) {
        let at = self.rng.below(self.target.len() as u64 / 8) as usize * 8;
        // Few addresses, so that atomics collide.
        let at = if self.rng.chance(2, 3) { at % 32 } else { at };
        (at, RemoteTarget { addr: self.target_addr + at as u64, rkey: self.target_key })
    }

    fn atomic(&mut self) -> Operation {
        let (at, target) = self.word();
        let old = u64::from_ne_bytes(self.target[at..at + 8].try_into().expect("a word"));
        let (op, new, opcode) = if self.rng.chance(1, 2) {
            let add = self.rng.bits();
            (SendOp::FetchAdd { target, add }, old.wrapping_add(add), WcOpcode::FetchAdd)
        } else {
            let compare = if self.rng.chance(2, 3) { old } else { self.rng.bits() };
            let swap = self.rng.bits();
            let new = if compare == old { swap } else { old };
            (SendOp::CompareSwap { target, compare, swap }, new, WcOpcode::CompSwap)
        };
        self.target[at..at + 8].copy_from_slice(&new.to_ne_bytes());
        let result = old.to_ne_bytes().to_vec();
        let at = self.source.len().next_multiple_of(8);
        self.source.resize(at, 0xee);
        self.source.extend_from_slice(&result);
        let sges = vec![Sge { addr: self.source_addr + at as u64, length: 8, lkey: self.lkey }];
        let flags = self.flags(u32::MAX, false) | self.changes();
        Operation { op, sges, flags, opcode, result: Some(result), message: None }
    }

    fn atomic_write(&mut self) -> Operation {
        let (at, target) = self.word();
        let data = self.payload(8);
        self.target[at..at + 8].copy_from_slice(&data);
        let sges = self.local(&data, 1);
        let flags = self.flags(8, true) | self.changes();
        let op = SendOp::AtomicWrite(target);
        Operation { op, sges, flags, opcode: WcOpcode::AtomicWrite, result: None, message: None }
    }

    fn flush(&mut self) -> Operation {
        let length = self.rng.range(1, self.target.len() as u64) as u32;
        let at = self.rng.below(self.target.len() as u64 - u64::from(length) + 1);
        let target = RemoteTarget { addr: self.target_addr + at, rkey: self.target_key };
        let placement = self.rng.range(1, 3) as u8;
        let level = self.rng.below(2) as u8;
        let op = SendOp::Flush { target, length, placement, level };
        let flags = self.flags(u32::MAX, false);
        Operation { op, sges: vec![], flags, opcode: WcOpcode::Flush, result: None, message: None }
    }

    fn operation(&mut self, kind: QpType) -> Operation {
        match kind {
            QpType::Ud => self.send(self.plan.len_max.min(self.plan.options.mtu.bytes() as u32)),
            QpType::Uc => match self.rng.below(2) {
                0 => self.send(self.plan.len_max),
                _ => self.write(false),
            },
            _ => match self.rng.below(12) {
                0..=3 => self.send(self.plan.len_max),
                4..=6 => self.write(true),
                7 | 8 => self.read(),
                9 | 10 => self.atomic(),
                _ => match self.rng.below(2) {
                    0 => self.atomic_write(),
                    _ => self.flush(),
                },
            },
        }
    }
}

impl Flow {
    /// Prepares `count` operations from one end to the other.
    pub fn new(
        world: &mut World,
        number: usize,
        plan: &PairPlan,
        from: End,
        to: End,
        count: usize,
        srqn: Option<u32>,
    ) -> Flow {
        let mut rng = Rng::new(world.rng.bits());
        let kind = plan.options.kind;
        let reliable = kind.is_reliable();
        let room = plan.len_max as usize + 64;
        let target_len = if reliable { room } else { (room + GAP) * count }.next_multiple_of(8);
        let source_len = (room + 64 + GAP * 32) * count;
        let (source_addr, lkey) = world.hosts[from.host].region(from.pd, source_len, Access::LOCAL_WRITE);
        // Direct copies never touch on-demand memory.
        let on_demand = if rng.chance(1, 4) { Access::empty() } else { Access::ON_DEMAND };
        let access = Access::all() - Access::ZERO_BASED - on_demand;
        let (target_addr, target_key) = world.hosts[to.host].region(to.pd, target_len, access);
        let read_only = Access::REMOTE_READ;
        let (fixed_addr, fixed_key) = world.hosts[to.host].region(to.pd, room, read_only);
        let mut before = vec![0; target_len];
        pattern_fill(rng.bits(), 0, &mut before);
        world.hosts[to.host].fill(target_addr, &before);
        let mut fixed = vec![0; room];
        pattern_fill(rng.bits(), 0, &mut fixed);
        world.hosts[to.host].fill(fixed_addr, &fixed);

        let key = rng.bits();
        let mut preparing = Preparing {
            rng: &mut rng,
            plan,
            source: Vec::new(),
            source_addr,
            lkey,
            target: before.clone(),
            target_addr,
            target_key,
            fixed,
            fixed_addr,
            fixed_key,
            key,
            fresh: 0,
            fence: false,
        };
        let ops: Vec<Operation> = (0..count).map(|_| preparing.operation(kind)).collect();
        let Preparing { source, target, fixed, .. } = preparing;
        assert!(source.len() <= source_len, "the source region is too small");

        // Initial memory: the results are not there yet.
        let mut initial = source.clone();
        for op in ops.iter().filter(|op| op.result.is_some()) {
            for sge in &op.sges {
                let at = (sge.addr - source_addr) as usize;
                initial[at..at + sge.length as usize].fill(0x55);
            }
        }
        world.hosts[from.host].fill(source_addr, &initial);
        let messages: Vec<Message> = ops.iter().filter_map(|op| op.message.clone()).collect();
        let ud = (kind == QpType::Ud).then(|| UdTarget {
            av: world.hosts[from.host].path_to(world.hosts[to.host].gid()),
            remote_qpn: to.qpn,
            remote_qkey: plan.options.qkey,
        });
        Flow {
            from,
            to,
            kind,
            number: number as u64,
            ops,
            next: 0,
            waiting: VecDeque::new(),
            unsignalled: 0,
            signal_every: plan.signal_every.min(plan.options.cap.max_send_wr),
            sig_all: plan.options.sq_sig_all,
            ud,
            srqn,
            expected: messages.iter().cloned().collect(),
            messages,
            arrived: 0,
            source: (source_addr, source),
            target: (target_addr, target),
            fixed: (fixed_addr, fixed),
            before,
        }
    }

    /// Posts as many operations as the send queue takes.
    pub fn post(&mut self, world: &mut World) -> Result<(), String> {
        while let Some(operation) = self.ops.get(self.next) {
            let last = self.next + 1 == self.ops.len();
            let mut flags = operation.flags;
            if last || self.unsignalled + 1 >= self.signal_every {
                flags |= SendFlags::SIGNALED;
            }
            let wr = SendWr {
                wr_id: self.number << TAG_FLOW_SHIFT | self.next as u64,
                flags,
                op: operation.op,
                sges: &operation.sges,
                ud: self.ud,
                xrc_srqn: self.srqn,
            };
            match world.hosts[self.from.host].hca.post_send(world.now, self.from.qp, &wr) {
                Ok(()) => {}
                Err(VerbsError::NoMemory(_)) => return Ok(()),
                Err(error) => return Err(format!("post_send of {operation:?}: {error}")),
            }
            let inline = flags.contains(SendFlags::INLINE);
            if inline {
                // Inline data was copied already: later changes of the memory must not matter.
                for sge in &operation.sges {
                    let at = (sge.addr - self.source.0) as usize;
                    let zeros = vec![0xaa; sge.length as usize];
                    self.source.1[at..at + zeros.len()].copy_from_slice(&zeros);
                    world.hosts[self.from.host].fill(sge.addr, &zeros);
                }
            }
            if self.sig_all || flags.contains(SendFlags::SIGNALED) {
                self.waiting.push_back(self.next);
                self.unsignalled = 0;
            } else {
                self.unsignalled += 1;
            }
            self.next += 1;
        }
        Ok(())
    }

    /// Handles a completion of the send queue.
    pub fn on_sent(&mut self, world: &mut World, wc: &Wc) -> Result<(), String> {
        let index = (wc.wr_id & 0xffff_ffff) as usize;
        let Some(expected) = self.waiting.pop_front() else {
            return Err(format!("a completion that nothing waits for: {wc:?}"));
        };
        let operation = &self.ops[expected];
        if index != expected {
            return Err(format!("completion of operation {index} where {expected} was next: {wc:?}"));
        }
        if wc.status != WcStatus::Success || wc.opcode != operation.opcode || wc.qp_num != self.from.qpn {
            return Err(format!("operation {index} {operation:?} completed with {wc:?}"));
        }
        if let Some(result) = &operation.result {
            if wc.byte_len as usize != result.len() {
                return Err(format!("operation {index} of {} bytes completed with {wc:?}", result.len()));
            }
            let mut found = Vec::new();
            for sge in &operation.sges {
                found.extend(world.hosts[self.from.host].look(sge.addr, sge.length as usize));
            }
            if found != *result {
                return Err(format!("operation {index} {operation:?} brought other bytes"));
            }
        }
        Ok(())
    }

    /// Returns the number of operations posted, and of those waited for.
    pub fn standing(&self) -> (usize, usize) {
        (self.next, self.waiting.len())
    }

    /// Returns whether all operations were posted and have completed.
    pub fn is_sent(&self) -> bool {
        self.next == self.ops.len() && self.waiting.is_empty()
    }

    /// Returns whether every expected result has happened.
    pub fn is_done(&self) -> bool {
        self.is_sent() && (!self.kind.is_reliable() || self.expected.is_empty())
    }

    /// Compares memory with its expected contents.
    pub fn check_memory(&self, world: &mut World) -> Result<(), String> {
        let (from, to) = (self.from.host, self.to.host);
        same("source", &world.hosts[from].look(self.source.0, self.source.1.len()), &self.source.1)?;
        same("read-only", &world.hosts[to].look(self.fixed.0, self.fixed.1.len()), &self.fixed.1)?;
        let target = world.hosts[to].look(self.target.0, self.target.1.len());
        if self.kind.is_reliable() {
            return same("target", &target, &self.target.1);
        }
        let wrong = (0..target.len()).find(|&i| target[i] != self.before[i] && target[i] != self.target.1[i]);
        wrong.map_or(Ok(()), |at| Err(format!("target byte {at} is neither old nor new")))
    }

    /// Describes the progress, for failure messages.
    pub fn describe(&self) -> String {
        format!(
            "flow {} {:?} host {} -> {}: posted {}/{}, waiting {:?}, messages arrived {}/{}",
            self.number,
            self.kind,
            self.from.host,
            self.to.host,
            self.next,
            self.ops.len(),
            self.waiting.front().map(|i| (*i, &self.ops[*i].op)),
            self.arrived,
            self.messages.len()
        )
    }
}

fn same(what: &str, found: &[u8], want: &[u8]) -> Result<(), String> {
    match found.iter().zip(want).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => {
            let count = found.iter().zip(want).filter(|(a, b)| a != b).count();
            Err(format!("{what} memory differs in {count} bytes, first at {at} of {}", want.len()))
        }
    }
}
