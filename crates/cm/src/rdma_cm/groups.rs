//! Memberships in multicast groups, and the groups that the host joined for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use super::command::{GroupNumber, IdNumber};
use super::device;
use super::host::{MulticastRequest, MulticastResult};
use super::param::UdParam;

/// A membership of an id in a group.
#[derive(Debug)]
pub struct Membership {
    pub id: IdNumber,
    pub cookie: u64,
    /// Interface and address joined; none for a send-only member.
    pub joined: Option<Place>,
    pub ud: UdParam,
    pub events_reported: u32,
}

/// All memberships, and the groups that the host has joined for them.
#[derive(Debug, Default)]
pub struct Groups {
    map: BTreeMap<GroupNumber, Membership>,
    last: GroupNumber,
    on_host: BTreeMap<Place, OnHost>,
    last_request: u32,
    out: VecDeque<MulticastRequest>,
}

/// Interface, address and GID of a group.
pub type Place = (u32, IpAddr, [u8; 16]);

/// A group that the host was asked to join.
#[derive(Debug)]
struct OnHost {
    request: u32,
    port: device::Place,
    members: BTreeSet<GroupNumber>,
    /// Multicast LID from the host's confirmation, 0 on RoCE.
    confirmed: Option<u16>,
}

impl Groups {
    /// Returns the next group to join or to leave.
    pub fn poll(&mut self) -> Option<MulticastRequest> {
        self.out.pop_front()
    }

    /// Counts an event given out.
    pub fn count_reported(&mut self, group: GroupNumber) {
        if let Some(membership) = self.map.get_mut(&group) {
            membership.events_reported += 1;
        }
    }

    /// Reverts that count: the program had not fetched the event yet.
    pub fn uncount_reported(&mut self, group: GroupNumber) {
        if let Some(membership) = self.map.get_mut(&group) {
            membership.events_reported = membership.events_reported.wrapping_sub(1);
        }
    }

    /// Returns the id of a membership.
    pub fn id_of(&self, group: GroupNumber) -> Option<IdNumber> {
        self.map.get(&group).map(|membership| membership.id)
    }

    /// Returns a membership to change it.
    pub fn change(&mut self, group: GroupNumber) -> Option<&mut Membership> {
        self.map.get_mut(&group)
    }

    /// Adds a membership.
    pub fn insert(&mut self, membership: Membership) -> GroupNumber {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.map.contains_key(&self.last) {
                self.map.insert(self.last, membership);
                return self.last;
            }
        }
    }

    /// Removes a membership, and the host from the group after its last member.
    pub fn remove(&mut self, group: GroupNumber) -> Option<Membership> {
        let membership = self.map.remove(&group)?;
        if let Some(place) = membership.joined {
            self.leave_host(place, group);
        }
        Some(membership)
    }

    /// Joins the host to a group for a member. If it is joined already, returns the LID.
    pub fn join_host(&mut self, place: Place, port: device::Place, group: GroupNumber) -> Option<u16> {
        if let Some(on_host) = self.on_host.get_mut(&place) {
            on_host.members.insert(group);
            return on_host.confirmed;
        }
        self.last_request = self.last_request.wrapping_add(1);
        let request = self.last_request;
        let on_host = OnHost { request, port, members: BTreeSet::from([group]), confirmed: None };
        self.on_host.insert(place, on_host);
        self.out.push_back(request_of(request, port, place, true));
        None
    }

    /// Applies the host's answer to a join; returns the members, which wait for it.
    pub fn on_joined(&mut self, request: u32, result: MulticastResult) -> Vec<GroupNumber> {
        let is_asked = |on_host: &OnHost| on_host.request == request && on_host.confirmed.is_none();
        let Some((place, on_host)) = self.on_host.iter_mut().find(|(_, on_host)| is_asked(on_host)) else {
            return Vec::new();
        };
        let members = on_host.members.iter().copied().collect();
        match result {
            Ok(mlid) => on_host.confirmed = Some(mlid),
            Err(_) => {
                let place = *place;
                self.on_host.remove(&place);
            }
        }
        members
    }

    fn leave_host(&mut self, place: Place, group: GroupNumber) {
        let Some(on_host) = self.on_host.get_mut(&place) else { return };
        on_host.members.remove(&group);
        if on_host.members.is_empty() {
            let (request, port) = (on_host.request, on_host.port);
            self.on_host.remove(&place);
            self.out.push_back(request_of(request, port, place, false));
        }
    }
}

fn request_of(group: u32, port: device::Place, place: Place, join: bool) -> MulticastRequest {
    let ((device, port), (ifindex, ip, mgid)) = (port, place);
    MulticastRequest { group, device, port, ifindex, ip, mgid, join }
}
