//! Communication manager as a value: passes each received message to its connection.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use weft_mad::{Due, GmpAddress, MadBytes};
use weft_verbs::Instant;
use weft_wire::cm::{CmMessage, RejectReason};
use weft_wire::mad::{AttrId, Mad};

use super::comm_id::{CommIds, ConnId};
use super::conn::Conn;
use super::early::Early;
use super::error::CmError;
use super::event::{Event, EventKind};
use super::limits::{CONNECTIONS_MAX, DEVICES_MAX};
use super::listen::Listeners;
use super::message;
use super::param::CaInfo;
use super::state::{Action, Input, State, step};
use super::stats::{CmStats, column};
use super::tables::ConnTables;

/// Received datagram in processing.
#[derive(Clone, Copy)]
pub(super) struct Rx<'a> {
    pub now: Instant,
    pub from: &'a GmpAddress,
    pub tid: u64,
    pub attr_id: AttrId,
    pub attr_mod: u32,
}

/// All connections of a host, with their listeners and timers.
#[derive(Debug)]
pub struct Cm {
    pub(super) ids: CommIds,
    pub(super) devices: BTreeMap<u32, CaInfo>,
    pub(super) listeners: Listeners,
    pub(super) conns: FxHashMap<ConnId, Box<Conn>>,
    pub(super) early: Early,
    pub(super) tables: ConnTables,
}

impl Cm {
    /// A communication manager without devices. `seed` must not be predictable: communication ids and transaction ids
    /// come from it.
    pub fn new(seed: u64) -> Cm {
        Cm {
            ids: CommIds::new(seed),
            devices: BTreeMap::new(),
            listeners: Listeners::default(),
            conns: FxHashMap::default(),
            early: Early::default(),
            tables: ConnTables::default(),
        }
    }

    /// Adds or updates a device. Datagrams from an unknown device are dropped.
    pub fn set_device(&mut self, device: u32, info: CaInfo) {
        if self.devices.len() < DEVICES_MAX || self.devices.contains_key(&device) {
            self.devices.insert(device, info);
        }
    }

    /// Removes a device: its datagrams are dropped. Its connections stay until their owner destroys them.
    pub fn remove_device(&mut self, device: u32) {
        self.devices.remove(&device);
    }

    /// Handles a datagram received on queue pair 1, however malformed; errors are counted.
    pub fn handle_mad(&mut self, now: Instant, from: &GmpAddress, bytes: &MadBytes) {
        let mad: Mad = zerocopy::transmute!(*bytes);
        let Ok(message) = CmMessage::from_mad(&mad) else {
            self.tables.stats.rx_malformed += 1;
            return;
        };
        if !self.devices.contains_key(&from.device) {
            self.tables.stats.rx_unexpected += 1;
            return;
        }
        let (tid, attr_id, attr_mod) = (mad.header.tid(), mad.header.attr_id(), mad.header.attr_mod());
        self.tables.stats.rx_msgs[column(attr_id)] += 1;
        let rx = &Rx { now, from, tid, attr_id, attr_mod };
        let early = self.is_early(rx, &message);
        if early.is_none_or(|service_id| !self.early.keep(now, service_id, from, bytes)) {
            self.dispatch(rx, message);
        }
    }

    /// Returns the service that a new request wants but that has no listener yet; `None` for repeated and peer-to-peer
    /// requests.
    fn is_early(&self, rx: &Rx<'_>, message: &CmMessage) -> Option<u64> {
        let (service_id, known) = match message {
            CmMessage::Req(req) => {
                let again = self.tables.remote_ids.contains_key(&(req.local_ca_guid, req.local_comm_id));
                (req.service_id.0, again || self.tables.peers.contains_key(&(req.service_id.0, rx.from.dgid)))
            }
            CmMessage::SidrReq(req) => {
                (req.service_id.0, self.tables.remote_sidrs.contains_key(&(rx.from.dgid, req.request_id)))
            }
            _ => return None,
        };
        (!known && self.listeners.find(service_id).is_none()).then_some(service_id)
    }

    /// Handles early requests whose grace period is over or whose listener has arrived.
    fn on_early(&mut self, now: Instant) {
        while let Some(kept) = self.early.next(now) {
            let mad: Mad = zerocopy::transmute!(kept.mad);
            let Ok(message) = CmMessage::from_mad(&mad) else { continue };
            let (tid, attr_id, attr_mod) = (mad.header.tid(), mad.header.attr_id(), mad.header.attr_mod());
            if self.devices.contains_key(&kept.from.device) {
                self.dispatch(&Rx { now, from: &kept.from, tid, attr_id, attr_mod }, message);
            }
        }
    }

    fn dispatch(&mut self, rx: &Rx<'_>, message: CmMessage) {
        match message {
            CmMessage::Req(req) => self.on_req(rx, &req),
            CmMessage::Mra(mra) => self.on_mra(rx, &mra),
            CmMessage::Rej(rej) => self.on_rej(rx, &rej),
            CmMessage::Rep(rep) => self.on_rep(rx, &rep),
            CmMessage::Rtu(rtu) => self.on_rtu(rx, &rtu),
            CmMessage::Dreq(dreq) => self.on_dreq(rx, &dreq),
            CmMessage::Drep(drep) => self.on_drep(rx, &drep),
            CmMessage::SidrReq(req) => self.on_sidr_req(rx, &req),
            CmMessage::SidrRep(rep) => self.on_sidr_rep(rx, &rep),
            CmMessage::Lap(lap) => self.on_lap(rx, &lap),
            CmMessage::Apr(apr) => self.on_apr(rx, &apr),
        }
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.on_early(now);
        while let Some((deadline, id)) = self.tables.timers.first().copied() {
            if deadline > now {
                break;
            }
            match self.conns.get_mut(&id) {
                Some(conn) => self.tables.arm(conn, None),
                None => drop(self.tables.timers.pop_first()),
            }
            self.on_timer(now, id);
        }
    }

    fn on_timer(&mut self, now: Instant, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.state == State::Timewait {
            self.expire(now, id, Input::TimewaitEnd);
            return;
        }
        let Some(retry) = &mut conn.retry else { return };
        match retry.poll(now) {
            Due::GiveUp => self.expire(now, id, Input::GiveUp),
            due => {
                let deadline = retry.deadline();
                if due == Due::Again {
                    self.tables.ask_again(conn);
                }
                self.tables.arm(conn, Some(deadline));
            }
        }
    }

    /// Handles the expiry of a connection's timer.
    fn expire(&mut self, now: Instant, id: ConnId, input: Input) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (next, action) = step(conn.state, input);
        let kind = match conn.state {
            State::ReqSent | State::MraReqRcvd => EventKind::ReqError,
            State::RepSent | State::MraRepRcvd => EventKind::RepError,
            State::DreqSent => EventKind::DreqError,
            State::SidrReqSent => EventKind::SidrReqError,
            State::Timewait => EventKind::TimewaitExit,
            _ => EventKind::LapError,
        };
        match action {
            Action::Alternate => return self.give_up_lap(id),
            Action::TellBoth => {
                let guid = self.devices.get(&conn.to.device).map_or(0, |ca| ca.node_guid);
                if let Ok(rej) = message::rej(conn, RejectReason::TIMEOUT, &guid.to_be_bytes(), &[]) {
                    self.tables.say(conn, rej);
                }
            }
            _ => {}
        }
        if action != Action::Refuse {
            self.tables.enter(now, conn, next);
            self.tables.tell(conn, kind, &[]);
            self.remove_closed(now, id);
        }
    }

    /// When [`Cm::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let first = self.tables.timers.first().map(|(at, _)| *at);
        [first, self.early.deadline()].into_iter().flatten().min()
    }

    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<(GmpAddress, MadBytes)> {
        self.tables.transmit.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.tables.events.pop_front()
    }

    /// The counters.
    pub fn stats(&self) -> &CmStats {
        &self.tables.stats
    }

    /// Returns the number of connections in any state.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Returns whether only devices, listeners and counters are left: no connection, timer, peer identifier, or
    /// message.
    pub fn is_idle(&self) -> bool {
        self.conns.is_empty() && self.early.is_empty() && self.tables.is_empty()
    }

    /// Creates a connection with an unused number.
    pub(super) fn create(&mut self, to: GmpAddress, service_id: u64, tid: Option<u64>) -> Result<ConnId, CmError> {
        if self.conns.len() >= CONNECTIONS_MAX {
            return Err(CmError::TooMany("connections"));
        }
        let id = loop {
            let id = self.ids.draw();
            if !self.conns.contains_key(&id) {
                break id;
            }
        };
        let tid = tid.unwrap_or_else(|| self.own_tid(id));
        self.conns.insert(id, Box::new(Conn::new(id, to, service_id, tid)));
        Ok(id)
    }

    /// Returns the transaction id for a message that a connection sends on its own.
    pub(super) fn own_tid(&self, id: ConnId) -> u64 {
        u64::from(self.ids.secret(0)) << 32 | u64::from(id.0)
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, now: Instant, id: ConnId) {
        if let Some(mut conn) = self.conns.remove(&id) {
            self.tables.orphans -= usize::from(conn.orphan);
            self.tables.enter(now, &mut conn, State::Idle);
        }
    }
}
