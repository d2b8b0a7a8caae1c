//! The connection manager of a virtual host. Its messages cross the fabric as datagrams between queue pairs 1, its
//! paths and groups come from the subnet administration, and its addresses from a table that all hosts share.

use libc::{EAGAIN, EINVAL, ENETUNREACH, ETIMEDOUT};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

use weft_cm::rdma_cm::{
    DeviceGid, GmpAddress, LocalAddress, MulticastRequest, PathQuestion, PathRecord, QuestionId, ResolveQuestion,
    ResolveResult, Resolved, RoceMode,
};
use weft_fabric::{Addresses, Delivery, Fabric, GlobalRoute, MadAddress, MadOut, PathQuery, PortRef};
use weft_ipc::DeviceInfo;
use weft_mad::{SaClient, SaError};
use weft_verbs::{Duration, Gid, GidType};
use weft_wire::mad::sa::{self, ComponentMask, JoinState, McMemberRecord, SaMad};
use weft_wire::mad::{Class, GSI_QPN, Mad, Method};
use zerocopy::IntoBytes;

use super::CmService;
use ports::{describe, local_addresses};

mod ports;

/// Timeout of a query to the subnet administration. The program's own timeout for a route is kept elsewhere.
const SA_WITHIN: Duration = Duration::from_secs(4);

/// Q_Key of the groups that programs create (`RDMA_UDP_QKEY`).
const GROUP_QKEY: u32 = 0x0123_4567;

/// Payload in bytes that every port supports.
const SMALLEST_MTU: u32 = 256;

/// Operations on the fabric that it needs.
pub trait Subnet {
    /// Returns the address of a port.
    fn ip(&self, port: PortRef) -> Option<IpAddr>;
    /// Returns the GID of the port that has an address.
    fn gid_of(&self, ip: IpAddr) -> Option<[u8; 16]>;
    /// Returns whether an address, or a GID in place of one, is an Ethernet port's.
    fn is_ethernet(&self, ip: IpAddr) -> bool;
    /// Returns the GID of the port that has a LID in the subnet of another port.
    fn gid_of_lid(&self, at: PortRef, lid: u16) -> Option<[u8; 16]>;
    /// Returns whether packets from the first address's port arrive at the second's: hosts may be in several subnets.
    fn leads(&self, from: IpAddr, to: IpAddr) -> bool;
    /// Returns the LID and service level of a port's master subnet manager; `None` until the port has one.
    fn manager(&self, port: PortRef) -> Option<(u16, u8)>;
    /// Sends a datagram. One that cannot be sent is lost, as on the way.
    fn send(&mut self, from: PortRef, out: &MadOut);
}

/// A fabric with its table of addresses.
#[derive(Debug)]
pub struct Addressed<'a> {
    /// The fabric.
    pub fabric: &'a mut Fabric,
    /// The addresses of its ports.
    pub addresses: &'a Addresses,
    /// The fabric's time.
    pub now: weft_verbs::Instant,
}

/// Returns the port where packets of a port to a LID arrive.
fn arrives_at(fabric: &Fabric, from: PortRef, lid: u16) -> Option<PortRef> {
    let pkey = *fabric.pkeys(from).first()?;
    let query = PathQuery { dlid: lid, sl: 0, pkey, payload: SMALLEST_MTU };
    fabric.verdict(from, &query).ok().map(|verdict| verdict.to)
}

/// Returns whether two addresses are of the same kind: IPv4 addresses, or GIDs of the same subnet (`cma_resolve_ib_dev`).
fn may_reach(from: IpAddr, to: IpAddr) -> bool {
    match (from, to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => true,
        (IpAddr::V6(from), IpAddr::V6(to)) => from.octets()[..8] == to.octets()[..8],
        _ => false,
    }
}

/// Returns the GID of the port that has a LID in the subnet of another port.
pub(crate) fn gid_of_lid(fabric: &Fabric, at: PortRef, lid: u16) -> Option<[u8; 16]> {
    let place = arrives_at(fabric, at, lid).or_else(|| fabric.by_lid(lid))?;
    fabric.gid(place, 0)
}

impl Addressed<'_> {
    /// Returns the port of an address, or of a GID in place of one.
    fn port_of(&self, ip: IpAddr) -> Option<PortRef> {
        match ip {
            IpAddr::V4(ip) => self.addresses.port(ip),
            IpAddr::V6(ip) => self.addresses.ports().find(|port| self.fabric.gid(*port, 0) == Some(ip.octets())),
        }
    }
}

impl Subnet for Addressed<'_> {
    fn ip(&self, port: PortRef) -> Option<IpAddr> {
        self.addresses.ip(port).map(IpAddr::from)
    }

    fn gid_of(&self, ip: IpAddr) -> Option<[u8; 16]> {
        match ip {
            // On RoCE an address gives the GID.
            IpAddr::V4(ip) if self.fabric.ethernet().by_ip(ip).is_some() => Some(ip.to_ipv6_mapped().octets()),
            IpAddr::V4(ip) => self.fabric.gid(self.addresses.port(ip)?, 0),
            // A GID in place of an address is its own GID.
            IpAddr::V6(ip) => Some(ip.octets()),
        }
    }

    fn is_ethernet(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.fabric.ethernet().by_ip(ip).is_some(),
            IpAddr::V6(ip) => self.fabric.ethernet().by_gid(ip.octets()).is_some(),
        }
    }

    fn gid_of_lid(&self, at: PortRef, lid: u16) -> Option<[u8; 16]> {
        gid_of_lid(self.fabric, at, lid)
    }

    fn leads(&self, from: IpAddr, to: IpAddr) -> bool {
        let (Some(from), Some(to)) = (self.port_of(from), self.port_of(to)) else { return false };
        let lid = self.fabric.port_info(to).map_or(0, |info| info.lid);
        arrives_at(self.fabric, from, lid) == Some(to)
    }

    fn manager(&self, port: PortRef) -> Option<(u16, u8)> {
        let info = self.fabric.port_info(port)?;
        (info.master_sm_lid != 0).then_some((info.master_sm_lid, info.master_sm_sl))
    }

    fn send(&mut self, from: PortRef, out: &MadOut) {
        // A port without power or a link sends nothing, and the sender's timeout will notice.
        let _ = self.fabric.send(self.now, from, out);
    }
}

/// The connection manager of one host.
#[derive(Debug)]
pub struct HostCm {
    /// Its ids, channels and connections.
    pub cm: CmService,
    adapters: BTreeMap<(u32, u8), Adapter>,
    addresses: Vec<LocalAddress>,
    seed: u64,
    /// Retransmissions and queries that are due to leave.
    out: VecDeque<(PortRef, MadOut)>,
}

/// A port of an adapter.
#[derive(Debug)]
struct Adapter {
    port: PortRef,
    gid: [u8; 16],
    /// GID table of an Ethernet port.
    roce_gids: Vec<DeviceGid>,
    pkey: u16,
    sa: SaClient<Asked>,
}

impl Adapter {
    /// Returns the row that a datagram to an Ethernet port came to. The two of an address differ in their framing alone,
    /// which no datagram tells here: the connection managers use RoCE v2.
    fn row_of(&self, delivery: &Delivery) -> Option<&DeviceGid> {
        let grh = delivery.grh.as_ref()?;
        self.roce_gids.iter().find(|row| row.gid == grh.dgid && row.mode == RoceMode::V2)
    }
}

/// A query to the subnet administration.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Path(QuestionId),
    Join(u32),
    Leave,
}

impl HostCm {
    /// Makes one without adapters. `seed` must not be predictable.
    pub fn new(now: Instant, seed: u64) -> HostCm {
        let (adapters, addresses) = (BTreeMap::new(), Vec::new());
        HostCm { cm: CmService::new(now, seed), adapters, addresses, seed, out: VecDeque::new() }
    }

    /// Updates the host's adapters; `place` returns the node of the fabric that a device is.
    pub fn follow(
        &mut self,
        now: Instant,
        list: &[DeviceInfo],
        place: impl Fn(&DeviceInfo) -> Option<u32>,
        subnet: &impl Subnet,
    ) {
        let (mut devices, mut addresses) = (Vec::new(), Vec::new());
        let mut adapters = BTreeMap::new();
        for info in list {
            let Some((node, adapter)) = place(info).zip(info.infiniband.as_deref()) else { continue };
            for port in &adapter.ports {
                let at = PortRef::new(node, port.number);
                let device = describe(info, port, subnet.ip(at));
                addresses.extend(device.gids.iter().flat_map(local_addresses));
                let gid = port.gid(0).unwrap_or_default();
                let pkey = device.pkeys.first().copied().unwrap_or_default();
                let place = device.place();
                let roce_gids = if port.is_ethernet() { device.gids.clone() } else { Vec::new() };
                devices.push(device);
                let seed = self.seed.rotate_left(port.umad % 64) ^ u64::from(info.index) ^ u64::from(port.number) << 32;
                let known = self.adapters.remove(&place).filter(|adapter| adapter.port == at);
                let sa = known.map_or_else(|| SaClient::new(seed), |adapter| adapter.sa);
                adapters.insert(place, Adapter { port: at, gid, roce_gids, pkey, sa });
            }
        }
        self.adapters = adapters;
        self.addresses.clone_from(&addresses);
        self.cm.follow_list(now, devices, addresses);
    }

    /// Returns the addresses of the host's ports.
    pub fn addresses(&self) -> &[LocalAddress] {
        &self.addresses
    }

    /// Reports the end of the fabric to programs: their devices are gone.
    pub fn end(&mut self, now: Instant) {
        self.adapters.clear();
        self.addresses.clear();
        self.out.clear();
        self.cm.follow_list(now, Vec::new(), Vec::new());
    }

    /// Answers a question about an address, immediately, since the table is local.
    pub fn resolve(asked: &ResolveQuestion, own: &[LocalAddress], subnet: &impl Subnet) -> ResolveResult {
        // A group's GID is made on joining; any interface leads to it.
        let dgid = match asked.dst.is_multicast() {
            true => None,
            false => Some(subnet.gid_of(asked.dst).ok_or(ENETUNREACH)?),
        };
        let local = own.iter().any(|address| address.ip == asked.dst);
        let to_ethernet = subnet.is_ethernet(asked.dst);
        let fits = |address: &&LocalAddress| {
            (asked.ifindex == 0 || address.ifindex == asked.ifindex)
                && may_reach(address.ip, asked.dst)
                && subnet.is_ethernet(address.ip) == to_ethernet
        };
        let chosen = match asked.src {
            Some(src) => own.iter().find(|address| address.ip == src),
            None if local => own.iter().find(|address| address.ip == asked.dst),
            None => {
                let leads = |address: &&LocalAddress| fits(address) && subnet.leads(address.ip, asked.dst);
                own.iter().find(leads).or_else(|| own.iter().find(fits))
            }
        };
        let LocalAddress { ifindex, ip: src } = *chosen.ok_or(ENETUNREACH)?;
        Ok(Resolved { src, ifindex, local, gateway: false, hop_limit: 0, dgid })
    }

    /// Handles a datagram at one of the host's ports; returns whether it was for the connection manager.
    pub fn handle_delivery(&mut self, now: Instant, delivery: &Delivery, subnet: &impl Subnet) -> bool {
        let time = self.cm.time(now);
        let Some((&(device, _), adapter)) = self.adapters.iter_mut().find(|(_, adapter)| adapter.port == delivery.port)
        else {
            return false;
        };
        match delivery.mad.header.class() {
            Class::CM => {
                let gid_of_lid = |lid| subnet.gid_of_lid(delivery.port, lid);
                if let (Some(from), Ok(bytes)) =
                    (origin(device, adapter.gid, delivery, gid_of_lid), delivery.mad.as_bytes().try_into())
                {
                    let from = adapter.row_of(delivery).map_or(from, |row| answered_from(row, from));
                    self.cm.handle_gmp(now, &from, bytes);
                }
                true
            }
            Class::SUBN_ADM => match adapter.sa.handle_mad(time, &delivery.mad) {
                Some((asked, answer)) => {
                    self.on_answer(now, asked, answer);
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    fn on_answer(&mut self, now: Instant, asked: Asked, answer: Result<SaMad, SaError>) {
        let errno = |error| match error {
            SaError::TimedOut => ETIMEDOUT,
            SaError::Refused(_) => EINVAL,
        };
        match asked {
            Asked::Path(question) => {
                let record = answer.map_err(errno).and_then(|mad| mad.record().ok_or(EINVAL));
                self.cm.handle_path(now, question, record.map(path_record));
            }
            Asked::Join(group) => {
                let record = answer.map_err(errno).and_then(|mad| mad.record::<McMemberRecord>().ok_or(EINVAL));
                self.cm.handle_multicast(now, group, record.map(|record| record.mlid));
            }
            Asked::Leave => {}
        }
    }

    /// Returns when [`HostCm::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let sa = self.adapters.values().filter_map(|adapter| adapter.sa.poll_timeout()).min();
        [self.cm.poll_timeout(), sa.map(|at| self.cm.instant(at))].into_iter().flatten().min()
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant, subnet: &impl Subnet) {
        self.cm.handle_timeout(now);
        let time = self.cm.time(now);
        let mut expired = Vec::new();
        for adapter in self.adapters.values_mut() {
            while let Some(due) = adapter.sa.poll_due(time) {
                match due {
                    Ok(mad) => self.out.extend(to_manager(adapter, mad, subnet)),
                    Err(asked) => expired.push(asked),
                }
            }
        }
        for asked in expired {
            self.on_answer(now, asked, Err(SaError::TimedOut));
        }
    }

    /// Sends all pending datagrams and queries until none is left.
    pub fn perform(&mut self, now: Instant, subnet: &mut impl Subnet) {
        while let Some(asked) = self.cm.poll_path() {
            self.ask_path(now, &asked, subnet);
        }
        while let Some(request) = self.cm.poll_multicast() {
            self.change_group(now, &request, subnet);
        }
        while let Some((to, bytes)) = self.cm.poll_transmit() {
            if let (Some(adapter), Some(mad)) = (self.adapters.get(&(to.device, to.port)), Mad::parse(&bytes)) {
                self.out.push_back((adapter.port, MadOut { to: destination(&to), mad }));
            }
        }
        while let Some((port, out)) = self.out.pop_front() {
            subnet.send(port, &out);
        }
    }

    fn ask_path(&mut self, now: Instant, asked: &PathQuestion, subnet: &impl Subnet) {
        let time = self.cm.time(now);
        let question = wanted_path(&asked.wanted);
        let sent = self.adapters.get_mut(&(asked.device, asked.port)).and_then(|adapter| {
            subnet.manager(adapter.port)?;
            let token = Asked::Path(asked.question);
            let mad = adapter.sa.ask(time, SA_WITHIN, token, Method::GET, (question.0, &question.1)).ok()?;
            to_manager(adapter, mad, subnet)
        });
        match sent {
            Some(out) => self.out.push_back(out),
            // The port has had no subnet manager yet, or too many queries are open.
            None => self.cm.handle_path(now, asked.question, Err(EAGAIN)),
        }
    }

    fn change_group(&mut self, now: Instant, request: &MulticastRequest, subnet: &impl Subnet) {
        let time = self.cm.time(now);
        let sent = self.adapters.get_mut(&(request.device, request.port)).and_then(|adapter| {
            subnet.manager(adapter.port)?;
            let record = McMemberRecord {
                mgid: request.mgid,
                port_gid: adapter.gid,
                qkey: GROUP_QKEY,
                pkey: adapter.pkey,
                join_state: JoinState::FULL_MEMBER,
                ..McMemberRecord::default()
            };
            let member = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
            // Attributes for creating the group if it does not exist yet.
            let made = McMemberRecord::QKEY
                | McMemberRecord::PKEY
                | McMemberRecord::SL
                | McMemberRecord::FLOW_LABEL
                | McMemberRecord::TCLASS;
            let (token, method, mask) = match request.join {
                true => (Asked::Join(request.group), Method::SET, member | made),
                false => (Asked::Leave, Method::DELETE, member),
            };
            let mad = adapter.sa.ask(time, SA_WITHIN, token, method, (mask, &record)).ok()?;
            to_manager(adapter, mad, subnet)
        });
        match sent {
            Some(out) => self.out.push_back(out),
            None if request.join => self.cm.handle_multicast(now, request.group, Err(EAGAIN)),
            None => {}
        }
    }
}

/// Addresses a query to a port's master subnet manager.
fn to_manager(adapter: &Adapter, mad: Mad, subnet: &impl Subnet) -> Option<(PortRef, MadOut)> {
    let (lid, sl) = subnet.manager(adapter.port)?;
    Some((adapter.port, MadOut { to: MadAddress { sl, ..MadAddress::gsi(lid, adapter.pkey) }, mad }))
}

/// Returns the fabric address of a datagram's destination.
pub(crate) fn destination(to: &GmpAddress) -> MadAddress {
    let grh = to.is_global().then_some(GlobalRoute {
        sgid: to.sgid.0,
        dgid: to.dgid.0,
        flow_label: to.flow_label,
        traffic_class: to.traffic_class,
        hop_limit: to.hop_limit,
    });
    MadAddress { sl: to.sl, dest_qp: to.remote_qpn, grh, ..MadAddress::gsi(to.dlid, to.pkey) }
}

/// Returns the source of a datagram; `None` if no port has its source LID.
pub(crate) fn origin(
    device: u32,
    sgid: [u8; 16],
    delivery: &Delivery,
    gid_of_lid: impl Fn(u16) -> Option<[u8; 16]>,
) -> Option<GmpAddress> {
    let grh = delivery.grh.as_ref();
    let dgid = grh.map(|grh| grh.sgid).or_else(|| gid_of_lid(delivery.slid))?;
    Some(GmpAddress {
        device,
        port: delivery.port.port,
        sgid_index: 0,
        sgid: Gid(sgid),
        gid_type: GidType::IbOrRoceV1,
        dgid: Gid(dgid),
        dlid: delivery.slid,
        remote_qpn: if delivery.src_qp == 0 { GSI_QPN } else { delivery.src_qp },
        pkey: delivery.pkey,
        sl: delivery.sl,
        traffic_class: grh.map_or(0, |grh| grh.traffic_class),
        flow_label: grh.map_or(0, |grh| grh.flow_label),
        hop_limit: grh.map_or(0, |grh| grh.hop_limit),
        ifindex: 0,
    })
}

/// Returns the source of a datagram at an Ethernet port: the row of its table that it came to answers.
fn answered_from(row: &DeviceGid, from: GmpAddress) -> GmpAddress {
    let (sgid, sgid_index) = (Gid(row.gid), row.index);
    GmpAddress { sgid, sgid_index, gid_type: GidType::RoceV2, ifindex: row.ifindex, ..from }
}

/// Converts a program's path request to a query for the subnet administration (`cma_query_ib_route`).
fn wanted_path(wanted: &PathRecord) -> (ComponentMask, sa::PathRecord) {
    let record = sa::PathRecord {
        service_id: wanted.service_id,
        dgid: wanted.dgid,
        sgid: wanted.sgid,
        flow_label: wanted.flow_label,
        tclass: wanted.traffic_class,
        reversible: true,
        numb_path: 1,
        pkey: wanted.pkey,
        ..sa::PathRecord::default()
    };
    let mut mask = sa::PathRecord::DGID
        | sa::PathRecord::SGID
        | sa::PathRecord::PKEY
        | sa::PathRecord::NUMB_PATH
        | sa::PathRecord::REVERSIBLE
        | sa::PathRecord::SERVICE_ID_MSB
        | sa::PathRecord::SERVICE_ID_LSB;
    if wanted.traffic_class != 0 {
        mask |= sa::PathRecord::TCLASS;
    }
    (mask, record)
}

fn path_record(record: sa::PathRecord) -> PathRecord {
    PathRecord {
        service_id: record.service_id,
        dgid: record.dgid,
        sgid: record.sgid,
        dlid: record.dlid,
        slid: record.slid,
        raw_traffic: record.raw_traffic,
        flow_label: record.flow_label,
        hop_limit: record.hop_limit,
        traffic_class: record.tclass,
        reversible: record.reversible,
        numb_path: record.numb_path,
        pkey: record.pkey,
        qos_class: record.qos_class,
        sl: record.sl,
        mtu_selector: record.mtu_selector.0,
        mtu: record.mtu,
        rate_selector: record.rate_selector.0,
        rate: record.rate.0,
        packet_life_time_selector: record.packet_life_time_selector.0,
        packet_life_time: record.packet_life_time,
        preference: record.preference,
    }
}

#[cfg(test)]
mod tests;
