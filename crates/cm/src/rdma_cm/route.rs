//! Resolution of a route to a path. On RoCE it follows from the addresses, the device and the options alone
//! (`cma_resolve_iboe_route`); on InfiniBand subnet administration resolves it (`cma_resolve_ib_route`).

use weft_verbs::Instant;

use super::address::{Family, SockAddr};
use super::command::{DeviceRef, IdNumber, RouteInfo};
use super::device::{Device, PortKind};
use super::errno::{EINVAL, ENODEV, ENOENT, Errno};
use super::event::{EventKind, EventParam};
use super::host::{PathQuestion, PathResult, QuestionId, ResolveRequest};
use super::id::{Attachment, Id, State};
use super::limits::PATHS_MAX;
use super::param::{AhAttr, PathRecord};
use super::service::Service;

/// P_Key of the default partition: the only one on RoCE.
pub const PKEY_DEFAULT: u16 = 0xffff;

/// Hop limit where the route names none.
pub const HOP_LIMIT_DEFAULT: u8 = 64;

/// Packet life time of a path without an ACK timeout option: 4.096 µs × 2^18.
const PACKET_LIFE_TIME: u8 = 18;

/// `IB_SA_EQ`: exactly this value.
const SELECTOR_EXACT: u8 = 2;

const FLOW_LABEL_MASK: u32 = 0xf_ffff;

impl Service {
    /// `rdma_resolve_route`.
    pub(super) fn resolve_route(&mut self, now: Instant, number: IdNumber, timeout_ms: u32) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let attachment = id.attachment.ok_or(EINVAL)?;
        if timeout_ms == 0 || id.state != State::AddrResolved {
            return Err(EINVAL);
        }
        let entry = self.devices.look(attachment.place()).ok_or(ENODEV)?;
        if entry.device.kind == PortKind::InfiniBand {
            let wanted = wanted_path(id, pkey_of(id, &entry.device)).ok_or(EINVAL)?;
            let (device, port) = attachment.place();
            let question = self.new_question(now, number, timeout_ms)?;
            self.resolve_out.push_back(ResolveRequest::AskPath(PathQuestion { question, device, port, wanted }));
            self.ids.change(number).ok_or(ENOENT)?.state = State::RouteQuery;
            return Ok(());
        }
        if entry.device.kind == PortKind::Iwarp {
            // TCP finds its way.
            self.on_route_resolved(number);
            return Ok(());
        }
        let path = roce_path(id, entry.device.active_mtu, entry.device.rate, entry.roce_tos).ok_or(EINVAL)?;
        self.set_path(number, path)
    }

    /// Handles subnet administration's answer.
    pub(super) fn on_path(&mut self, question: QuestionId, result: PathResult) {
        let Some(number) = self.questions.remove(&question) else { return };
        self.forget_question(number);
        if self.ids.look(number).is_none_or(|id| id.state != State::RouteQuery) {
            return;
        }
        if let Err(errno) = result.and_then(|path| self.set_path(number, path)) {
            self.fail_route(number, errno);
        }
    }

    /// Fails a route: there is no path, or no answer in time.
    pub(super) fn fail_route(&mut self, number: IdNumber, errno: Errno) {
        if let Some(id) = self.ids.change(number) {
            id.state = State::AddrResolved;
        }
        self.emit(number, EventKind::RouteError, -errno, EventParam::None);
    }

    /// `RDMA_OPTION_IB_PATH`: sets a path instead of resolving one.
    pub(super) fn set_ib_path(&mut self, number: IdNumber, paths: &[PathRecord]) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let (Some(path), true) = (paths.first(), paths.len() <= PATHS_MAX) else { return Err(EINVAL) };
        if id.attachment.is_none() || id.state != State::AddrResolved {
            return Err(EINVAL);
        }
        self.set_path(number, *path)
    }

    fn set_path(&mut self, number: IdNumber, path: PathRecord) -> Result<(), Errno> {
        let id = self.ids.change(number).ok_or(ENOENT)?;
        id.path = Some(path);
        self.on_route_resolved(number);
        Ok(())
    }

    fn on_route_resolved(&mut self, number: IdNumber) {
        if let Some(id) = self.ids.change(number) {
            id.state = State::RouteResolved;
        }
        self.emit(number, EventKind::RouteResolved, 0, EventParam::None);
    }

    /// Returns the addresses and route of an id.
    pub(super) fn route_info(&self, number: IdNumber) -> Result<RouteInfo, Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let mut info = RouteInfo { src: id.src, dst: id.dst, ..RouteInfo::default() };
        let Some(attachment) = id.attachment else { return Ok(info) };
        let node_guid = self.devices.look(attachment.place()).map_or(0, |entry| entry.device.node_guid);
        info.device = Some(DeviceRef { index: attachment.device, node_guid, port_num: attachment.port });
        info.paths = id.path.into_iter().collect();
        info.sgid = attachment.sgid;
        info.dgid = id.dgid;
        info.pkey = id.path.map_or(PKEY_DEFAULT, |path| path.pkey);
        Ok(info)
    }
}

/// Returns the P_Key of the path to request: the one that an `AF_IB` address names, or the port's first.
fn pkey_of(id: &Id, device: &Device) -> u16 {
    let named = match id.dst {
        Some(SockAddr::Ib(ib)) => ib.pkey,
        _ => 0,
    };
    if named != 0 { named } else { device.pkeys.first().copied().unwrap_or(PKEY_DEFAULT) }
}

/// Returns the path record to request from subnet administration (`cma_query_ib_route`).
fn wanted_path(id: &Id, pkey: u16) -> Option<PathRecord> {
    let (src, dst) = (id.src?, id.dst?);
    let flow_label = match src {
        SockAddr::V6 { flowinfo, .. } => flowinfo & FLOW_LABEL_MASK,
        _ => 0,
    };
    Some(PathRecord {
        service_id: id.service_id(dst),
        sgid: id.attachment?.sgid,
        dgid: id.dgid,
        pkey,
        flow_label,
        traffic_class: id.options.tos.unwrap_or(0),
        reversible: true,
        numb_path: 1,
        ..PathRecord::default()
    })
}

/// Returns the path between an id's GIDs, `None` without an MTU.
fn roce_path(id: &Id, mtu: u8, rate: u8, default_tos: u8) -> Option<PathRecord> {
    if mtu == 0 {
        return None;
    }
    let (src, dst) = (id.src?, id.dst?);
    let packet_life_time = match id.options.ack_timeout {
        Some(timeout @ 1..) => timeout - 1,
        _ => PACKET_LIFE_TIME,
    };
    Some(PathRecord {
        service_id: id.service_id(dst),
        sgid: id.attachment?.sgid,
        dgid: id.dgid,
        flow_label: flow_label(src, dst),
        hop_limit: match (dst.family(), id.hop_limit) {
            (Family::Ib, _) => 1,
            (_, 0) => HOP_LIMIT_DEFAULT,
            (_, hops) => hops,
        },
        traffic_class: id.options.tos.unwrap_or(default_tos),
        reversible: true,
        pkey: PKEY_DEFAULT,
        mtu_selector: SELECTOR_EXACT,
        mtu,
        rate_selector: SELECTOR_EXACT,
        rate,
        packet_life_time_selector: SELECTOR_EXACT,
        packet_life_time,
        ..PathRecord::default()
    })
}

/// Returns the flow label of the local IPv6 address, or one derived from both ports: it becomes the UDP source port and
/// spreads connections over the paths of a fabric.
fn flow_label(src: SockAddr, dst: SockAddr) -> u32 {
    let given = match src {
        SockAddr::V6 { flowinfo, .. } => flowinfo & FLOW_LABEL_MASK,
        _ => 0,
    };
    match given {
        0 => (u32::from(src.port()) * 31 + u32::from(dst.port())) & FLOW_LABEL_MASK,
        label => label,
    }
}

/// Returns the address handle of a path from a port.
pub fn ah_of_path(path: &PathRecord, from: &Attachment) -> AhAttr {
    AhAttr {
        dgid: path.dgid,
        flow_label: path.flow_label,
        sgid_index: from.sgid_index,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        dlid: path.dlid,
        sl: path.sl,
        src_path_bits: 0,
        static_rate: path.rate,
        // RoCE has no LIDs and always a GRH.
        is_global: path.dlid == 0 || path.hop_limit > 1,
        port_num: from.port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_label_is_what_linux_sends() {
        let addr = |ip: &str, port| SockAddr::new(ip.parse().unwrap(), port);
        // A capture of rping against Linux: source port 44450, port 7174.
        assert_eq!(flow_label(addr("10.77.0.2", 44450), addr("10.77.0.1", 7174)), 0x522a4);
        // A capture of ucmatose: source port 37941, port 7471.
        assert_eq!(flow_label(addr("10.77.0.2", 0x9435), addr("10.77.0.1", 0x1d2f)), 0x20f9a);
        let v6 = SockAddr::V6 { addr: "fd77::2".parse().unwrap(), port: 1, flowinfo: 0x0123_4567, scope_id: 0 };
        assert_eq!(flow_label(v6, v6), 0x3_4567);
    }
}
