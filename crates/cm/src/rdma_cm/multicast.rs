//! Groups: `rdma_join_multicast` (`cma_iboe_join_multicast`, `cma_join_ib_multicast`). The group's GID follows from its
//! address. The host joins the group on the interface, or at the subnet administration of an InfiniBand fabric, once
//! for all members there.

use super::address::{PortSpace, SockAddr};
use super::channel::is_of_group;
use super::command::{GroupNumber, IdNumber, JoinKind, RoceMode};
use super::datagram::default_qkey;
use super::device::PortKind;
use super::errno::{EINVAL, ENODEV, ENOENT, ENOMEM, Errno};
use super::event::{CmEvent, EventKind, EventParam};
use super::groups::Membership;
use super::host::MulticastResult;
use super::id::State;
use super::limits::GROUPS_PER_ID_MAX;
use super::param::{AhAttr, Ece, UdParam};
use super::route::{HOP_LIMIT_DEFAULT, PKEY_DEFAULT};
use super::service::Service;

/// Destination queue pair of a group's packets.
const MULTICAST_QPN: u32 = 0xff_ffff;

impl Service {
    /// `rdma_join_multicast`.
    pub(super) fn join_multicast(
        &mut self,
        number: IdNumber,
        addr: SockAddr,
        kind: JoinKind,
        cookie: u64,
    ) -> Result<GroupNumber, Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let attachment = id.attachment.ok_or(EINVAL)?;
        let may = matches!(id.state, State::AddrBound | State::AddrResolved) && id.is_datagram();
        if !may || addr.is_zero() || cookie == 0 {
            return Err(EINVAL);
        }
        if id.groups.len() >= GROUPS_PER_ID_MAX {
            return Err(ENOMEM);
        }
        let entry = self.devices.look(attachment.place()).ok_or(ENODEV)?;
        let mode = attachment.mode;
        let ifindex = if id.bound_if != 0 { id.bound_if } else { attachment.ifindex };
        let rate = entry.device.rate;
        let infiniband = entry.device.kind == PortKind::InfiniBand;
        let mgid = match infiniband {
            true => ib_mgid_of(addr, id.port_space, entry.device.pkeys.first().copied().unwrap_or(PKEY_DEFAULT)),
            false => mgid_of(addr, mode),
        };
        let id = self.ids.change(number).ok_or(ENOENT)?;
        if id.qkey == 0 {
            id.qkey = default_qkey(id.port_space);
        }
        let ah_attr = AhAttr {
            dgid: mgid,
            sgid_index: attachment.sgid_index,
            hop_limit: if mode == RoceMode::V2 && !infiniband { HOP_LIMIT_DEFAULT } else { 1 },
            static_rate: rate,
            is_global: true,
            port_num: attachment.port,
            ..AhAttr::default()
        };
        let ud = UdParam { qp_num: MULTICAST_QPN, qkey: id.qkey, ah_attr, private_data: Vec::new() };
        let joined = (kind == JoinKind::FullMember && addr.is_multicast()).then(|| (ifindex, addr.ip(), mgid));
        let membership = Membership { id: number, cookie, joined, ud, events_reported: 0 };
        let group = self.groups.insert(membership);
        id.groups.push(group);
        let done = match joined {
            Some(place) => self.groups.join_host(place, attachment.place(), group),
            None => Some(0),
        };
        if let Some(mlid) = done {
            self.tell_group(group, Ok(mlid));
        }
        Ok(group)
    }

    /// `rdma_leave_multicast`: drops the events queued for the membership.
    pub(super) fn leave_multicast(&mut self, group: GroupNumber) -> Result<u32, Errno> {
        let membership = self.groups.remove(group).ok_or(ENOENT)?;
        if let Some(id) = self.ids.change(membership.id) {
            id.groups.retain(|other| *other != group);
            let taken = self.channels.withdraw(id.channel, |waiting| is_of_group(waiting, group)).len();
            id.events_waiting -= u32::try_from(taken).unwrap_or(0).min(id.events_waiting);
        }
        Ok(membership.events_reported)
    }

    /// Applies the host's answer to a join to all members.
    pub(super) fn on_multicast(&mut self, request: u32, result: MulticastResult) {
        for group in self.groups.on_joined(request, result) {
            self.tell_group(group, result);
        }
    }

    fn tell_group(&mut self, group: GroupNumber, result: MulticastResult) {
        let Some(membership) = self.groups.change(group) else { return };
        let (kind, status, ud) = match result {
            Ok(mlid) => {
                membership.ud.ah_attr.dlid = mlid;
                (EventKind::MulticastJoin, 0, membership.ud.clone())
            }
            Err(errno) => (EventKind::MulticastError, -errno, UdParam::default()),
        };
        let event = CmEvent {
            kind,
            id: membership.id,
            listener: None,
            group: Some(group),
            cookie: membership.cookie,
            status,
            param: EventParam::Ud(ud),
            ece: Ece::default(),
        };
        let owner = membership.id;
        self.push_event(owner, event);
    }
}

/// Returns the GID of a group on RoCE (`cma_iboe_set_mgid`): an IPv6 group is its own; an IPv4 group is mapped, on RoCE
/// v1 into the transient groups of InfiniBand.
fn mgid_of(addr: SockAddr, mode: RoceMode) -> [u8; 16] {
    match addr {
        SockAddr::V4 { addr, .. } => {
            let mut mgid = addr.to_ipv6_mapped().octets();
            if mode == RoceMode::V1 {
                [mgid[0], mgid[1]] = [0xff, 0x0e];
            }
            mgid
        }
        SockAddr::V6 { addr, .. } => addr.octets(),
        SockAddr::Ib(ib) => ib.gid,
    }
}

/// Returns the GID of a group on InfiniBand (`cma_set_mgid`): IPv4 and IPv6 groups are mapped as in IPoIB (RFC 4391
/// §4), those of `RDMA_PS_UDP` with a signature of their own. A multicast GID stays as it is, and so does one that
/// subnet administration assigned.
fn ib_mgid_of(addr: SockAddr, port_space: PortSpace, pkey: u16) -> [u8; 16] {
    /// Transient, of link-local scope, like IPoIB's broadcast group.
    const FLAGS_AND_SCOPE: [u8; 2] = [0xff, 0x12];
    let signature = if port_space == PortSpace::Udp { 0x01 } else { 0x1b };
    let mapped = |family: u8, tail: [u8; 10]| {
        let mut mgid = [0; 16];
        mgid[..2].copy_from_slice(&FLAGS_AND_SCOPE);
        mgid[2..4].copy_from_slice(&[family, signature]);
        mgid[4..6].copy_from_slice(&pkey.to_be_bytes());
        mgid[6..].copy_from_slice(&tail);
        mgid
    };
    match addr {
        SockAddr::V4 { addr, .. } => {
            let [a, b, c, d] = addr.octets();
            mapped(0x40, [0, 0, 0, 0, 0, 0, a & 0x0f, b, c, d])
        }
        SockAddr::V6 { addr, .. } => match addr.octets() {
            given @ [0xff, 0x10..=0x1f, 0xa0, 0x1b, ..] => given,
            [_, _, _, _, _, _, tail @ ..] => mapped(0x60, tail),
        },
        SockAddr::Ib(ib) => ib.gid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn groups_map_as_in_linux() {
        let v4 = SockAddr::new("239.1.2.3".parse().unwrap(), 0);
        let v6 = SockAddr::new("ff0e::7".parse().unwrap(), 0);
        assert_eq!(mgid_of(v4, RoceMode::V2), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3]);
        assert_eq!(mgid_of(v4, RoceMode::V1), [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3]);
        assert_eq!(mgid_of(v6, RoceMode::V2)[..2], [0xff, 0x0e]);
    }

    #[test]
    fn groups_of_infiniband_are_mapped_as_ipoib_does() {
        let v4 = SockAddr::new("239.1.2.3".parse().unwrap(), 0);
        let gid = |addr, port_space| Ipv6Addr::from(ib_mgid_of(addr, port_space, 0x8001)).to_string();
        assert_eq!(gid(v4, PortSpace::Udp), "ff12:4001:8001::f01:203");
        assert_eq!(gid(v4, PortSpace::Ib), "ff12:401b:8001::f01:203");
        let v6 = |text: &str| SockAddr::new(text.parse().unwrap(), 0);
        assert_eq!(gid(v6("ff0e::7:8"), PortSpace::Udp), "ff12:6001:8001::7:8");
        assert_eq!(gid(v6("ff15:a01b::7"), PortSpace::Udp), "ff15:a01b::7");
    }
}
