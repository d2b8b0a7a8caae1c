//! Execution of requests at their target: checks rights and lengths, writes memory, completes receives (IBA 9.7.4). The
//! responders of RC, of UC and of connections within the host decide which request is next, and what becomes of a
//! refusal; all else is here, once.

mod answered;
mod frame;
mod packet;
mod refusal;
mod request;

use weft_verbs::{
    Access, AsyncEvent, CqId, MSG_SIZE_MAX, PdId, QpType, Sge, VENDOR_ERR_INJECTED, WcFlags, WcOpcode, WcStatus,
};
use weft_wire::NakCode;

use crate::core::{Core, Fault};
use crate::rq::RecvQueue;
use crate::{Env, RecvWqe, XrcSrq, sge_list};

pub(crate) use answered::Answered;
pub(crate) use frame::FrameRequest;
pub(crate) use refusal::Refusal;
use refusal::{INVALID, NO_ACCESS};
pub(crate) use request::{RemoteAccess, RemoteRange, RequestPart};

/// Executes a request with a response of its own, for a service that checks on its own how many are outstanding.
pub(crate) fn answer<E: Env>(core: &Core, pd: PdId, access: &RemoteAccess, env: &mut E) -> Result<Answered, NakCode> {
    answered::execute(core, pd, access, env)
}

/// Result of an executed piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Executed {
    /// The message goes on.
    Part,
    /// The message is complete.
    Message,
    /// The request is answered with this.
    Answer(Answered),
}

/// Message being received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Message {
    /// None: the next piece begins a message.
    #[default]
    Idle,
    /// A SEND; bytes so far.
    Send { offset: u64 },
    /// An RDMA WRITE; address of the next byte.
    Write { rkey: u32, va: u64, left: u64, total: u64 },
}

/// State of the message being received, and its receive.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    message: Message,
    /// The receive being filled, if `holds_recv`. If its message was dropped, it serves the next one.
    recv: RecvWqe,
    holds_recv: bool,
    /// The SRQ that the message named (XRC).
    xrc: Option<(u32, XrcSrq)>,
}

impl Executor {
    /// Returns whether no message is half received.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.message == Message::Idle
    }

    /// Gives up the message being received. Its receive is kept for the next one.
    #[inline]
    pub fn drop_message(&mut self) {
        self.message = Message::Idle;
    }

    /// Returns whether a receive is being filled.
    pub fn holds_recv(&self) -> bool {
        self.holds_recv
    }

    /// Takes the receive for a message whose pieces are placed before they are executed.
    pub fn open_recv<E: Env>(&mut self, core: &Core, rq: &mut RecvQueue, env: &mut E) -> Result<(), Refusal> {
        self.take_recv(core, rq, env)
    }

    /// Returns the list of the receive being filled.
    pub fn recv_sges(&self) -> &[Sge] {
        &self.recv.sges
    }

    /// Enters ERR. Returns the receive being filled, and its CQ if XRC named one.
    pub fn stop(&mut self) -> Option<(u64, Option<CqId>)> {
        self.message = Message::Idle;
        std::mem::take(&mut self.holds_recv).then(|| (self.recv.wr_id, self.xrc_cq()))
    }

    /// Executes the next piece of a request. `open` counts the answers that the peer waits for.
    #[inline]
    pub fn execute<R: RequestPart, E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        request: &R,
        open: impl FnOnce() -> usize,
        env: &mut E,
    ) -> Result<Executed, Refusal> {
        if request.is_write() {
            return self.write(core, rq, request, env);
        }
        if request.is_send() {
            return self.send(core, rq, request, env);
        }
        // The peer may have this many outstanding, and no more (IBA C9-115).
        if self.message != Message::Idle || open() >= usize::from(core.attr.max_dest_rd_atomic) {
            return Err(INVALID);
        }
        let pd = self.domain(core, request, env)?;
        let access = request.remote_access(env).ok_or(INVALID)?;
        Ok(Executed::Answer(answered::execute(core, pd, &access, env)?))
    }

    #[inline]
    fn send<R: RequestPart, E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        request: &R,
        env: &mut E,
    ) -> Result<Executed, Refusal> {
        let first = request.is_first();
        let offset = match (first, self.message) {
            (true, Message::Idle) => 0,
            (false, Message::Send { offset }) => offset,
            _ => return Err(INVALID),
        };
        if !request.has_good_length(core.mtu()) {
            return Err(INVALID);
        }
        if first {
            self.domain(core, request, env)?;
            self.take_recv(core, rq, env)?;
        }
        let end = offset + request.bytes();
        if end > sge_list::total(&self.recv.sges) {
            return Err(Refusal::Fatal { code: NakCode::INVALID_REQUEST, recv: Some(WcStatus::LocLenErr) });
        }
        // Elements beyond the end of the message are not checked: adapters check each one when data for it arrives.
        request.scatter(self.pd(core), &self.recv.sges, offset, env)?;
        if !request.is_last() {
            self.message = Message::Send { offset: end };
            return Ok(Executed::Part);
        }
        if let Some(key) = request.invalidates() {
            env.invalidate_remote(self.pd(core), core.qpn, key)
                .map_err(|_| Refusal::Fatal { code: NakCode::REMOTE_ACCESS, recv: Some(WcStatus::RemInvReqErr) })?;
        }
        self.message = Message::Idle;
        self.complete(core, request, WcOpcode::Recv, end, env);
        Ok(Executed::Message)
    }

    #[inline]
    fn write<R: RequestPart, E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        request: &R,
        env: &mut E,
    ) -> Result<Executed, Refusal> {
        let (first, last) = (request.is_first(), request.is_last());
        let (rkey, va, left, total) = match (first, self.message) {
            (true, Message::Idle) => self.open_write(core, request, env)?,
            (false, Message::Write { rkey, va, left, total }) => (rkey, va, left, total),
            _ => return Err(INVALID),
        };
        if !request.has_good_length(core.mtu()) {
            return Err(INVALID);
        }
        let in_place = first && last && request.is_in_place();
        let len = if in_place { left } else { request.bytes() };
        // The length must be exactly what the first piece announced.
        if if last { len != left } else { len >= left } {
            return Err(INVALID);
        }
        let notifies = last && request.imm().is_some();
        if notifies {
            self.take_recv(core, rq, env)?;
        }
        if len != 0 && !in_place {
            let pd = self.pd(core);
            let addr = env.remote(pd, core.qpn, rkey, va, len, Access::REMOTE_WRITE).map_err(|_| NO_ACCESS)?;
            request.store(addr, len, env);
        }
        if !last {
            self.message = Message::Write { rkey, va: va.wrapping_add(len), left: left - len, total };
            return Ok(Executed::Part);
        }
        self.message = Message::Idle;
        if notifies {
            self.complete(core, request, WcOpcode::RecvRdmaWithImm, total, env);
        }
        Ok(Executed::Message)
    }

    /// Checks the first piece of a WRITE: right, length, and key for the whole message. Returns key, address, and twice
    /// the length.
    #[inline]
    fn open_write<R: RequestPart, E: Env>(
        &mut self,
        core: &Core,
        request: &R,
        env: &E,
    ) -> Result<(u32, u64, u64, u64), Refusal> {
        let target = request.target().ok_or(INVALID)?;
        if !core.attr.qp_access.contains(Access::REMOTE_WRITE) || target.length > u64::from(MSG_SIZE_MAX) {
            return Err(INVALID);
        }
        let pd = self.domain(core, request, env)?;
        let (rkey, va, len) = (target.at.rkey, target.at.addr, target.length);
        if len != 0 && request.opens_range() {
            env.remote(pd, core.qpn, rkey, va, len, Access::REMOTE_WRITE).map_err(|_| NO_ACCESS)?;
        }
        Ok((rkey, va, len, len))
    }

    /// Returns the protection domain to check a request against: XRC takes it from the SRQ that the request names.
    #[inline]
    fn domain<R: RequestPart, E: Env>(&mut self, core: &Core, request: &R, env: &E) -> Result<PdId, Refusal> {
        if core.qp_type() != QpType::XrcRecv {
            return Ok(core.pd());
        }
        let number = request.srqn().ok_or(INVALID)?;
        let xrcd = core.init.xrcd.ok_or(INVALID)?;
        let srq = env.xrc_srq(xrcd, number).ok_or(INVALID)?;
        self.xrc = Some((number, srq));
        Ok(srq.pd)
    }

    /// Returns the protection domain of the message being received.
    fn pd(&self, core: &Core) -> PdId {
        self.xrc.map_or(core.pd(), |(_, xrc)| xrc.pd)
    }

    fn xrc_cq(&self) -> Option<CqId> {
        self.xrc.map(|(_, xrc)| xrc.cq)
    }

    /// Takes the receive for a message, unless an earlier attempt still holds it.
    #[inline]
    fn take_recv<E: Env>(&mut self, core: &Core, rq: &mut RecvQueue, env: &mut E) -> Result<(), Refusal> {
        if self.holds_recv {
            return Ok(());
        }
        let shared = if core.qp_type() == QpType::XrcRecv { self.xrc.map(|(_, xrc)| xrc.srq) } else { core.init.srq };
        self.holds_recv = match shared {
            Some(srq) => env.srq_take(srq).map(|recv| self.recv = recv).is_some(),
            None => rq.pop_into(&mut self.recv),
        };
        match self.recv.injected {
            _ if !self.holds_recv => Err(Refusal::NotReady),
            WcStatus::Success => Ok(()),
            status => Err(refusal::injected(status)),
        }
    }

    /// Completes the receive.
    #[inline]
    fn complete<R: RequestPart, E: Env>(
        &mut self,
        core: &Core,
        request: &R,
        opcode: WcOpcode,
        bytes: u64,
        env: &mut E,
    ) {
        let mut wc = core.wc(self.recv.wr_id, WcStatus::Success, opcode);
        wc.byte_len = bytes as u32;
        wc.solicited = request.is_solicited();
        wc.src_qp = self.xrc.map_or(core.attr.dest_qpn, |(number, _)| number);
        if let Some(imm) = request.imm() {
            wc.imm_data = imm;
            wc.flags |= WcFlags::WITH_IMM;
        }
        if let Some(key) = request.invalidates() {
            wc.imm_data = key;
            wc.flags |= WcFlags::WITH_INV;
        }
        self.holds_recv = false;
        core.complete_recv(env, self.xrc_cq(), wc);
    }

    /// Completes the receive in error, if one is held.
    fn fail_recv<E: Env>(&mut self, core: &Core, status: WcStatus, env: &mut E) -> bool {
        let held = std::mem::take(&mut self.holds_recv);
        if held {
            let mut wc = core.wc(self.recv.wr_id, status, WcOpcode::Recv);
            if self.recv.injected == status {
                wc.vendor_err = VENDOR_ERR_INJECTED;
            }
            core.complete_recv(env, self.xrc_cq(), wc);
        }
        held
    }

    /// Ends a reliable connection (IBA 9.9.3): completion or event, ERR. The caller sends the NAK.
    pub fn refuse<E: Env>(&mut self, core: &mut Core, code: NakCode, recv: Option<WcStatus>, env: &mut E) {
        let completed = recv.is_some_and(|status| self.fail_recv(core, status, env));
        if !completed {
            core.event(env, refusal_event(code));
        }
        core.fault = Some(Fault::Error);
    }

    /// Drops the message that an unreliable connection refused (IBA 9.8). If the local receive is at fault, it completes
    /// in error; the queue pair lives on.
    pub fn drop_refused<E: Env>(&mut self, core: &mut Core, refusal: Refusal, env: &mut E) {
        core.stats.dropped += 1;
        self.message = Message::Idle;
        if let Refusal::Fatal { recv: Some(status), .. } = refusal {
            self.fail_recv(core, status, env);
        }
    }
}

/// Returns the event of a responder that refuses a request.
pub(crate) fn refusal_event(code: NakCode) -> AsyncEvent {
    match code {
        NakCode::REMOTE_ACCESS => AsyncEvent::QpAccessErr,
        NakCode::INVALID_REQUEST => AsyncEvent::QpReqErr,
        _ => AsyncEvent::QpFatal,
    }
}
