//! Execution of requests in order: checks rights and lengths, writes memory, completes receives (IBA 9.7.4).

use weft_verbs::{Access, MSG_SIZE_MAX, PdId, QpType, WcFlags, WcOpcode, WcStatus};
use weft_wire::ext::Reth;
use weft_wire::opcode::Place;
use weft_wire::{Kind, NakCode, Packet};

use crate::core::Core;
use crate::rq::RecvQueue;
use crate::{Env, Memory, access, segment};

use super::replies::Reply;
use super::resources::{Answered, Resource};
use super::responder::{Message, Responder};

/// Reason why a request is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// There is no receive: the peer may retry.
    NotReady,
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
    /// Executes the request at the expected PSN. Returns the number of PSNs that it takes.
    #[inline]
    pub fn execute<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        packet: &Packet<'_>,
        env: &mut E,
    ) -> Result<u64, Refusal> {
        let kind = packet.info.kind;
        if kind.is_write() {
            return self.write(core, rq, packet, env).map(|()| 1);
        }
        if kind.is_send() {
            return self.send(core, rq, packet, env).map(|()| 1);
        }
        if self.message != Message::Idle {
            return Err(INVALID);
        }
        // The peer may have this many outstanding, and no more (IBA C9-115).
        if self.replies.fresh() >= usize::from(core.attr.max_dest_rd_atomic) {
            return Err(INVALID);
        }
        let pd = self.domain(core, packet, env)?;
        let (psns, what) = match kind {
            Kind::ReadRequest => read(core, pd, packet, env)?,
            Kind::CompareSwap | Kind::FetchAdd => (1, atomic(core, pd, packet, env)?),
            Kind::AtomicWrite => (1, atomic_write(core, pd, packet, env)?),
            Kind::Flush => (1, flush(core, pd, packet, env)?),
            _ => return Err(INVALID),
        };
        self.msn = self.msn.wrapping_add(1) & 0xff_ffff;
        let (first, end, msn) = (self.epsn, self.epsn + psns, self.msn);
        self.resources.push(Resource { first, end, msn, what }, usize::from(core.attr.max_dest_rd_atomic));
        self.replies.push(Reply { first, next: first, end, msn, what, fresh: true, again: false });
        Ok(psns)
    }

    /// Returns the protection domain to check a request against: XRC takes it from the SRQ that the packet names.
    fn domain<E: Env>(&mut self, core: &Core, packet: &Packet<'_>, env: &E) -> Result<PdId, Refusal> {
        if core.qp_type() != QpType::XrcRecv {
            return Ok(core.pd());
        }
        let number = packet.ext.xrceth.ok_or(INVALID)?.value();
        let xrcd = core.init.xrcd.ok_or(INVALID)?;
        let srq = env.xrc_srq(xrcd, number).ok_or(INVALID)?;
        self.xrc = Some((number, srq));
        Ok(srq.pd)
    }

    /// Takes the receive for a message.
    fn take_recv<E: Env>(&mut self, core: &Core, rq: &mut RecvQueue, env: &mut E) -> Result<(), Refusal> {
        let shared = if core.qp_type() == QpType::XrcRecv { self.xrc.map(|(_, x)| x.srq) } else { core.init.srq };
        let taken = match shared {
            Some(srq) => match env.srq_take(srq) {
                Some(recv) => {
                    self.recv = recv;
                    true
                }
                None => false,
            },
            None => rq.pop_into(&mut self.recv),
        };
        self.holds_recv = taken;
        if taken { Ok(()) } else { Err(Refusal::NotReady) }
    }

    /// Completes the receive.
    fn complete<E: Env>(&mut self, core: &Core, packet: &Packet<'_>, opcode: WcOpcode, bytes: u64, env: &mut E) {
        let mut wc = core.wc(self.recv.wr_id, WcStatus::Success, opcode);
        wc.byte_len = bytes as u32;
        wc.solicited = packet.bth.solicited();
        wc.src_qp = self.xrc.map_or(core.attr.dest_qpn, |(number, _)| number);
        if let Some(imm) = packet.ext.imm {
            wc.imm_data = imm.value().to_be();
            wc.flags |= WcFlags::WITH_IMM;
        }
        if let Some(ieth) = packet.ext.ieth {
            wc.imm_data = ieth.value();
            wc.flags |= WcFlags::WITH_INV;
        }
        self.holds_recv = false;
        core.complete_recv(env, self.xrc.map(|(_, x)| x.cq), wc);
    }

    fn finish(&mut self) {
        self.msn = self.msn.wrapping_add(1) & 0xff_ffff;
        self.message = Message::Idle;
    }

    fn send<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        packet: &Packet<'_>,
        env: &mut E,
    ) -> Result<(), Refusal> {
        let place = packet.info.place;
        let offset = match (place, self.message) {
            (Place::First | Place::Only, Message::Idle) => 0,
            (Place::Middle | Place::Last, Message::Send { offset }) => offset,
            _ => return Err(INVALID),
        };
        check_len(core, place, packet.payload.len())?;
        let starts = matches!(place, Place::First | Place::Only);
        if starts {
            self.domain(core, packet, env)?;
            self.take_recv(core, rq, env)?;
        }
        let pd = self.xrc.map_or(core.pd(), |(_, x)| x.pd);
        let end = offset + packet.payload.len() as u64;
        if end > segment::total(&self.recv.sges) {
            return Err(Refusal::Fatal { code: NakCode::INVALID_REQUEST, recv: Some(WcStatus::LocLenErr) });
        }
        // Elements beyond the end of the message are not checked: adapters check each one when data for it arrives.
        segment::scatter(env, pd, &self.recv.sges, offset, packet.payload).map_err(local_fault)?;
        if matches!(place, Place::First | Place::Middle) {
            self.message = Message::Send { offset: end };
            return Ok(());
        }
        if let Some(ieth) = packet.ext.ieth {
            env.invalidate_remote(pd, core.qpn, ieth.value())
                .map_err(|_| Refusal::Fatal { code: NakCode::REMOTE_ACCESS, recv: Some(WcStatus::RemInvReqErr) })?;
        }
        self.finish();
        self.complete(core, packet, WcOpcode::Recv, end, env);
        Ok(())
    }

    #[inline]
    fn write<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        packet: &Packet<'_>,
        env: &mut E,
    ) -> Result<(), Refusal> {
        let place = packet.info.place;
        let starts = matches!(place, Place::First | Place::Only);
        let ends = matches!(place, Place::Last | Place::Only);
        let (rkey, va, left, total) = match (starts, self.message) {
            (true, Message::Idle) => {
                let reth = self.open_write(core, packet, env)?;
                let len = u64::from(reth.dma_len());
                (reth.rkey(), reth.va(), len, len)
            }
            (false, Message::Write { rkey, va, left, total }) => (rkey, va, left, total),
            _ => return Err(INVALID),
        };
        let len = packet.payload.len() as u64;
        check_len(core, place, packet.payload.len())?;
        // The length must be exactly what the RETH announced.
        if if ends { len != left } else { len >= left } {
            return Err(INVALID);
        }
        if packet.ext.imm.is_some() {
            self.take_recv(core, rq, env)?;
        }
        if len != 0 {
            let pd = self.xrc.map_or(core.pd(), |(_, x)| x.pd);
            let addr = env.remote(pd, core.qpn, rkey, va, len, Access::REMOTE_WRITE).map_err(|_| NO_ACCESS)?;
            env.memory().write(addr, packet.payload);
        }
        if !ends {
            self.message = Message::Write { rkey, va: va.wrapping_add(len), left: left - len, total };
            return Ok(());
        }
        self.finish();
        if packet.ext.imm.is_some() {
            self.complete(core, packet, WcOpcode::RecvRdmaWithImm, total, env);
        }
        Ok(())
    }

    /// Checks the first packet of a WRITE: right, length, and key for the whole message.
    fn open_write<E: Env>(&mut self, core: &Core, packet: &Packet<'_>, env: &E) -> Result<Reth, Refusal> {
        let reth = packet.ext.reth.ok_or(INVALID)?;
        if !core.attr.qp_access.contains(Access::REMOTE_WRITE) || reth.dma_len() > MSG_SIZE_MAX {
            return Err(INVALID);
        }
        let pd = self.domain(core, packet, env)?;
        if packet.info.place == Place::First && reth.dma_len() != 0 {
            let len = u64::from(reth.dma_len());
            env.remote(pd, core.qpn, reth.rkey(), reth.va(), len, Access::REMOTE_WRITE).map_err(|_| NO_ACCESS)?;
        }
        Ok(reth)
    }
}

/// Checks the length that a packet must have at its place in the message (IBA 9.7.4.1.6).
fn check_len(core: &Core, place: Place, len: usize) -> Result<(), Refusal> {
    let mtu = core.mtu() as usize;
    let ok = match place {
        Place::First | Place::Middle => len == mtu,
        Place::Last => len != 0 && len <= mtu,
        Place::Only => len <= mtu,
    };
    if ok { Ok(()) } else { Err(INVALID) }
}

fn read<E: Env>(core: &Core, pd: PdId, packet: &Packet<'_>, env: &E) -> Result<(u64, Answered), Refusal> {
    let reth = packet.ext.reth.ok_or(INVALID)?;
    let (rkey, va, len) = (reth.rkey(), reth.va(), u64::from(reth.dma_len()));
    access::read(core, pd, rkey, va, len, env)?;
    Ok((segment::packets(len, core.mtu()), Answered::Read { pd, rkey, va, len }))
}

fn atomic<E: Env>(core: &Core, pd: PdId, packet: &Packet<'_>, env: &mut E) -> Result<Answered, Refusal> {
    let atomic = packet.ext.atomic.ok_or(INVALID)?;
    let swap = (packet.info.kind == Kind::CompareSwap).then(|| (atomic.compare(), atomic.swap_add()));
    let before = access::atomic(core, pd, atomic.rkey(), atomic.va(), swap, atomic.swap_add(), env)?;
    Ok(Answered::Atomic(before))
}

fn atomic_write<E: Env>(core: &Core, pd: PdId, packet: &Packet<'_>, env: &mut E) -> Result<Answered, Refusal> {
    let reth = packet.ext.reth.ok_or(INVALID)?;
    let value: [u8; 8] = packet.payload.try_into().map_err(|_| INVALID)?;
    if reth.dma_len() != 8 {
        return Err(INVALID);
    }
    access::atomic_write(core, pd, reth.rkey(), reth.va(), value, env)?;
    Ok(Answered::Done)
}

fn flush<E: Env>(core: &Core, pd: PdId, packet: &Packet<'_>, env: &mut E) -> Result<Answered, Refusal> {
    let (reth, feth) = (packet.ext.reth.ok_or(INVALID)?, packet.ext.feth.ok_or(INVALID)?);
    let range = (reth.va(), u64::from(reth.dma_len()));
    access::flush(core, pd, reth.rkey(), range, feth.placement(), feth.level(), env)?;
    Ok(Answered::Done)
}
