//! Commands on connections. Each checks in the table that the state allows it, builds its message, and sends it.

use weft_mad::{GmpAddress, exponent_to_duration};
use weft_verbs::Instant;
use weft_wire::cm::RejectReason;

use super::cm::Cm;
use super::comm_id::ConnId;
use super::conn::Conn;
use super::error::CmError;
use super::event::EventKind;
use super::limits::CM_RETRIES_MAX;
use super::message;
use super::param::{ListenId, QpParams, RepParams, ReqParams};
use super::state::{Action, Input, LapState, State, lap_step, step};
use super::tables::ConnTables;

pub(super) type Done = Result<(), CmError>;

/// Largest queue pair number and PSN.
const BITS_24: u32 = 0xff_ffff;

impl Cm {
    /// Listens for requests whose service id is `service_id` in the bits of `mask` (all ones: exactly that one), on
    /// every device. A second call for the same service returns the same listener, which then takes as many calls of
    /// `unlisten`; a service that another listener's mask covers is refused. Requests that came a moment too early
    /// become due.
    pub fn listen(&mut self, service_id: u64, mask: u64) -> Result<ListenId, CmError> {
        let id = self.listeners.add(service_id, mask)?;
        self.early.hasten(|service| self.listeners.find(service) == Some(id));
        Ok(id)
    }

    /// Releases a listener. Requests that it already received stay.
    pub fn unlisten(&mut self, listen: ListenId) -> Done {
        self.listeners.remove(listen)
    }

    /// Requests a connection (`ib_send_cm_req`).
    pub fn send_req(&mut self, now: Instant, params: &ReqParams) -> Result<ConnId, CmError> {
        check_req(params)?;
        let ca = *self.devices.get(&params.to.device).ok_or(CmError::NoDevice(params.to.device))?;
        let id = self.create(params.to, params.service_id, None)?;
        let req = match message::req(id.0, &ca, params) {
            Some(Ok(req)) => req,
            refused => {
                self.remove(now, id);
                let Some(Err(error)) = refused else { return Err(CmError::Invalid("such queue pairs do not connect")) };
                return Err(error.into());
            }
        };
        let (tables, conn) = self.both(id)?;
        conn.take_req(params);
        tables.enter(now, conn, State::ReqSent);
        if params.peer_to_peer {
            tables.peers.insert((conn.service_id, conn.to.dgid), id);
        }
        tables.ask(now, conn, req, params.ece.attr_mod);
        Ok(id)
    }

    /// Accepts a request (`ib_send_cm_rep`). The REP is repeated until the peer's RTU arrives.
    pub fn send_rep(&mut self, now: Instant, conn: ConnId, params: &RepParams) -> Done {
        if params.qpn > BITS_24 || params.starting_psn > BITS_24 {
            return Err(CmError::Invalid("queue pair numbers and PSNs have 24 bits"));
        }
        let next = self.allowed(conn, Input::SendRep)?;
        let device = self.both(conn)?.1.to.device;
        let ca = *self.devices.get(&device).ok_or(CmError::NoDevice(device))?;
        let (tables, conn) = self.both(conn)?;
        let rep = message::rep(conn, &ca, params)?;
        tables.enter(now, conn, next);
        conn.initiator_depth = params.initiator_depth;
        conn.responder_resources = params.responder_resources;
        conn.rq_psn = params.starting_psn;
        conn.local_qpn = params.qpn;
        tables.ask(now, conn, rep, params.ece.attr_mod);
        Ok(())
    }

    /// Confirms the REP (`ib_send_cm_rtu`): the connection is established. Private data, 224 bytes at most.
    pub fn send_rtu(&mut self, now: Instant, conn: ConnId, private_data: &[u8]) -> Done {
        let next = self.allowed(conn, Input::SendRtu)?;
        let (tables, conn) = self.both(conn)?;
        let rtu = message::rtu(conn, private_data)?;
        tables.enter(now, conn, next);
        tables.reply(conn, rtu);
        Ok(())
    }

    /// Rejects a request, an answer, or a connection that is not yet established (`ib_send_cm_rej`). 72 bytes of
    /// additional information and 148 of private data at most.
    pub fn send_rej(
        &mut self,
        now: Instant,
        conn: ConnId,
        reason: RejectReason,
        ari: &[u8],
        private_data: &[u8],
    ) -> Done {
        let next = self.allowed(conn, Input::SendRej)?;
        let (tables, conn) = self.both(conn)?;
        let rej = message::rej(conn, reason, ari, private_data)?;
        tables.enter(now, conn, next);
        tables.say(conn, rej);
        Ok(())
    }

    /// Asks the peer for more time, 4.096 µs · 2^`service_timeout` (`ib_send_cm_mra`). With `delay` the MRA is sent
    /// only when the peer repeats its message (`IB_CM_MRA_FLAG_DELAY`). Private data, 222 bytes at most.
    pub fn send_mra(
        &mut self,
        now: Instant,
        conn: ConnId,
        service_timeout: u8,
        delay: bool,
        private_data: &[u8],
    ) -> Done {
        let next = self.allowed(conn, Input::SendMra)?;
        let (tables, conn) = self.both(conn)?;
        let mra = message::mra(conn, service_timeout, private_data)?;
        if next == State::Established {
            conn.lap = allowed_lap(conn.state, conn.lap, Input::SendMra)?;
        } else {
            tables.enter(now, conn, next);
        }
        if delay {
            tables.prepare(conn, mra);
        } else {
            tables.reply(conn, mra);
        }
        Ok(())
    }

    /// Ends an established connection (`ib_send_cm_dreq`). Private data, 220 bytes at most.
    pub fn send_dreq(&mut self, now: Instant, conn: ConnId, private_data: &[u8]) -> Done {
        let next = self.allowed(conn, Input::SendDreq)?;
        let tid = self.own_tid(conn);
        let (tables, conn) = self.both(conn)?;
        let dreq = message::dreq(conn, private_data)?;
        conn.tid = tid;
        tables.enter(now, conn, next);
        tables.ask(now, conn, dreq, 0);
        Ok(())
    }

    /// Confirms the end of the connection (`ib_send_cm_drep`). Private data, 224 bytes at most.
    pub fn send_drep(&mut self, now: Instant, conn: ConnId, private_data: &[u8]) -> Done {
        let next = self.allowed(conn, Input::SendDrep)?;
        let (tables, conn) = self.both(conn)?;
        let drep = message::drep(conn, private_data)?;
        tables.enter(now, conn, next);
        tables.reply(conn, drep);
        Ok(())
    }

    /// Establishes the connection because the queue pair received the peer's first packet before the RTU
    /// (`ib_cm_notify` with `IB_EVENT_COMM_EST`). The event [`super::EventKind::UserEstablished`] follows.
    pub fn establish(&mut self, now: Instant, conn: ConnId) -> Done {
        if self.state(conn) == Some(State::Established) {
            return Err(CmError::AlreadyEstablished);
        }
        let next = self.allowed(conn, Input::Establish)?;
        let (tables, conn) = self.both(conn)?;
        tables.enter(now, conn, next);
        tables.tell(conn, EventKind::UserEstablished, &[]);
        Ok(())
    }

    /// Returns the state of a connection.
    pub fn state(&self, conn: ConnId) -> Option<State> {
        self.owned(conn).map(|conn| conn.state)
    }

    /// Returns the parameters for modifying the queue pair of a connection (`ib_cm_init_qp_attr`).
    pub fn qp_params(&self, conn: ConnId) -> Option<QpParams> {
        self.owned(conn).map(Conn::qp_params)
    }

    /// Returns the address of a connection's peer.
    pub fn address(&self, conn: ConnId) -> Option<GmpAddress> {
        self.owned(conn).map(|conn| conn.to)
    }

    fn owned(&self, id: ConnId) -> Option<&Conn> {
        self.conns.get(&id).map(|conn| &**conn).filter(|conn| !conn.orphan)
    }

    /// Borrows a connection together with the shared state.
    pub(super) fn both(&mut self, id: ConnId) -> Result<(&mut ConnTables, &mut Conn), CmError> {
        let conn = self.conns.get_mut(&id).filter(|conn| !conn.orphan).ok_or(CmError::NoSuchConnection)?;
        Ok((&mut self.tables, conn))
    }

    /// Returns the next state if the table allows this command.
    pub(super) fn allowed(&self, id: ConnId, input: Input) -> Result<State, CmError> {
        let state = self.state(id).ok_or(CmError::NoSuchConnection)?;
        match step(state, input) {
            (_, Action::Refuse) => Err(CmError::State(state)),
            (next, _) => Ok(next),
        }
    }
}

/// Returns the next LAP state if its table allows this command.
pub(super) fn allowed_lap(state: State, lap: LapState, input: Input) -> Result<LapState, CmError> {
    match lap_step(lap, input) {
        (_, Action::Refuse) => Err(CmError::State(state)),
        (next, _) => Ok(next),
    }
}

fn check_req(params: &ReqParams) -> Done {
    if params.qpn > BITS_24 || params.starting_psn > BITS_24 {
        return Err(CmError::Invalid("queue pair numbers and PSNs have 24 bits"));
    }
    if params.max_cm_retries > CM_RETRIES_MAX {
        return Err(CmError::Invalid("more retries than the message has room for"));
    }
    if params.alternate.is_some_and(|path| path.pkey != params.primary.pkey || path.mtu != params.primary.mtu) {
        return Err(CmError::Invalid("the alternate path has another partition or MTU than the primary"));
    }
    Ok(())
}

impl Conn {
    fn take_req(&mut self, params: &ReqParams) {
        let life = params.primary.packet_life_time;
        self.timeout = exponent_to_duration(life) * 2 + exponent_to_duration(params.remote_cm_response_timeout);
        self.max_cm_retries = params.max_cm_retries;
        self.ack_timeout = life.saturating_add(1);
        self.alternate_dgid = params.alternate.map(|path| path.dgid);
        self.initiator_depth = params.initiator_depth;
        self.responder_resources = params.responder_resources;
        self.retry_count = params.retry_count;
        self.rnr_retry_count = params.rnr_retry_count;
        self.path_mtu = params.primary.mtu;
        self.pkey = params.primary.pkey;
        self.qp_type = params.qp_type;
        self.local_qpn = params.qpn;
        self.rq_psn = params.starting_psn;
        self.peer_to_peer = params.peer_to_peer;
    }
}
