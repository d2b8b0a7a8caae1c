//! Execution of frames: checks rights and lengths, writes memory, completes receives (IBA 9.7.4).

use smallvec::SmallVec;
use weft_verbs::{Access, MSG_SIZE_MAX, PdId, QpType, SGE_MAX, Sge, WcFlags, WcOpcode, WcStatus};
use weft_wire::NakCode;

use crate::core::Core;
use crate::rq::RecvQueue;
use crate::same_host::{Frame, FrameFlags, FrameKind, HostRange, PeerId};
use crate::{Env, SameHost, access, segment};

use super::replies::Found;
use super::responder::{Message, Responder};

/// Code of a frame dropped because the peer cannot fetch the memory that it names: the requester must send the bytes.
pub(super) const CANNOT_FETCH: u8 = 1;

/// Size of a list element in a lane.
const SGE_BYTES: usize = size_of::<Sge>();

/// Reason why a request is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// There is no receive: the peer may retry.
    NotReady,
    /// This process cannot read the peer's memory.
    CannotFetch,
    /// The connection ends.
    Fatal {
        /// The NAK code for the peer.
        code: NakCode,
        /// Completion status of the receive in use, if there is one.
        recv: Option<WcStatus>,
    },
}

/// The request is invalid.
const INVALID: Refusal = Refusal::Fatal { code: NakCode::INVALID_REQUEST, recv: None };
/// The key, the range or the right is wrong.
const NO_ACCESS: Refusal = Refusal::Fatal { code: NakCode::REMOTE_ACCESS, recv: None };

impl From<NakCode> for Refusal {
    fn from(code: NakCode) -> Refusal {
        Refusal::Fatal { code, recv: None }
    }
}

/// A fault of the local receive.
fn local_fault(status: WcStatus) -> Refusal {
    Refusal::Fatal { code: NakCode::REMOTE_OPERATIONAL, recv: Some(status) }
}

impl Responder {
    /// Executes the expected frame.
    #[inline]
    pub(super) fn execute<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        peer: PeerId,
        frame: &Frame,
        env: &mut E,
    ) -> Result<(), Refusal> {
        match frame.kind {
            FrameKind::Send => self.send(core, rq, peer, frame, env),
            FrameKind::Write => self.write(core, rq, frame, env),
            _ => self.answer(core, frame, env),
        }
    }

    /// Executes a request whose answer is more than an acknowledgement.
    fn answer<E: Env>(&mut self, core: &Core, frame: &Frame, env: &mut E) -> Result<(), Refusal> {
        let depth = usize::from(core.attr.max_dest_rd_atomic);
        // The peer may have this many outstanding, and no more (IBA C9-115).
        if self.message != Message::Idle || self.replies.fresh() >= depth {
            return Err(INVALID);
        }
        let pd = self.domain(core, frame, env)?;
        let mut value = [0; 16];
        env.memory().peek(0, &mut value);
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| value[at + i]));
        let found = match (frame.kind, frame.bytes) {
            (FrameKind::Read, _) => {
                let len = u64::from(frame.total);
                access::read(core, pd, frame.key, frame.addr, len, env)?;
                Found::Read { pd, key: frame.key, addr: frame.addr, len }
            }
            (FrameKind::CompareSwap, 16) => {
                let swap = Some((word(0), word(8)));
                Found::Value(access::atomic(core, pd, frame.key, frame.addr, swap, 0, env)?)
            }
            (FrameKind::FetchAdd, 8) => {
                Found::Value(access::atomic(core, pd, frame.key, frame.addr, None, word(0), env)?)
            }
            (FrameKind::AtomicWrite, 8) => {
                access::atomic_write(core, pd, frame.key, frame.addr, word(0).to_ne_bytes(), env)?;
                Found::Done
            }
            (FrameKind::Flush, _) => {
                let (placement, level) = (frame.code & 0xf, frame.code >> 4);
                access::flush(core, pd, frame.key, (frame.addr, u64::from(frame.total)), placement, level, env)?;
                Found::Done
            }
            _ => return Err(INVALID),
        };
        self.replies.push(frame.seq, frame.epoch, found, depth);
        Ok(())
    }

    /// Returns the protection domain to check a request against: XRC takes it from the SRQ that the frame names.
    fn domain<E: Env>(&mut self, core: &Core, frame: &Frame, env: &E) -> Result<PdId, Refusal> {
        if core.qp_type() != QpType::XrcRecv {
            return Ok(core.pd());
        }
        let xrcd = core.init.xrcd.ok_or(INVALID)?;
        let srq = env.xrc_srq(xrcd, frame.srqn).ok_or(INVALID)?;
        self.xrc = Some((frame.srqn, srq));
        Ok(srq.pd)
    }

    fn pd(&self, core: &Core) -> PdId {
        self.xrc.map_or(core.pd(), |(_, x)| x.pd)
    }

    /// Takes the receive for a message, unless an earlier attempt still holds it.
    #[inline]
    fn take_recv<E: Env>(&mut self, core: &Core, rq: &mut RecvQueue, env: &mut E) -> Result<(), Refusal> {
        if self.holds_recv {
            return Ok(());
        }
        let shared = if core.qp_type() == QpType::XrcRecv { self.xrc.map(|(_, x)| x.srq) } else { core.init.srq };
        let taken = match shared {
            Some(srq) => env.srq_take(srq).map(|recv| self.recv = recv).is_some(),
            None => rq.pop_into(&mut self.recv),
        };
        self.holds_recv = taken;
        if taken { Ok(()) } else { Err(Refusal::NotReady) }
    }

    /// Completes the receive.
    #[inline]
    fn complete<E: Env>(&mut self, core: &Core, frame: &Frame, opcode: WcOpcode, bytes: u64, env: &mut E) {
        let mut wc = core.wc(self.recv.wr_id, WcStatus::Success, opcode);
        wc.byte_len = bytes as u32;
        wc.solicited = frame.flags.contains(FrameFlags::SOLICITED);
        wc.src_qp = self.xrc.map_or(core.attr.dest_qpn, |(number, _)| number);
        if frame.flags.contains(FrameFlags::IMM) {
            wc.imm_data = frame.imm;
            wc.flags |= WcFlags::WITH_IMM;
        }
        if frame.flags.contains(FrameFlags::INV) {
            wc.imm_data = frame.imm;
            wc.flags |= WcFlags::WITH_INV;
        }
        self.holds_recv = false;
        core.complete_recv(env, self.xrc.map(|(_, x)| x.cq), wc);
    }

    #[inline]
    fn send<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        peer: PeerId,
        frame: &Frame,
        env: &mut E,
    ) -> Result<(), Refusal> {
        let offset = match (frame.flags.contains(FrameFlags::FIRST), self.message) {
            (true, Message::Idle) => 0,
            (false, Message::Send { offset }) => offset,
            _ => return Err(INVALID),
        };
        if offset == 0 {
            self.domain(core, frame, env)?;
            self.take_recv(core, rq, env)?;
        }
        let named = frame.flags.contains(FrameFlags::RENDEZVOUS);
        let bytes = u64::from(if named { frame.total } else { frame.bytes });
        let end = offset + bytes;
        if end > segment::total(&self.recv.sges) {
            return Err(Refusal::Fatal { code: NakCode::INVALID_REQUEST, recv: Some(WcStatus::LocLenErr) });
        }
        if named {
            self.fetch(core, peer, frame, env)?;
        } else {
            self.place(core, offset, frame.bytes, env)?;
        }
        if !frame.flags.contains(FrameFlags::LAST) {
            self.message = Message::Send { offset: end };
            return if bytes == 0 { Err(INVALID) } else { Ok(()) };
        }
        if frame.flags.contains(FrameFlags::INV) {
            env.invalidate_remote(self.pd(core), core.qpn, frame.imm)
                .map_err(|_| Refusal::Fatal { code: NakCode::REMOTE_ACCESS, recv: Some(WcStatus::RemInvReqErr) })?;
        }
        self.message = Message::Idle;
        self.complete(core, frame, WcOpcode::Recv, end, env);
        Ok(())
    }

    /// Stores the frame's payload at `offset` of the message.
    #[inline]
    fn place<E: Env>(&self, core: &Core, offset: u64, bytes: u32, env: &mut E) -> Result<(), Refusal> {
        let pd = self.pd(core);
        let mut at = 0;
        for part in segment::parts(&self.recv.sges, offset, u64::from(bytes)) {
            let addr = env.local(pd, &part, true).map_err(local_fault)?;
            env.memory().place(at, HostRange { addr, len: u64::from(part.length) });
            at += part.length;
        }
        Ok(())
    }

    /// Fetches a whole message from the sender's memory.
    fn fetch<E: Env>(&self, core: &Core, peer: PeerId, frame: &Frame, env: &mut E) -> Result<(), Refusal> {
        let list = named_list(frame, env)?;
        if segment::total(&list) != u64::from(frame.total) {
            return Err(INVALID);
        }
        let pd = self.pd(core);
        let mut at = 0;
        for from in list.iter().filter(|sge| sge.length != 0) {
            let mut within = 0;
            for part in segment::parts(&self.recv.sges, at, u64::from(from.length)) {
                let addr = env.local(pd, &part, true).map_err(local_fault)?;
                let to = HostRange { addr, len: u64::from(part.length) };
                if !env.memory().fetch(peer, from, within, to) {
                    return Err(Refusal::CannotFetch);
                }
                within += u64::from(part.length);
            }
            at += u64::from(from.length);
        }
        Ok(())
    }

    fn write<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        frame: &Frame,
        env: &mut E,
    ) -> Result<(), Refusal> {
        let first = frame.flags.contains(FrameFlags::FIRST);
        let last = frame.flags.contains(FrameFlags::LAST);
        let (key, addr, left, total) = match (first, self.message) {
            (true, Message::Idle) => {
                self.open_write(core, frame, env)?;
                let total = u64::from(frame.total);
                (frame.key, frame.addr, total, total)
            }
            (false, Message::Write { key, addr, left, total }) => (key, addr, left, total),
            _ => return Err(INVALID),
        };
        let placed = first && last && frame.flags.contains(FrameFlags::DATA_IN_PLACE);
        let len = if placed { left } else { u64::from(frame.bytes) };
        // The length must be exactly what the first frame announced.
        if if last { len != left } else { len >= left || len == 0 } {
            return Err(INVALID);
        }
        if last && frame.flags.contains(FrameFlags::IMM) {
            self.take_recv(core, rq, env)?;
        }
        if len != 0 && !placed {
            let host =
                env.remote(self.pd(core), core.qpn, key, addr, len, Access::REMOTE_WRITE).map_err(|_| NO_ACCESS)?;
            env.memory().place(0, HostRange { addr: host, len });
        }
        if !last {
            self.message = Message::Write { key, addr: addr.wrapping_add(len), left: left - len, total };
            return Ok(());
        }
        self.message = Message::Idle;
        if frame.flags.contains(FrameFlags::IMM) {
            self.complete(core, frame, WcOpcode::RecvRdmaWithImm, total, env);
        }
        Ok(())
    }

    /// Checks the first frame of a WRITE: right, length, and key for the whole message.
    fn open_write<E: Env>(&mut self, core: &Core, frame: &Frame, env: &E) -> Result<(), Refusal> {
        if !core.attr.qp_access.contains(Access::REMOTE_WRITE) || frame.total > MSG_SIZE_MAX {
            return Err(INVALID);
        }
        let pd = self.domain(core, frame, env)?;
        if frame.total != 0 {
            let len = u64::from(frame.total);
            env.remote(pd, core.qpn, frame.key, frame.addr, len, Access::REMOTE_WRITE).map_err(|_| NO_ACCESS)?;
        }
        Ok(())
    }
}

/// Returns the list in a frame's payload.
fn named_list<E: Env>(frame: &Frame, env: &mut E) -> Result<SmallVec<[Sge; 4]>, Refusal> {
    let bytes = frame.bytes as usize;
    if !bytes.is_multiple_of(SGE_BYTES) || bytes / SGE_BYTES > SGE_MAX as usize {
        return Err(INVALID);
    }
    let mut list = SmallVec::new();
    for at in (0..bytes).step_by(SGE_BYTES) {
        let mut element = [0; SGE_BYTES];
        env.memory().peek(at as u32, &mut element);
        let word = |from: usize| u32::from_ne_bytes(std::array::from_fn(|i| element[from + i]));
        let addr = u64::from_ne_bytes(std::array::from_fn(|i| element[i]));
        list.push(Sge { addr, length: word(8), lkey: word(12) });
    }
    Ok(list)
}
