//! Requests received by listeners (`cma_ib_req_handler`): the choice of the listener, and the new id for the request.

use std::net::IpAddr;

use weft_verbs::Instant;
use weft_wire::cm::{IpCmHeader, RejectReason};

use super::address::{Family, PortSpace, SockAddr, SockAddrIb};
use super::command::IdNumber;
use super::datagram::sidr_refusal;
use super::device::Place;
use super::event::{CmEvent, EventKind, EventParam};
use super::id::{Attachment, Id, QPT_UD, State};
use super::incoming::PATIENCE;
use super::limits::EVENTS_PER_CHANNEL_MAX;
use super::message::ece_above;
use super::param::{ConnParam, Ece, PathRecord, UdParam};
use super::ports::same_address;
use super::resolve::with_ip;
use super::service::Service;
use crate::ib;

/// A request, connected or not.
struct Request<'a> {
    place: Place,
    service_id: u64,
    /// Local and peer's GID in the request.
    sgid: [u8; 16],
    dgid: [u8; 16],
    /// Type that this side's queue pair must have.
    qp_type: u8,
    /// Addresses of both ends; none if `AF_IB`.
    header: Option<IpCmHeader>,
    /// Private data with the header, and without it.
    private: &'a [u8],
    data: &'a [u8],
    path: Option<PathRecord>,
}

impl Service {
    /// Handles a request for a connection.
    pub(super) fn on_request(&mut self, now: Instant, conn: ib::ConnId, req: &ib::ReqReceived, private: Vec<u8>) {
        let path = path_record(req);
        let request = Request::new((req.from.device, req.from.port), req.service_id, req.qp_type as u8, &private);
        let request = Request { sgid: path.sgid, dgid: path.dgid, path: Some(path), ..request };
        let made = self.check_mtu(req).and_then(|()| self.new_child(&request).map_err(|reason| (reason, Vec::new())));
        let made = made.map(|(listener, child)| {
            let param = EventParam::Conn(param_of(req, self.data_of(&request, listener)));
            self.announce(listener, child, conn, param, ece_above(req.ece));
        });
        match made {
            // The program may be slow: the peer learns so if it repeats its request.
            Ok(()) => drop(self.ib.send_mra(now, conn, PATIENCE, true, &[])),
            Err((reason, information)) => {
                // An error means that the connection is gone already.
                let _ = self.ib.send_rej(now, conn, reason, &information, &[]);
                self.ib.destroy(now, conn);
            }
        }
    }

    /// Handles a request for a datagram service.
    pub(super) fn on_sidr_request(
        &mut self,
        now: Instant,
        conn: ib::ConnId,
        req: &ib::SidrReqReceived,
        private: Vec<u8>,
    ) {
        let request = Request::new((req.from.device, req.from.port), req.service_id, QPT_UD, &private);
        let request = Request { sgid: req.from.sgid.0, dgid: req.from.dgid.0, ..request };
        let made = self.new_child(&request).map(|(listener, child)| {
            let private_data = self.data_of(&request, listener).to_vec();
            let ud = UdParam { private_data, ..UdParam::default() };
            self.announce(listener, child, conn, EventParam::Ud(ud), Ece::default());
        });
        if made.is_err() {
            let _ = self.ib.send_sidr_rep(now, conn, &sidr_refusal(&[]));
            self.ib.destroy(now, conn);
        }
    }

    /// Refuses a request with a path MTU beyond the port's, and names the largest one (IBA 12.6.7.2): the queue pair
    /// could not enter RTR, so the program's `rdma_accept` would fail.
    fn check_mtu(&self, req: &ib::ReqReceived) -> Result<(), (RejectReason, Vec<u8>)> {
        let active = self.devices.look((req.from.device, req.from.port)).map_or(0, |entry| entry.device.active_mtu);
        let fits = active == 0 || req.primary.mtu as u8 <= active;
        if fits { Ok(()) } else { Err((RejectReason::INVALID_MTU, vec![active << 4])) }
    }

    /// Returns the listener that a request is for, and a new id for the request; or the reason for a rejection.
    fn new_child(&mut self, request: &Request) -> Result<(IdNumber, IdNumber), RejectReason> {
        let attachment = self.attachment_of(request).ok_or(RejectReason::CONSUMER_DEFINED)?;
        let number = self.listener_of(request, &attachment).ok_or(RejectReason::CONSUMER_DEFINED)?;
        let listener = self.ids.look(number).ok_or(RejectReason::CONSUMER_DEFINED)?;
        let (client, channel, port_space) = (listener.client, listener.channel, listener.port_space);
        if listener.backlog == 0 || self.channels.waiting(channel) >= EVENTS_PER_CHANNEL_MAX {
            return Err(RejectReason::NO_RESOURCES);
        }
        let (src, dst) = request.addresses(listener, &attachment);
        let tos = listener.options.tos;
        let child =
            self.add_id(client, channel, port_space, request.qp_type, None).map_err(|_| RejectReason::NO_RESOURCES)?;
        let id = self.ids.change(child).ok_or(RejectReason::NO_RESOURCES)?;
        id.state = State::Connect;
        (id.src, id.dst) = (Some(src), Some(dst));
        id.bound_if = attachment.ifindex;
        id.attachment = Some(attachment);
        id.dgid = request.dgid;
        id.path = request.path;
        id.options.tos = tos;
        Ok((number, child))
    }

    /// Returns the device and GID that a request is for: by the address in its header, as in Linux, or by its path's
    /// GID.
    fn attachment_of(&self, request: &Request) -> Option<Attachment> {
        let by_path = self.devices.by_gid(request.place, request.sgid)?;
        match request.header.map(|header| header.addresses.destination()) {
            Some(ip) if !ip.is_loopback() => self.devices.by_ip_on(request.place, ip),
            _ => Some(by_path),
        }
    }

    /// Returns the newest listener on the service's port that accepts the request.
    fn listener_of(&self, request: &Request, attachment: &Attachment) -> Option<IdNumber> {
        let port_space = PortSpace::from_number((request.service_id >> 16) as u16)?;
        let mut owners = self.ports.owners(port_space, request.service_id as u16);
        owners.find(|owner| self.ids.look(*owner).is_some_and(|id| request.fits(id, attachment)))
    }

    /// Returns the program's part of a request's private data: all of it for an `AF_IB` listener, whatever it looks like.
    fn data_of<'a>(&self, request: &Request<'a>, listener: IdNumber) -> &'a [u8] {
        let is_ib = self.ids.look(listener).is_some_and(|id| id.family() == Some(Family::Ib));
        if is_ib { request.private } else { request.data }
    }

    /// Reports a new id to its listener.
    fn announce(&mut self, listener: IdNumber, child: IdNumber, conn: ib::ConnId, param: EventParam, ece: Ece) {
        self.owners.insert(conn, child);
        if let Some(id) = self.ids.change(child) {
            id.conn = Some(conn);
        }
        let Some(id) = self.ids.change(listener) else { return };
        id.backlog = id.backlog.saturating_sub(1);
        let cookie = id.cookie.unwrap_or(0);
        let event = CmEvent {
            kind: EventKind::ConnectRequest,
            id: child,
            listener: Some(listener),
            group: None,
            cookie,
            status: 0,
            param,
            ece,
        };
        self.push_event(listener, event);
    }
}

impl<'a> Request<'a> {
    /// Parses a request by its private data: with a header of the IP CM service in front, or without one if `AF_IB`.
    fn new(place: Place, service_id: u64, qp_type: u8, private: &'a [u8]) -> Request<'a> {
        let (header, data) = match IpCmHeader::parse(private) {
            Ok((header, data)) => (Some(header), data),
            Err(_) => (None, private),
        };
        let zero = [0; 16];
        Request { place, service_id, sgid: zero, dgid: zero, qp_type, header, private, data, path: None }
    }

    /// Returns whether a listener accepts it (`cma_match_private_data` and `cma_match_net_dev`).
    fn fits(&self, listener: &Id, attachment: &Attachment) -> bool {
        let (State::Listen, Some(addr)) = (listener.state, listener.src) else { return false };
        let device = listener.attachment.is_none_or(|own| own.place() == self.place);
        let qp_type = listener.qp_type == self.qp_type || listener.qp_type == 0;
        if !device || !qp_type {
            return false;
        }
        let (Some(header), false) = (self.header, addr.family() == Family::Ib) else {
            return addr.family() == Family::Ib;
        };
        let wanted = SockAddr::new(header.addresses.destination(), addr.port());
        let link_local = matches!(wanted.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local());
        if link_local && listener.bound_if != 0 && listener.bound_if != attachment.ifindex {
            return false;
        }
        match addr.is_zero() {
            true => wanted.family() == addr.family() || !listener.options.afonly,
            false => same_address(with_ip(wanted, wanted.ip(), *attachment), addr),
        }
    }

    /// Returns the local and the peer's address of the new id.
    fn addresses(&self, listener: &Id, attachment: &Attachment) -> (SockAddr, SockAddr) {
        match (self.header, listener.src) {
            (Some(header), Some(SockAddr::V4 { .. } | SockAddr::V6 { .. })) => {
                let (src, dst) = (header.addresses.destination(), header.addresses.source());
                let scoped = |addr: SockAddr| with_ip(addr, addr.ip(), *attachment);
                let src = scoped(SockAddr::new(src, self.service_id as u16));
                (src, scoped(SockAddr::new(dst, header.source_port)))
            }
            _ => {
                let (pkey, sid_mask) = (super::route::PKEY_DEFAULT, u64::MAX);
                let ib = |gid, sid| SockAddr::Ib(SockAddrIb { pkey, gid, sid, sid_mask, ..SockAddrIb::default() });
                (ib(self.sgid, self.service_id), ib(self.dgid, 0))
            }
        }
    }
}

/// Converts a request's parameters as `cma_set_req_event_data` does.
fn param_of(req: &ib::ReqReceived, data: &[u8]) -> ConnParam {
    ConnParam {
        qp_num: req.remote_qpn,
        qkey: 0,
        private_data: data.to_vec(),
        srq: req.srq,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        flow_control: req.flow_control.into(),
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
    }
}

/// Returns the path of a request in the form that a program can query.
fn path_record(req: &ib::ReqReceived) -> PathRecord {
    let path = &req.primary;
    PathRecord {
        service_id: req.service_id,
        dgid: path.dgid.0,
        sgid: path.sgid.0,
        dlid: path.dlid,
        slid: path.slid,
        flow_label: path.flow_label,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        reversible: true,
        pkey: path.pkey,
        sl: path.sl,
        mtu_selector: 2,
        mtu: path.mtu as u8,
        rate_selector: 2,
        rate: path.rate,
        packet_life_time_selector: 2,
        packet_life_time: path.packet_life_time,
        ..PathRecord::default()
    }
}
