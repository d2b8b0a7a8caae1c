//! Groups: `rdma_join_multicast` on RoCE (`cma_iboe_join_multicast`). The group's GID follows from its address; the host
//! is asked to join the group on the interface, once for all members there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use super::address::SockAddr;
use super::channel::is_of_group;
use super::command::{GroupNumber, IdNumber, JoinKind, RoceMode};
use super::errno::{EINVAL, ENODEV, ENOENT, ENOMEM, Errno};
use super::event::{CmEvent, EventKind, EventParam};
use super::host::MulticastRequest;
use super::id::State;
use super::limits::GROUPS_PER_ID_MAX;
use super::param::{AhAttr, Ece, UdParam};
use super::route::HOP_LIMIT_DEFAULT;
use super::service::Service;

/// Number of the queue pair that a group's packets are for.
const MULTICAST_QPN: u32 = 0xff_ffff;

/// A membership of an id in a group.
#[derive(Debug)]
pub struct Membership {
    id: IdNumber,
    cookie: u64,
    /// Interface and address joined, none for one that only sends.
    joined: Option<(u32, IpAddr)>,
    ud: UdParam,
    events_reported: u32,
}

/// All memberships, and what the host has joined for them.
#[derive(Debug, Default)]
pub struct Groups {
    map: BTreeMap<GroupNumber, Membership>,
    last: GroupNumber,
    on_host: BTreeMap<(u32, IpAddr), OnHost>,
    last_request: u32,
    out: VecDeque<MulticastRequest>,
}

/// A group that the host was asked to join.
#[derive(Debug)]
struct OnHost {
    request: u32,
    device: u32,
    members: BTreeSet<GroupNumber>,
    /// Whether the host said yes.
    confirmed: bool,
}

impl Groups {
    /// The next group to join or to leave.
    pub fn poll(&mut self) -> Option<MulticastRequest> {
        self.out.pop_front()
    }

    /// Counts an event that was given out.
    pub fn count_reported(&mut self, group: GroupNumber) {
        if let Some(membership) = self.map.get_mut(&group) {
            membership.events_reported += 1;
        }
    }

    /// Takes that back: the program had not fetched it yet.
    pub fn uncount_reported(&mut self, group: GroupNumber) {
        if let Some(membership) = self.map.get_mut(&group) {
            membership.events_reported = membership.events_reported.wrapping_sub(1);
        }
    }

    /// The id of a membership.
    pub fn id_of(&self, group: GroupNumber) -> Option<IdNumber> {
        self.map.get(&group).map(|membership| membership.id)
    }

    fn insert(&mut self, membership: Membership) -> GroupNumber {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.map.contains_key(&self.last) {
                self.map.insert(self.last, membership);
                return self.last;
            }
        }
    }

    /// Joins the host to a group for a member; answers whether it is joined already.
    fn join_host(&mut self, place: (u32, IpAddr), device: u32, group: GroupNumber) -> bool {
        if let Some(on_host) = self.on_host.get_mut(&place) {
            on_host.members.insert(group);
            return on_host.confirmed;
        }
        self.last_request = self.last_request.wrapping_add(1);
        let request = self.last_request;
        let on_host = OnHost { request, device, members: BTreeSet::from([group]), confirmed: false };
        self.on_host.insert(place, on_host);
        let (ifindex, ip) = place;
        self.out.push_back(MulticastRequest { group: request, device, ifindex, ip, join: true });
        false
    }

    fn leave_host(&mut self, place: (u32, IpAddr), group: GroupNumber) {
        let Some(on_host) = self.on_host.get_mut(&place) else { return };
        on_host.members.remove(&group);
        if on_host.members.is_empty() {
            let (request, device) = (on_host.request, on_host.device);
            self.on_host.remove(&place);
            let (ifindex, ip) = place;
            self.out.push_back(MulticastRequest { group: request, device, ifindex, ip, join: false });
        }
    }
}

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
        let entry = self.devices.look(attachment.device).ok_or(ENODEV)?;
        let mode = attachment.mode;
        let ifindex = if id.bound_if != 0 { id.bound_if } else { attachment.ifindex };
        let rate = entry.device.rate;
        let mgid = mgid_of(addr, mode);
        let id = self.ids.change(number).ok_or(ENOENT)?;
        if id.qkey == 0 {
            id.qkey = super::datagram::default_qkey(id.port_space);
        }
        let ah_attr = AhAttr {
            dgid: mgid,
            sgid_index: attachment.sgid_index,
            hop_limit: if mode == RoceMode::V2 { HOP_LIMIT_DEFAULT } else { 1 },
            static_rate: rate,
            is_global: true,
            port_num: 1,
            ..AhAttr::default()
        };
        let ud = UdParam { qp_num: MULTICAST_QPN, qkey: id.qkey, ah_attr, private_data: Vec::new() };
        let joined = (kind == JoinKind::FullMember && addr.is_multicast()).then(|| (ifindex, addr.ip()));
        let membership = Membership { id: number, cookie, joined, ud, events_reported: 0 };
        let group = self.groups.insert(membership);
        id.groups.push(group);
        let done = joined.is_none_or(|place| self.groups.join_host(place, attachment.device, group));
        if done {
            self.tell_group(group, Ok(()));
        }
        Ok(group)
    }

    /// `rdma_leave_multicast`: events that wait for the membership are forgotten.
    pub(super) fn leave_multicast(&mut self, group: GroupNumber) -> Result<u32, Errno> {
        let membership = self.groups.map.remove(&group).ok_or(ENOENT)?;
        if let Some(place) = membership.joined {
            self.groups.leave_host(place, group);
        }
        if let Some(id) = self.ids.change(membership.id) {
            id.groups.retain(|other| *other != group);
            let taken = self.channels.withdraw(id.channel, |waiting| is_of_group(waiting, group)).len();
            id.events_waiting -= u32::try_from(taken).unwrap_or(0).min(id.events_waiting);
        }
        Ok(membership.events_reported)
    }

    /// The host's answer to a join, for all members.
    pub(super) fn on_multicast(&mut self, request: u32, result: Result<(), Errno>) {
        let asked =
            self.groups.on_host.iter_mut().find(|(_, on_host)| on_host.request == request && !on_host.confirmed);
        let Some((place, on_host)) = asked else { return };
        let members: Vec<GroupNumber> = on_host.members.iter().copied().collect();
        match result {
            Ok(()) => on_host.confirmed = true,
            Err(_) => {
                let place = *place;
                self.groups.on_host.remove(&place);
            }
        }
        for group in members {
            self.tell_group(group, result);
        }
    }

    fn tell_group(&mut self, group: GroupNumber, result: Result<(), Errno>) {
        let Some(membership) = self.groups.map.get(&group) else { return };
        let (kind, status, ud) = match result {
            Ok(()) => (EventKind::MulticastJoin, 0, membership.ud.clone()),
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

/// The GID of a group on RoCE (`cma_iboe_set_mgid`): an IPv6 group is its own; an IPv4 group is mapped, on RoCE v1 into
/// the transient groups of InfiniBand.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_map_as_in_linux() {
        let v4 = SockAddr::new("239.1.2.3".parse().unwrap(), 0);
        let v6 = SockAddr::new("ff0e::7".parse().unwrap(), 0);
        assert_eq!(mgid_of(v4, RoceMode::V2), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3]);
        assert_eq!(mgid_of(v4, RoceMode::V1), [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3]);
        assert_eq!(mgid_of(v6, RoceMode::V2)[..2], [0xff, 0x0e]);
    }
}
