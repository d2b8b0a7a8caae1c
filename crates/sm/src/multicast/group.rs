//! Multicast groups and their members.

use std::collections::BTreeMap;

use weft_wire::mad::sa::{JoinState, McMemberRecord};

use super::Mlids;

/// A port that has joined a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// GID it joined with.
    pub gid: [u8; 16],
    /// GUID of the port, even if it joined with an alias.
    pub port_guid: u64,
    /// Its JoinState.
    pub join_state: JoinState,
    /// Whether another port requested this membership.
    pub proxy: bool,
    /// GUID of the requesting port; the membership counts against that port's share of the tables.
    pub by: u64,
}

impl Member {
    /// Whether the membership keeps the group alive.
    pub fn is_full(&self) -> bool {
        self.join_state.intersects(JoinState::FULL_MEMBER | JoinState::SEND_ONLY_FULL_MEMBER)
    }

    /// Whether the member receives packets sent to the group.
    pub fn receives(&self) -> bool {
        self.join_state.intersects(JoinState::FULL_MEMBER | JoinState::NON_MEMBER)
    }
}

/// A multicast group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// The group's properties: the MCMemberRecord without its per-member fields.
    pub record: McMemberRecord,
    /// The members, keyed by the lower half of their GIDs in the byte order of [`order`].
    pub members: BTreeMap<u64, Member>,
    /// Whether the group stays when it has no members, because the administrator created it.
    pub well_known: bool,
}

/// Sort key for members and ports: the GUID read with its last byte first, which is OpenSM's order on little-endian
/// machines.
pub fn order(guid: u64) -> u64 {
    guid.swap_bytes()
}

/// The lower half of a GID.
pub fn guid_of(gid: &[u8; 16]) -> u64 {
    gid.last_chunk().map_or(0, |half| u64::from_be_bytes(*half))
}

/// The upper half of a GID.
pub fn prefix_of(gid: &[u8; 16]) -> u64 {
    gid.first_chunk().map_or(0, |half| u64::from_be_bytes(*half))
}

impl Group {
    /// The member that joined with this GUID.
    pub fn member(&self, guid: u64) -> Option<&Member> {
        self.members.get(&order(guid))
    }

    /// Whether any member keeps the group alive.
    pub fn is_kept(&self) -> bool {
        self.members.values().any(Member::is_full)
    }
}

/// All multicast groups of the subnet.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    by_mgid: BTreeMap<[u8; 16], Group>,
    /// Number of memberships by the GUID of the port that requested them.
    asked: BTreeMap<u64, usize>,
    /// The groups' LIDs.
    pub mlids: Mlids,
}

impl Groups {
    /// The group with this GID.
    pub fn get(&self, mgid: &[u8; 16]) -> Option<&Group> {
        self.by_mgid.get(mgid)
    }

    /// The group with this GID, to modify; its GID, LID and members must not change.
    pub fn get_mut(&mut self, mgid: &[u8; 16]) -> Option<&mut Group> {
        self.by_mgid.get_mut(mgid)
    }

    /// Every group, in GID order.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.by_mgid.values()
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.by_mgid.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.by_mgid.is_empty()
    }

    /// The groups that share a LID.
    pub fn at_mlid(&self, mlid: u16) -> impl Iterator<Item = &Group> {
        self.mlids.groups(mlid).iter().filter_map(|mgid| self.by_mgid.get(mgid))
    }

    /// Adds a group with the GID and LID of its record.
    pub fn insert(&mut self, group: Group) {
        self.mlids.take(group.record.mlid, group.record.mgid);
        self.by_mgid.insert(group.record.mgid, group);
    }

    /// Removes a group and releases its LID.
    pub fn remove(&mut self, mgid: &[u8; 16]) -> Option<Group> {
        let group = self.by_mgid.remove(mgid)?;
        self.mlids.release(group.record.mlid, mgid);
        group.members.values().for_each(|member| uncount(&mut self.asked, member.by));
        Some(group)
    }

    /// Puts a port into a group, replacing its previous membership.
    pub fn put(&mut self, mgid: &[u8; 16], member: Member) {
        let Some(group) = self.by_mgid.get_mut(mgid) else { return };
        *self.asked.entry(member.by).or_default() += 1;
        if let Some(before) = group.members.insert(order(guid_of(&member.gid)), member) {
            uncount(&mut self.asked, before.by);
        }
    }

    /// Removes the member that joined with this GUID.
    pub fn take(&mut self, mgid: &[u8; 16], guid: u64) {
        let member = self.by_mgid.get_mut(mgid).and_then(|group| group.members.remove(&order(guid)));
        member.into_iter().for_each(|member| uncount(&mut self.asked, member.by));
    }

    /// The number of memberships that a port has requested.
    pub fn asked_by(&self, guid: u64) -> usize {
        self.asked.get(&guid).copied().unwrap_or(0)
    }
}

/// Decrements the count of memberships that a port requested.
fn uncount(asked: &mut BTreeMap<u64, usize>, by: u64) {
    let Some(count) = asked.get_mut(&by) else { return };
    *count -= 1;
    if *count == 0 {
        asked.remove(&by);
    }
}
