//! Connected mode: messages between interfaces, and what the connection manager's datagrams lead to.

use weft_fabric::{Delivery, Fabric, PathQuery, PortRef, pkeys_match};
use weft_ipoib::{Connection, Frame, Mode, Run};
use weft_verbs::{Duration, Instant};
use zerocopy::IntoBytes;

use super::connections::{Connections, DEVICE, Happened};
use super::{Bound, InterfaceId, Interfaces};
use crate::cm_service::on_fabric::{gid_of_lid, origin};

/// Bytes of a packet's headers, as the ports count them for other connections: LRH, BTH, ICRC.
const HEADERS_BYTES: u64 = 8 + 12 + 4;

/// Marks a message on its way: P_Key of its sender, and queue pair of the receiving connection, which has 14 bits.
fn mark(qpn: u32, pkey: u16) -> u32 {
    u32::from(pkey) << 16 | qpn & 0xffff
}

/// Returns the number of packets that the messages of a frame need, and their length in words.
fn counted(frame: &Frame, mtu: usize) -> (u64, u64) {
    let packets = |run: Run| (run.count * run.len.div_ceil(mtu).max(1)) as u64;
    let words = |run: Run| ((run.count * run.len) as u64 + packets(run) * HEADERS_BYTES).div_ceil(4);
    let [first, last] = frame.runs();
    (packets(first) + packets(last), words(first) + words(last))
}

impl Interfaces {
    /// Sets an interface's mode; returns whether there is such an interface.
    pub fn set_mode(&mut self, now: Instant, fabric: &mut Fabric, id: impl Into<InterfaceId>, mode: Mode) -> bool {
        let id = id.into();
        self.act(now, fabric, id, |interface, out| interface.set_mode(mode, out));
        self.of.contains_key(&id)
    }

    /// Returns an interface's mode.
    pub fn mode(&self, id: InterfaceId) -> Option<Mode> {
        self.of.get(&id).map(|bound| bound.interface.mode())
    }

    /// Handles a datagram of class CM; returns whether it concerns a connection of the port's interface.
    pub(super) fn handle_cm(&mut self, now: Instant, fabric: &mut Fabric, delivery: &Delivery) -> bool {
        let port = delivery.port;
        let Some(sgid) = fabric.gid(port, 0) else { return false };
        let from = origin(DEVICE, sgid, delivery, |lid| gid_of_lid(fabric, port, lid));
        let (Some(from), Ok(mad)) = (from, delivery.mad.as_bytes().try_into()) else { return false };
        let mut all = self.of.range_mut(InterfaceId::range(port));
        let Some((&id, bound)) = all.find(|(_, bound)| bound.connections.claims(&from, mad)) else { return false };
        bound.connections.handle_mad(now, &from, mad);
        self.follow_connections(now, fabric, id);
        true
    }

    /// Does what is due for an interface's connections.
    pub(super) fn handle_connections_timeout(&mut self, now: Instant, fabric: &mut Fabric, id: InterfaceId) {
        let Some(bound) = self.of.get_mut(&id) else { return };
        for connection in bound.connections.handle_timeout(now, fabric) {
            bound.interface.handle_disconnected(connection);
        }
        self.follow_connections(now, fabric, id);
    }

    /// Reports the events of an interface's connections to it.
    fn follow_connections(&mut self, now: Instant, fabric: &mut Fabric, id: InterfaceId) {
        while let Some(happened) = self.of.get_mut(&id).and_then(|bound| bound.connections.poll_event(now)) {
            self.on_happened(now, fabric, id, happened);
        }
        if let Some(connections) = self.connections_of(id) {
            connections.transmit(now, fabric);
        }
    }

    fn connections_of(&mut self, id: InterfaceId) -> Option<&mut Connections> {
        self.of.get_mut(&id).map(|bound| &mut bound.connections)
    }

    fn on_happened(&mut self, now: Instant, fabric: &mut Fabric, id: InterfaceId, happened: Happened) {
        match happened {
            Happened::Requested(request, number) => {
                let mut answer = Err(weft_ipoib::Rejection::Invalid);
                if let Some(request) = request {
                    self.act(now, fabric, id, |interface, out| {
                        answer = interface.handle_request(now, &request, out);
                    });
                }
                let Some(connections) = self.connections_of(id) else { return };
                match answer {
                    Ok(data) => connections.accept(now, fabric, number, data),
                    Err(rejection) => connections.reject(now, fabric, number, rejection),
                }
            }
            Happened::Accepted(connection, data) => self.on_accepted(now, fabric, id, connection, data),
            Happened::Refused(connection) => {
                self.act(now, fabric, id, |interface, out| interface.handle_refused(now, connection, out));
            }
            Happened::Ended(connection) => {
                let Some(Bound { interface, .. }) = self.of.get_mut(&id) else { return };
                match connection {
                    Connection::Outgoing(number) => interface.handle_disconnected(number),
                    Connection::Incoming(number) => interface.handle_incoming_end(number),
                }
            }
        }
    }

    fn on_accepted(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        id: InterfaceId,
        connection: u32,
        data: Option<weft_wire::ipoib::ConnectedData>,
    ) {
        let mut is_valid = false;
        self.act(now, fabric, id, |interface, out| {
            is_valid = interface.handle_connected(connection, data, out);
        });
        let Some(connections) = self.connections_of(id) else { return };
        if is_valid {
            return connections.confirm(now, fabric, connection);
        }
        connections.refuse(now, fabric, connection);
        self.act(now, fabric, id, |interface, out| interface.handle_refused(now, connection, out));
    }

    /// Carries a message to the interface at the port where it arrives. A message that does not arrive, or whose
    /// acknowledgement does not, breaks its connection.
    pub(super) fn carry_message(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        from: InterfaceId,
        connection: u32,
        frame: Frame,
    ) {
        let Some(bound) = self.of.get_mut(&from) else { return };
        let Some(pkey) = bound.pkey else { return };
        let Some(sending) = bound.connections.sending(connection) else { return };
        let (Some(qpn), slid, mtu) = (sending.peer_qpn, sending.slid, sending.mtu) else { return };
        let query = PathQuery { dlid: sending.dlid, sl: sending.sl, pkey, payload: mtu };
        let Some(there) = bound.connections.verdict(fabric, from.port, &query) else {
            return bound.connections.on_lost(now, connection);
        };
        if !frame.is_plain() && (there.loss_ppm > 0 || there.latency_ns > 0) {
            // Each message is lost or delayed by itself.
            frame.into_plain().for_each(|message| self.carry_message(now, fabric, from, connection, message));
            return;
        }
        let (packets, words) = counted(&frame, mtu as usize);
        fabric.account(&there.path, packets, words);
        let (at, latency, loss_ppm) = (there.to, Duration::from_nanos(there.latency_ns), there.loss_ppm);
        let is_damaged = bound.connections.loses(packets, loss_ppm);
        let (receives, returns) = match is_damaged {
            true => (false, false),
            false => self.is_delivered(fabric, at, (qpn, slid), from.port, &query),
        };
        if (!receives || !returns)
            && let Some(connections) = self.connections_of(from)
        {
            connections.on_lost(now, connection);
        }
        let mark = mark(qpn, pkey);
        if receives && latency == Duration::default() {
            self.receive_message(now, fabric, at, mark, frame);
        } else if receives && !self.flying.depart(now + latency, at, mark, frame.bytes()) {
            // The cable is full.
            self.connections_of(from).into_iter().for_each(|connections| connections.on_lost(now, connection));
        }
    }

    /// Returns whether a connection at a port receives a message, and whether its acknowledgement comes back.
    fn is_delivered(
        &mut self,
        fabric: &Fabric,
        at: PortRef,
        (qpn, slid): (u32, u16),
        sender: PortRef,
        query: &PathQuery,
    ) -> (bool, bool) {
        let id = self.receiver(at, mark(qpn, query.pkey));
        let Some(bound) = id.and_then(|id| self.of.get_mut(&id)) else { return (false, false) };
        let Some(pkey) = bound.pkey.filter(|_| bound.connections.receives(qpn, slid)) else { return (false, false) };
        let back = PathQuery { dlid: slid, pkey, payload: 0, ..*query };
        (true, bound.connections.verdict(fabric, at, &back).is_some_and(|back| back.to == sender))
    }

    /// Returns the interface of a port that a message is for: those of one port are in different partitions.
    fn receiver(&self, at: PortRef, mark: u32) -> Option<InterfaceId> {
        let (qpn, pkey) = (mark & 0xffff, (mark >> 16) as u16);
        let is_for = |bound: &Bound| bound.pkey.is_some_and(|own| pkeys_match(own, pkey)) && bound.connections.has(qpn);
        self.of.range(InterfaceId::range(at)).find(|(_, bound)| is_for(bound)).map(|(id, _)| *id)
    }

    /// Delivers messages whose time on the cables has passed.
    pub(super) fn land_messages(&mut self, now: Instant, fabric: &mut Fabric) {
        while let Some((at, mark, frame)) = self.flying.arrive(now) {
            self.receive_message(now, fabric, at, mark, frame.into_vec().into());
        }
    }

    fn receive_message(&mut self, now: Instant, fabric: &mut Fabric, at: PortRef, mark: u32, frame: Frame) {
        let Some(id) = self.receiver(at, mark) else { return };
        let Some(bound) = self.of.get_mut(&id) else { return };
        bound.interface.handle_message(now, mark & 0xffff, frame, &mut self.out);
        self.perform(now, fabric, id);
    }
}
