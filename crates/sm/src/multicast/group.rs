//! Multicast groups and who is in them.

use std::collections::BTreeMap;

use weft_wire::mad::sa::{JoinState, McMemberRecord};

use super::Mlids;

/// A port in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// GID that it joined with.
    pub gid: [u8; 16],
    /// GUID of the port, whatever alias it joined with.
    pub port_guid: u64,
    /// How it is in it.
    pub join_state: JoinState,
    /// Somebody else put it into it.
    pub proxy: bool,
    /// GUID of the port that asked for that, whose share of the tables it takes.
    pub by: u64,
}

impl Member {
    /// Whether it keeps the group alive.
    pub fn is_full(&self) -> bool {
        self.join_state.intersects(JoinState::FULL_MEMBER | JoinState::SEND_ONLY_FULL_MEMBER)
    }

    /// Whether it receives what is sent to the group.
    pub fn receives(&self) -> bool {
        self.join_state.intersects(JoinState::FULL_MEMBER | JoinState::NON_MEMBER)
    }
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// What the group is: everything in it that is not a member's.
    pub record: McMemberRecord,
    /// Who is in it, by the lower halves of the GIDs, in the byte order of [`order`].
    pub members: BTreeMap<u64, Member>,
    /// It stays when nobody is in it: the administrator made it.
    pub well_known: bool,
}

/// The order in which members and ports are listed: that of GUIDs read with their last byte first, as OpenSM's are on
/// the machines that it runs on.
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

    /// Whether a member keeps it alive.
    pub fn is_kept(&self) -> bool {
        self.members.values().any(Member::is_full)
    }
}

/// Every group.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    by_mgid: BTreeMap<[u8; 16], Group>,
    /// How many memberships there are by who asked for them.
    asked: BTreeMap<u64, usize>,
    /// Their LIDs.
    pub mlids: Mlids,
}

impl Groups {
    /// The group of this GID.
    pub fn get(&self, mgid: &[u8; 16]) -> Option<&Group> {
        self.by_mgid.get(mgid)
    }

    /// The same, to be changed; its GID, LID and members stay.
    pub fn get_mut(&mut self, mgid: &[u8; 16]) -> Option<&mut Group> {
        self.by_mgid.get_mut(mgid)
    }

    /// Every group, in the order of GIDs.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.by_mgid.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_mgid.len()
    }

    /// Whether there is none.
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

    /// Removes one.
    pub fn remove(&mut self, mgid: &[u8; 16]) -> Option<Group> {
        let group = self.by_mgid.remove(mgid)?;
        self.mlids.release(group.record.mlid, mgid);
        group.members.values().for_each(|member| uncount(&mut self.asked, member.by));
        Some(group)
    }

    /// Puts a port into a group, in the place of what it was there.
    pub fn put(&mut self, mgid: &[u8; 16], member: Member) {
        let Some(group) = self.by_mgid.get_mut(mgid) else { return };
        *self.asked.entry(member.by).or_default() += 1;
        if let Some(before) = group.members.insert(order(guid_of(&member.gid)), member) {
            uncount(&mut self.asked, before.by);
        }
    }

    /// Takes the member out that joined with this GUID.
    pub fn take(&mut self, mgid: &[u8; 16], guid: u64) {
        let member = self.by_mgid.get_mut(mgid).and_then(|group| group.members.remove(&order(guid)));
        member.into_iter().for_each(|member| uncount(&mut self.asked, member.by));
    }

    /// How many memberships a port has asked for.
    pub fn asked_by(&self, guid: u64) -> usize {
        self.asked.get(&guid).copied().unwrap_or(0)
    }
}

/// A membership that a port asked for is no more.
fn uncount(asked: &mut BTreeMap<u64, usize>, by: u64) {
    let Some(count) = asked.get_mut(&by) else { return };
    *count -= 1;
    if *count == 0 {
        asked.remove(&by);
    }
}
