//! iWARP's part of the connection commands (`cma_connect_iw` and the like): ids on RNICs, whose connections are TCP
//! connections on the programs' own ports.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use weft_verbs::{Access, Instant, QpAttrMask};

use super::address::{Family, PortSpace, SockAddr};
use super::client::ClientId;
use super::command::IdNumber;
use super::device::PortKind;
use super::errno::{ECONNREFUSED, ECONNRESET, EINVAL, ENOENT, ENOSYS, ETIMEDOUT, Errno};
use super::event::{CmEvent, EventKind, EventParam};
use super::id::{Attachment, Id, QPT_RC, State};
use super::limits::EVENTS_PER_CHANNEL_MAX;
use super::param::{ConnParam, Ece, QpAttributes};
use super::ports::same_address;
use super::service::Service;
use crate::iw;

impl Service {
    /// Returns the next request for the sockets of iWARP connections.
    pub fn poll_socket(&mut self) -> Option<iw::SocketRequest> {
        self.iw.poll_request()
    }

    /// Returns the addresses on which TCP connections for iWARP ids must be accepted: those of listeners, on every RNIC.
    /// They change with commands and devices.
    pub fn stream_listeners(&self) -> BTreeSet<SocketAddr> {
        let mut wanted = BTreeSet::new();
        for id in self.ports.listeners().filter_map(|number| self.ids.look(number)) {
            let (State::Listen, PortSpace::Tcp, Some(addr)) = (id.state, id.port_space, id.src) else { continue };
            for entry in self.devices.ports().filter(|entry| entry.device.kind == PortKind::Iwarp) {
                let rows = entry.device.gids.iter().filter(|row| hears(id, row.ip, entry.device.place()));
                wanted.extend(rows.map(|row| socket_address(row.ip, addr.port(), row.ifindex)));
            }
        }
        wanted
    }

    /// Takes back `rdma_listen`: its port is taken by a TCP socket of another program.
    pub fn unlisten(&mut self, number: IdNumber) {
        if let Some(id) = self.ids.change(number)
            && id.state == State::Listen
        {
            id.state = State::AddrBound;
            if let Some(service) = id.service.take() {
                // The service is listened to, so `unlisten` cannot fail.
                let _ = self.ib.unlisten(service);
            }
        }
    }

    /// Notes that TCP connected.
    pub fn handle_stream_connected(&mut self, now: Instant, conn: iw::ConnId, local: SocketAddr) {
        self.iw.handle_connected(now, conn, local);
        self.drain_streams(now);
    }

    /// Takes a TCP connection that a peer opened to a listener. `None`: the caller closes the socket.
    pub fn handle_stream_accepted(&mut self, now: Instant, local: SocketAddr, peer: SocketAddr) -> Option<iw::ConnId> {
        let (number, _) = self.stream_listener(local)?;
        let options = self.ids.look(number)?.options.mpa;
        self.iw.handle_accepted(now, local, peer, &options)
    }

    /// Returns how many bytes of a connection may be read at most: those behind them belong to its stream.
    pub fn wants_from_stream(&self, conn: iw::ConnId) -> usize {
        self.iw.wants(conn)
    }

    /// Handles bytes of a connection.
    pub fn handle_stream_bytes(&mut self, now: Instant, conn: iw::ConnId, bytes: &[u8]) {
        self.iw.handle_bytes(now, conn, bytes);
        self.drain_streams(now);
    }

    /// Handles the end of a TCP connection, or the errno with which it failed.
    pub fn handle_stream_closed(&mut self, now: Instant, conn: iw::ConnId, errno: Option<Errno>) {
        self.iw.handle_closed(now, conn, errno);
        self.drain_streams(now);
    }

    /// Handles the end of a queue pair's stream.
    pub fn handle_stream_ended(&mut self, now: Instant, qp_num: u32) {
        self.iw.handle_stream_ended(qp_num);
        self.drain_streams(now);
    }

    /// Handles the end of a process with these queue pairs.
    pub fn handle_streams_gone(&mut self, now: Instant, of: impl Fn(u32) -> bool) {
        self.iw.handle_streams_gone(of);
        self.drain_streams(now);
    }

    /// Returns the process whose id has a connection.
    pub fn stream_client(&self, conn: iw::ConnId) -> Option<ClientId> {
        self.ids.look(*self.stream_owners.get(&conn)?).map(|id| id.client)
    }

    /// Returns the connections' manager, which knows whose other end is here, too.
    pub fn streams(&self) -> &iw::Cm {
        &self.iw
    }

    /// Records that both ends of a connection exchange data without the stream.
    pub fn pair_streams(&mut self, conn: iw::ConnId, twin: iw::ConnId) {
        self.iw.pair(conn, twin);
    }

    /// Returns whether an id is on an RNIC.
    pub(super) fn is_on_rnic(&self, number: IdNumber) -> bool {
        let attachment = self.ids.look(number).and_then(|id| id.attachment);
        let entry = attachment.and_then(|attachment| self.devices.look(attachment.place()));
        entry.is_some_and(|entry| entry.device.kind == PortKind::Iwarp)
    }

    /// Returns whether the peer of an id is at an address of an RNIC of this host.
    pub(super) fn is_peer_on_rnic(&self, number: IdNumber) -> bool {
        let addr = self.ids.look(number).and_then(|id| id.dst);
        addr.is_some_and(|addr| addr.family() != Family::Ib && self.devices.rnic_of(addr.ip(), 0).is_some())
    }

    /// `rdma_connect` on an RNIC (`cma_connect_iw`).
    pub(super) fn connect_stream(&mut self, now: Instant, number: IdNumber, param: ConnParam) -> Result<(), Errno> {
        let id = self.ids.change(number).ok_or(ENOENT)?;
        let (Some(src), Some(dst), Some(attachment)) = (id.src, id.dst, id.attachment) else { return Err(EINVAL) };
        if id.is_datagram() || src.family() == Family::Ib {
            return Err(ENOSYS);
        }
        let local = socket_address(src.ip(), src.port(), attachment.ifindex);
        let peer = socket_address(dst.ip(), dst.port(), attachment.ifindex);
        let conn = self.iw.connect(now, local, peer, &id.options.mpa, params(id.qp_num, param))?;
        id.stream = Some(conn);
        id.state = State::Connect;
        self.stream_owners.insert(conn, number);
        self.drain_streams(now);
        Ok(())
    }

    /// `rdma_accept` on an RNIC (`cma_accept_iw`). If it fails, the peer gets a reject.
    pub(super) fn accept_stream(
        &mut self,
        now: Instant,
        number: IdNumber,
        cookie: u64,
        param: Option<ConnParam>,
    ) -> Result<(), Errno> {
        let id = self.ids.change(number).ok_or(ENOENT)?;
        let (Some(conn), State::Connect) = (id.stream, id.state) else { return Err(EINVAL) };
        // iWARP has no answer to confirm.
        let Some(param) = param else { return Ok(()) };
        let before = id.cookie;
        if cookie != 0 {
            id.cookie = Some(cookie);
        }
        let answered = self.iw.accept(now, conn, &params(id.qp_num, param));
        if answered.is_err() {
            id.cookie = before;
            // If the reject fails, the connection is gone already.
            let _ = self.iw.reject(conn, &[]);
        }
        self.drain_streams(now);
        answered
    }

    /// `rdma_reject` on an RNIC.
    pub(super) fn reject_stream(&mut self, now: Instant, conn: iw::ConnId, data: &[u8]) -> Result<(), Errno> {
        let rejected = self.iw.reject(conn, data);
        self.drain_streams(now);
        rejected
    }

    /// `rdma_disconnect` on an RNIC; `Disconnected` follows when the stream has ended.
    pub(super) fn disconnect_stream(&mut self, conn: iw::ConnId) {
        if self.iw.phase(conn) == Some(iw::Phase::Handed) {
            self.iw.close(conn);
        }
    }

    /// Releases the connection of an id that goes.
    pub(super) fn drop_stream(&mut self, conn: iw::ConnId) {
        if self.stream_owners.remove(&conn).is_some() {
            self.iw.destroy(conn);
        }
    }

    /// Handles the events of connections. Called after every call into their manager.
    pub(super) fn drain_streams(&mut self, now: Instant) {
        while let Some((conn, event)) = self.iw.poll_event() {
            match event {
                iw::Event::Requested { local, peer, ird, ord, private_data } => {
                    let param = conn_param(ird, ord, private_data);
                    if self.on_stream_request(conn, local, peer, param).is_none() {
                        let _ = self.iw.reject(conn, &[]);
                    }
                }
                event => self.on_stream_progress(now, conn, event),
            }
        }
    }

    /// Handles an event of an id's connection (`cma_iw_handler`).
    fn on_stream_progress(&mut self, _now: Instant, conn: iw::ConnId, event: iw::Event) {
        let Some(number) = self.stream_owners.get(&conn).copied() else { return };
        let Some(id) = self.ids.change(number) else { return };
        match event {
            iw::Event::Established { local, ird, ord, private_data } => {
                if let (Some(local), Some(src)) = (local, id.src) {
                    // The port may be another one than that of the id.
                    id.src = Some(src.with_port(local.port()));
                }
                let param = EventParam::Conn(conn_param(ird, ord, private_data));
                self.emit(number, EventKind::Established, 0, param);
            }
            iw::Event::Failed { errno, private_data } => {
                id.stream = None;
                self.stream_owners.remove(&conn);
                let kind = match errno {
                    ECONNRESET | ECONNREFUSED => EventKind::Rejected,
                    ETIMEDOUT => EventKind::Unreachable,
                    _ => EventKind::ConnectError,
                };
                let param = EventParam::Conn(ConnParam { private_data, ..ConnParam::default() });
                self.emit(number, kind, -errno, param);
            }
            iw::Event::Closed => {
                (id.stream, id.state) = (None, State::Disconnect);
                self.stream_owners.remove(&conn);
                self.emit(number, EventKind::Disconnected, 0, EventParam::None);
            }
            iw::Event::Requested { .. } => {}
        }
    }

    /// Makes an id for a peer's request, and reports it to the listener (`iw_conn_req_handler`).
    fn on_stream_request(
        &mut self,
        conn: iw::ConnId,
        local: SocketAddr,
        peer: SocketAddr,
        param: ConnParam,
    ) -> Option<()> {
        let (number, attachment) = self.stream_listener(local)?;
        let listener = self.ids.look(number)?;
        let (client, channel, cookie) = (listener.client, listener.channel, listener.cookie);
        let (tos, mpa) = (listener.options.tos, listener.options.mpa);
        if listener.backlog == 0 || self.channels.waiting(channel) >= EVENTS_PER_CHANNEL_MAX {
            return None;
        }
        let child = self.add_id(client, channel, PortSpace::Tcp, QPT_RC, None).ok()?;
        let id = self.ids.change(child)?;
        (id.state, id.attachment, id.bound_if) = (State::Connect, Some(attachment), attachment.ifindex);
        (id.src, id.dst) = (Some(address_of(local)), Some(address_of(peer)));
        (id.options.tos, id.options.mpa, id.stream) = (tos, mpa, Some(conn));
        self.stream_owners.insert(conn, child);
        let listener = self.ids.change(number)?;
        listener.backlog = listener.backlog.saturating_sub(1);
        let event = CmEvent {
            kind: EventKind::ConnectRequest,
            id: child,
            listener: Some(number),
            group: None,
            cookie: cookie.unwrap_or(0),
            status: 0,
            param: EventParam::Conn(param),
            ece: Ece::default(),
        };
        self.push_event(number, event);
        Some(())
    }

    /// Returns the newest listener for connections to an address, and the RNIC with the address.
    fn stream_listener(&self, local: SocketAddr) -> Option<(IdNumber, Attachment)> {
        let attachment = self.devices.rnic_of(local.ip(), scope_of(local))?;
        let mut owners = self.ports.owners(PortSpace::Tcp, local.port());
        let number = owners.find(|number| {
            let id = self.ids.look(*number);
            id.is_some_and(|id| id.state == State::Listen && hears(id, local.ip(), attachment.place()))
        })?;
        Some((number, attachment))
    }
}

/// Returns the attributes of an iWARP queue pair (`iw_cm_init_qp_attr`): it needs no path. That its peer is on this host is
/// said by a destination, whose number is not known yet.
pub(super) fn qp_attributes(port_num: u8, qp_state: u32, is_ready: bool, is_within_host: bool) -> QpAttributes {
    const RTS: u32 = 3;
    let mut mask = if is_ready && qp_state == RTS {
        QpAttrMask::PORT
    } else {
        QpAttrMask::STATE | QpAttrMask::ACCESS_FLAGS | QpAttrMask::PORT
    };
    mask.set(QpAttrMask::DEST_QPN, is_within_host && mask.contains(QpAttrMask::STATE));
    // The memory's keys alone decide, as with siw.
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    QpAttributes { mask: mask.bits(), qp_state, port_num, qp_access_flags: access.bits(), ..QpAttributes::default() }
}

/// Returns whether a listener hears connections to an address of a device.
fn hears(listener: &Id, ip: IpAddr, place: super::device::Place) -> bool {
    let Some(addr) = listener.src else { return false };
    if addr.family() == Family::Ib || listener.attachment.is_some_and(|own| own.place() != place) {
        return false;
    }
    let wanted = SockAddr::new(ip, addr.port());
    match addr.is_zero() {
        true => wanted.family() == addr.family() || !listener.options.afonly,
        false => same_address(wanted, SockAddr::new(addr.ip(), addr.port())),
    }
}

fn params(qp_num: u32, param: ConnParam) -> iw::ConnectParams {
    let ConnParam { responder_resources, initiator_depth, private_data, .. } = param;
    iw::ConnectParams { qp_num, ird: responder_resources, ord: initiator_depth, private_data }
}

/// Returns the parameters of an event: the recipient may have `ird` of the peer outstanding.
fn conn_param(ird: u8, ord: u8, private_data: Vec<u8>) -> ConnParam {
    ConnParam { initiator_depth: ird, responder_resources: ord, private_data, ..ConnParam::default() }
}

fn socket_address(ip: IpAddr, port: u16, ifindex: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, port).into(),
        IpAddr::V6(ip) => {
            let scope = if ip.is_unicast_link_local() { ifindex } else { 0 };
            SocketAddrV6::new(ip, port, 0, scope).into()
        }
    }
}

fn address_of(addr: SocketAddr) -> SockAddr {
    match addr {
        SocketAddr::V4(v4) => SockAddr::V4 { addr: *v4.ip(), port: v4.port() },
        SocketAddr::V6(v6) => SockAddr::V6 { addr: *v6.ip(), port: v6.port(), flowinfo: 0, scope_id: v6.scope_id() },
    }
}

fn scope_of(addr: SocketAddr) -> u32 {
    if let SocketAddr::V6(v6) = addr { v6.scope_id() } else { 0 }
}
