//! Connection manager and connected queue pairs of one IPoIB interface, with the parameters of Linux's ib_ipoib: a request
//! permits no retries, so that one lost packet ends a connection, and IP sees to the rest (RFC 4755 §3.2).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use weft_cm::ib::{Addressee, GmpAddress, MadBytes};
use weft_cm::ib::{
    CaInfo, Cm, ConnId, Ece, Event, EventKind, Path as CmPath, RejectReason, RepParams, ReqParams, ReqReceived,
};
use weft_fabric::{Fabric, MadOut, PathQuery, PortRef, Verdict};
use weft_ipoib::{Connection, ConnectionRequest, Rejection};
use weft_mad::exponent_to_duration;
use weft_verbs::{Gid, GidType, Instant, Mtu, QpType};
use weft_wire::ipoib::{ConnectedData, LinkAddress, service_id, service_qpn};
use weft_wire::mad::sa::PathRecord;
use weft_wire::mad::{GSI_QPN, Mad};

use crate::cm_service::on_fabric::destination;

/// Number of the only device that the connection manager knows.
pub(super) const DEVICE: u32 = 0;
/// Queue pairs of connections: numbers in the daemon's slot that no interface has for datagrams.
const QPN_FIRST: u32 = 0x1000;
const QPN_LAST: u32 = 0x3fff;
/// Time to acknowledge a packet, 4.096 µs · 2ⁿ, as Linux's drivers of adapters say.
const ACK_DELAY: u8 = 15;
/// Response time and retries of the connection manager's messages, READs at once: Linux's values.
const RESPONSE_TIMEOUT: u8 = 20;
const CM_RETRIES: u8 = 15;
const RESPONDER_RESOURCES: u8 = 4;
/// Retries of a queue pair: none, as in Linux's requests.
const RETRIES: u8 = 0;
/// Bits of a PSN.
const PSN_MASK: u32 = 0xff_ffff;

/// Queue pair for sending.
#[derive(Debug)]
pub(super) struct Sending {
    conn: ConnId,
    /// Queue pair at the peer; `None` until the peer has accepted.
    pub peer_qpn: Option<u32>,
    pub slid: u16,
    pub dlid: u16,
    pub sl: u8,
    /// Payload of a packet at most.
    pub mtu: u32,
    /// When it breaks: a packet of it was lost.
    breaks_at: Option<Instant>,
}

/// Queue pair for receiving.
#[derive(Debug)]
struct Receiving {
    conn: ConnId,
    /// LID of the peer.
    slid: u16,
}

/// Event of a connection, for its interface.
#[derive(Debug)]
pub(super) enum Happened {
    /// A peer requests a connection: [`Connections::accept`] or [`Connections::reject`] follows.
    Requested(Option<ConnectionRequest>, u32),
    /// The peer accepted: [`Connections::confirm`] or [`Connections::refuse`] follows.
    Accepted(u32, Option<ConnectedData>),
    /// The peer rejected the request, or did not answer.
    Refused(u32),
    /// A connection ended.
    Ended(Connection),
}

/// The connections of an interface.
#[derive(Debug)]
pub(super) struct Connections {
    cm: Cm,
    port: PortRef,
    /// The interface's queue pair for datagrams.
    qpn: u32,
    sending: BTreeMap<u32, Sending>,
    /// By queue pair.
    receiving: BTreeMap<u32, Receiving>,
    of: BTreeMap<ConnId, Connection>,
    /// Connections that lost a packet, by the time when they break.
    breaking: BTreeSet<(Instant, u32)>,
    /// Verdicts of this generation of the fabric, for messages and their acknowledgements.
    verdicts: BTreeMap<(u16, u8, u32), Option<Rc<Verdict>>>,
    generation: u64,
    /// Requests that could not be sent.
    unsent: Vec<u32>,
    next_qpn: u32,
    rng: SplitMix64,
}

impl Connections {
    /// Makes the connections of the interface with a queue pair for datagrams. `seed` must not be predictable.
    pub fn new(port: PortRef, node_guid: u64, qpn: u32, seed: u64) -> Connections {
        let mut rng = SplitMix64::seed_from_u64(seed);
        let mut cm = Cm::new(rng.next_u64());
        cm.set_device(DEVICE, CaInfo { node_guid, ack_delay: ACK_DELAY });
        // The first listener of a new connection manager finds its service free.
        let _ = cm.listen(service_id(qpn), u64::MAX);
        Connections {
            cm,
            port,
            qpn,
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            of: BTreeMap::new(),
            breaking: BTreeSet::new(),
            verdicts: BTreeMap::new(),
            generation: 0,
            unsent: Vec::new(),
            next_qpn: QPN_FIRST + (rng.next_u64() % u64::from(QPN_LAST - QPN_FIRST)) as u32,
            rng,
        }
    }

    /// Returns whether a message concerns these connections. The host's own connection manager shares queue pair 1;
    /// both draw their communication ids at random from all of 32 bits.
    pub fn claims(&self, from: &GmpAddress, mad: &MadBytes) -> bool {
        match self.cm.addressee(from, mad) {
            Some(Addressee::Service(service)) => service_qpn(service) == Some(self.qpn),
            Some(Addressee::Connection(conn)) => self.cm.knows(conn),
            None => false,
        }
    }

    /// Handles a message that [`Connections::claims`].
    pub fn handle_mad(&mut self, now: Instant, from: &GmpAddress, mad: &MadBytes) {
        self.cm.handle_mad(now, from, mad);
    }

    /// Requests a connection.
    pub fn connect(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        connection: u32,
        to: &LinkAddress,
        path: &PathRecord,
        data: ConnectedData,
    ) {
        let mtu = Mtu::from_enum(u32::from(path.mtu)).unwrap_or(Mtu::Mtu256);
        let params = ReqParams {
            to: self.gmp_address(path),
            service_id: service_id(to.qpn),
            primary: cm_path(path, mtu),
            alternate: None,
            qpn: self.free_qpn(),
            qp_type: QpType::Rc,
            starting_psn: self.psn(),
            responder_resources: RESPONDER_RESOURCES,
            initiator_depth: 0,
            flow_control: false,
            retry_count: RETRIES,
            rnr_retry_count: RETRIES,
            srq: true,
            remote_cm_response_timeout: RESPONSE_TIMEOUT,
            local_cm_response_timeout: RESPONSE_TIMEOUT,
            max_cm_retries: CM_RETRIES,
            peer_to_peer: false,
            ece: Ece::default(),
            private_data: data.encode().to_vec(),
        };
        match self.cm.send_req(now, &params) {
            Ok(conn) => {
                self.of.insert(conn, Connection::Outgoing(connection));
                let (slid, dlid, sl, mtu) = (path.slid, path.dlid, path.sl, mtu.bytes() as u32);
                let sending = Sending { conn, peer_qpn: None, slid, dlid, sl, mtu, breaks_at: None };
                self.sending.insert(connection, sending);
            }
            Err(_) => self.unsent.push(connection),
        }
        self.transmit(now, fabric);
    }

    fn gmp_address(&self, path: &PathRecord) -> GmpAddress {
        GmpAddress {
            device: DEVICE,
            port: self.port.port,
            sgid_index: 0,
            sgid: Gid(path.sgid),
            gid_type: GidType::IbOrRoceV1,
            dgid: Gid(path.dgid),
            dlid: path.dlid,
            remote_qpn: GSI_QPN,
            pkey: path.pkey,
            sl: path.sl,
            traffic_class: path.tclass,
            flow_label: path.flow_label,
            hop_limit: path.hop_limit,
            ifindex: 0,
        }
    }

    fn psn(&mut self) -> u32 {
        self.rng.next_u64() as u32 & PSN_MASK
    }

    /// Returns the number of a new queue pair. Their bounds leave most numbers free.
    fn free_qpn(&mut self) -> u32 {
        loop {
            let qpn = self.next_qpn;
            self.next_qpn = if qpn >= QPN_LAST { QPN_FIRST } else { qpn + 1 };
            if !self.receiving.contains_key(&qpn) {
                return qpn;
            }
        }
    }

    /// Ends a connection; its peer gets a DREQ, or a REJ if there is no connection yet.
    pub fn disconnect(&mut self, now: Instant, fabric: &mut Fabric, connection: Connection) {
        if let Some(conn) = self.remove(connection) {
            self.cm.destroy(now, conn);
            self.of.remove(&conn);
            self.transmit(now, fabric);
        }
    }

    fn remove(&mut self, connection: Connection) -> Option<ConnId> {
        match connection {
            Connection::Outgoing(number) => {
                let sending = self.sending.remove(&number)?;
                sending.breaks_at.map(|at| self.breaking.remove(&(at, number)));
                Some(sending.conn)
            }
            Connection::Incoming(number) => self.receiving.remove(&number).map(|receiving| receiving.conn),
        }
    }

    /// Accepts a request.
    pub fn accept(&mut self, now: Instant, fabric: &mut Fabric, number: u32, data: ConnectedData) {
        let starting_psn = self.psn();
        let Some(receiving) = self.receiving.get(&number) else { return };
        let rnr_retry_count = self.cm.qp_params(receiving.conn).map_or(0, |params| params.rnr_retry_count);
        let private_data = data.encode().to_vec();
        let params =
            RepParams { qpn: number, starting_psn, rnr_retry_count, srq: true, private_data, ..RepParams::default() };
        // The state allows it: nothing has happened since the request.
        let _ = self.cm.send_rep(now, receiving.conn, &params);
        self.transmit(now, fabric);
    }

    /// Rejects a request.
    pub fn reject(&mut self, now: Instant, fabric: &mut Fabric, number: u32, rejection: Rejection) {
        let reason = match rejection {
            Rejection::NoService => RejectReason::INVALID_SERVICE_ID,
            Rejection::NoRoom => RejectReason::NO_QP,
            Rejection::Invalid => RejectReason::CONSUMER_DEFINED,
        };
        self.end_with_rej(now, fabric, Connection::Incoming(number), reason);
    }

    /// Rejects the peer's acceptance.
    pub fn refuse(&mut self, now: Instant, fabric: &mut Fabric, connection: u32) {
        self.end_with_rej(now, fabric, Connection::Outgoing(connection), RejectReason::CONSUMER_DEFINED);
    }

    fn end_with_rej(&mut self, now: Instant, fabric: &mut Fabric, connection: Connection, reason: RejectReason) {
        if let Some(conn) = self.remove(connection) {
            let _ = self.cm.send_rej(now, conn, reason, &[], &[]);
            self.cm.destroy(now, conn);
            self.of.remove(&conn);
            self.transmit(now, fabric);
        }
    }

    /// Confirms the peer's acceptance: the connection carries messages from now on.
    pub fn confirm(&mut self, now: Instant, fabric: &mut Fabric, connection: u32) {
        if let Some(sending) = self.sending.get(&connection) {
            let _ = self.cm.send_rtu(now, sending.conn, &[]);
            self.transmit(now, fabric);
        }
    }

    /// Returns the queue pair of a connection for sending, unless it is about to break.
    pub fn sending(&self, connection: u32) -> Option<&Sending> {
        self.sending.get(&connection).filter(|sending| sending.breaks_at.is_none())
    }

    /// Returns whether a queue pair is that of an incoming connection.
    pub fn has(&self, qpn: u32) -> bool {
        self.receiving.contains_key(&qpn)
    }

    /// Returns whether a queue pair receives messages from a LID.
    pub fn receives(&self, qpn: u32, slid: u16) -> bool {
        self.receiving.get(&qpn).is_some_and(|receiving| receiving.slid == slid)
    }

    /// Returns the fabric's verdict on packets of a port, from the cache; `None` if they do not arrive.
    pub fn verdict(&mut self, fabric: &Fabric, from: PortRef, query: &PathQuery) -> Option<Rc<Verdict>> {
        if std::mem::replace(&mut self.generation, fabric.generation()) != fabric.generation() {
            self.verdicts.clear();
        }
        let key = (query.dlid, query.sl, query.payload);
        self.verdicts.entry(key).or_insert_with(|| fabric.verdict(from, query).ok().map(Rc::new)).clone()
    }

    /// Returns whether a cable damages one of these packets, each with this probability per million.
    pub fn loses(&mut self, packets: u64, loss_ppm: u32) -> bool {
        let survives = (1.0 - f64::from(loss_ppm.min(1_000_000)) / 1e6).powf(packets as f64);
        loss_ppm > 0 && (self.rng.next_u64() as f64 / u64::MAX as f64) >= survives
    }

    /// Handles a lost packet: the connection breaks once the queue pair's timeouts have passed.
    pub fn on_lost(&mut self, now: Instant, connection: u32) {
        let Some(sending) = self.sending.get_mut(&connection).filter(|sending| sending.breaks_at.is_none()) else {
            return;
        };
        let exponent = self.cm.qp_params(sending.conn).map_or(0, |params| params.timeout);
        let at = now + exponent_to_duration(exponent) * (u32::from(RETRIES) + 1);
        sending.breaks_at = Some(at);
        self.breaking.insert((at, connection));
    }

    /// Returns when [`Connections::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let breaks = self.breaking.first().map(|(at, _)| *at);
        let unsent = (!self.unsent.is_empty()).then(Instant::default);
        [self.cm.poll_timeout(), breaks, unsent].into_iter().flatten().min()
    }

    /// Repeats messages whose time has come, and ends connections that lost packets; returns those.
    pub fn handle_timeout(&mut self, now: Instant, fabric: &mut Fabric) -> Vec<u32> {
        self.cm.handle_timeout(now);
        let mut broken = Vec::new();
        while let Some((_, connection)) = self.breaking.first().copied().filter(|(at, _)| *at <= now) {
            self.disconnect(now, fabric, Connection::Outgoing(connection));
            broken.push(connection);
        }
        self.transmit(now, fabric);
        broken
    }

    /// Sends the connection manager's messages.
    pub fn transmit(&mut self, now: Instant, fabric: &mut Fabric) {
        while let Some((to, bytes)) = self.cm.poll_transmit() {
            if let Some(mad) = Mad::parse(&bytes) {
                // A port without a link sends nothing, and the message is repeated.
                let _ = fabric.send(now, self.port, &MadOut { to: destination(&to), mad });
            }
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self, now: Instant) -> Option<Happened> {
        if let Some(connection) = self.unsent.pop() {
            return Some(Happened::Refused(connection));
        }
        while let Some(event) = self.cm.poll_event() {
            if let Some(happened) = self.on_event(now, event) {
                return Some(happened);
            }
        }
        None
    }

    fn on_event(&mut self, now: Instant, event: Event) -> Option<Happened> {
        let Event { conn, kind, private_data } = event;
        if let EventKind::ReqReceived(request) = kind {
            return Some(self.on_request(conn, &request, &private_data));
        }
        let connection = *self.of.get(&conn)?;
        let happened = match (kind, connection) {
            (EventKind::RepReceived(reply), Connection::Outgoing(number)) => {
                let data = ConnectedData::parse(&private_data);
                self.sending.get_mut(&number)?.peer_qpn = Some(reply.remote_qpn);
                return Some(Happened::Accepted(number, data));
            }
            // A peer that thinks of an old connection has forgotten it now.
            (EventKind::RejReceived(rej), Connection::Outgoing(number)) if rej.reason != RejectReason::STALE_CONN => {
                let was_requested = self.sending.get(&number).is_some_and(|sending| sending.peer_qpn.is_none());
                if was_requested { Happened::Refused(number) } else { Happened::Ended(connection) }
            }
            (EventKind::ReqError, Connection::Outgoing(number)) => Happened::Refused(number),
            (EventKind::DreqReceived, _) => {
                let _ = self.cm.send_drep(now, conn, &[]);
                Happened::Ended(connection)
            }
            (EventKind::RejReceived(_) | EventKind::RepError | EventKind::DreqError, _) => Happened::Ended(connection),
            _ => return None,
        };
        self.remove(connection);
        self.of.remove(&conn);
        self.cm.destroy(now, conn);
        Some(happened)
    }

    fn on_request(&mut self, conn: ConnId, request: &ReqReceived, private_data: &[u8]) -> Happened {
        let number = self.free_qpn();
        self.of.insert(conn, Connection::Incoming(number));
        self.receiving.insert(number, Receiving { conn, slid: request.primary.dlid });
        let data = ConnectedData::parse(private_data).filter(|_| request.qp_type == QpType::Rc);
        let request = data.map(|data| ConnectionRequest { number, gid: request.from.dgid.0, data });
        Happened::Requested(request, number)
    }

    /// Returns the number of connections that the connection manager has, for tests.
    #[cfg(test)]
    pub fn count(&self) -> (usize, usize, usize) {
        (self.sending.len(), self.receiving.len(), self.cm.connections())
    }
}

fn cm_path(path: &PathRecord, mtu: Mtu) -> CmPath {
    CmPath {
        sgid: Gid(path.sgid),
        dgid: Gid(path.dgid),
        slid: path.slid,
        dlid: path.dlid,
        flow_label: path.flow_label,
        hop_limit: path.hop_limit,
        traffic_class: path.tclass,
        sl: path.sl,
        pkey: path.pkey,
        mtu,
        rate: path.rate.0,
        packet_life_time: path.packet_life_time,
    }
}
