//! Properties of a new group: as requested where possible; the rest come from the port that creates it.

use weft_wire::mad::Rate;
use weft_wire::mad::sa::{ComponentMask, JoinState, McMemberRecord, Selector};
use weft_wire::mad::subn::PortInfo;

use super::{exact, properties_fit};
use crate::multicast::Group;
use crate::sa::answer::Refusal;
use crate::sa::facts::rate;
use crate::sa::index::{rank, ranked};
use crate::sa::limits::GROUPS_MAX;
use crate::sa::path::limited;
use crate::sa::world::World;
use crate::sa::{Administrator, Change, is_mtu};

/// MGID signatures of IPoIB groups for IPv4 and IPv6 (RFC 4391).
const IPOIB: [[u8; 2]; 2] = [[0x40, 0x1b], [0x60, 0x1b]];
/// MGID signature of groups whose MGID the administrator assigns.
const ASSIGNED: [u8; 2] = [0xa0, 0x1b];
/// Scope within the subnet.
const SCOPE_LINK_LOCAL: u8 = 2;
/// MGIDs to try until a free one is found.
const MGID_TRIES_MAX: u32 = 1000;

fn signature(mgid: &[u8; 16]) -> [u8; 2] {
    [mgid[2], mgid[3]]
}

fn is_ipoib(mgid: &[u8; 16]) -> bool {
    IPOIB.contains(&signature(mgid))
}

/// Whether a group may have this MGID (IBA o15-0.1.5).
fn is_valid(mgid: &[u8; 16]) -> bool {
    let assigned_here = signature(mgid) == ASSIGNED && mgid[1] & 0xf == SCOPE_LINK_LOCAL;
    mgid[0] == 0xff && (is_ipoib(mgid) || mgid[1] & 0xe0 == 0 && !assigned_here)
}

/// MGID of a partition's IPv4 broadcast group, which the partition's other IPoIB groups must match.
fn broadcast(mgid: &[u8; 16]) -> [u8; 16] {
    let [_, flags, _, _, key_high, key_low, ..] = *mgid;
    let scope = 0x10 | flags & 0xf;
    [0xff, scope, 0x40, 0x1b, key_high, key_low, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]
}

/// Whether this is an IPv6 solicited-node group. Every host needs one.
fn is_solicited_node(mgid: &[u8; 16]) -> bool {
    mgid[0] == 0xff
        && mgid[1] & 0xf0 == 0x10
        && signature(mgid) == IPOIB[1]
        && mgid[6..11] == [0; 5]
        && mgid[11] & 0xf1 == 1
        && mgid[12] == 0xff
}

/// MTU or rate of a new group, from the request and the creating port, on an ordered scale. `None` if the request
/// cannot be met.
fn settled(asked: Option<(Selector, u8)>, port: Option<u8>, least: u8) -> Option<u8> {
    let Some((selector, wanted)) = asked else { return Some(port.unwrap_or(least)) };
    match selector {
        Selector::GREATER_THAN => match port {
            Some(port) => (wanted < port).then_some(port),
            None => Some(least.max(wanted + 1)),
        },
        Selector::LESS_THAN => match port {
            Some(port) if wanted > port => Some(port),
            _ => wanted.checked_sub(1),
        },
        Selector::EXACTLY => Some(wanted),
        _ => Some(port.unwrap_or(least)),
    }
}

impl Administrator {
    /// Returns the requested group's record, with a LID. `port` is the creating port.
    pub(in crate::sa) fn created(
        &mut self,
        world: &World<'_>,
        asked: &McMemberRecord,
        mask: ComponentMask,
        port: Option<&PortInfo>,
    ) -> Result<McMemberRecord, Refusal> {
        if asked.mgid != [0; 16] && world.settings.ipoib_mcgroup_creation_validation {
            self.check_mgid(asked, mask)?;
        }
        self.made(world, asked, mask, port)
    }

    /// Returns the record of a group from an earlier administrator. Groups come back in any order, so an IPoIB group
    /// may precede its broadcast group.
    pub(in crate::sa) fn created_before(
        &mut self,
        world: &World<'_>,
        asked: &McMemberRecord,
        mask: ComponentMask,
    ) -> Result<McMemberRecord, Refusal> {
        if world.settings.ipoib_mcgroup_creation_validation && !is_valid(&asked.mgid) {
            return Err(Refusal::INVALID);
        }
        self.made(world, asked, mask, None)
    }

    fn made(
        &mut self,
        world: &World<'_>,
        asked: &McMemberRecord,
        mask: ComponentMask,
        port: Option<&PortInfo>,
    ) -> Result<McMemberRecord, Refusal> {
        let mut group = exact(*asked);
        if group.mgid == [0; 16] {
            group.mgid = self.assigned_mgid(world, asked, mask).ok_or(Refusal::NO_RESOURCES)?;
        }
        let names = |a, b| mask.contains(a | b);
        let mtu = names(McMemberRecord::MTU, McMemberRecord::MTU_SELECTOR).then_some((asked.mtu_selector, asked.mtu));
        let least = self.index.least;
        let port_mtu = port.map(|port| port.neighbor_mtu).filter(|mtu| *mtu > 0);
        group.mtu = settled(mtu, port_mtu, least.mtu.min(5)).filter(|mtu| is_mtu(*mtu)).ok_or(Refusal::INVALID)?;
        let asked_rate = names(McMemberRecord::RATE, McMemberRecord::RATE_SELECTOR);
        let asked_rate = asked_rate.then_some((asked.rate_selector, rank(asked.rate)));
        let place = settled(asked_rate, port.map(|port| rank(rate(port))), least.rank.min(rank(Rate::GBPS_1600)));
        group.rate = limited(ranked(place.ok_or(Refusal::INVALID)?), world.settings.max_rate_enum);
        if !mask.contains(McMemberRecord::PACKET_LIFE_TIME) && !mask.contains(McMemberRecord::PACKET_LIFE_TIME_SELECTOR)
        {
            group.packet_life_time = world.settings.subnet_timeout;
        }
        group.scope = group.mgid[1] & 0xf;
        group.mlid = self.mlid(world, &group).ok_or(Refusal::NO_RESOURCES)?;
        group.port_gid = [0; 16];
        group.join_state = JoinState::empty();
        group.proxy_join = false;
        Ok(group)
    }

    /// Checks that a group may be created with this MGID and these properties (RFC 4391: IPoIB groups match their
    /// broadcast group).
    fn check_mgid(&self, asked: &McMemberRecord, mask: ComponentMask) -> Result<(), Refusal> {
        if !is_valid(&asked.mgid) {
            return Err(Refusal::INVALID);
        }
        let leader = broadcast(&asked.mgid);
        if !is_ipoib(&asked.mgid) || leader == asked.mgid {
            return Ok(());
        }
        let leader = self.groups.get(&leader).filter(|leader| properties_fit(&leader.record, asked, mask));
        leader.map(|_| ()).ok_or(Refusal::INVALID)
    }

    /// Assigns an MGID to a group created without one.
    fn assigned_mgid(&mut self, world: &World<'_>, asked: &McMemberRecord, mask: ComponentMask) -> Option<[u8; 16]> {
        let scope = if mask.contains(McMemberRecord::SCOPE) { asked.scope } else { SCOPE_LINK_LOCAL };
        let mut mgid = [0; 16];
        mgid[0] = 0xff;
        mgid[1] = 0x10 | scope & 0xf;
        mgid[2..4].copy_from_slice(&ASSIGNED);
        mgid[4..12].copy_from_slice(&world.settings.subnet_prefix.to_be_bytes());
        for _ in 0..MGID_TRIES_MAX {
            mgid[12..].copy_from_slice(&self.mgids_assigned.to_be_bytes());
            self.mgids_assigned = self.mgids_assigned.wrapping_add(1);
            if self.groups.get(&mgid).is_none() {
                return Some(mgid);
            }
        }
        None
    }

    /// LID for a new group: the requested one if it is free; the lowest free one; if the switches' tables are full, one
    /// shared with similar groups.
    fn mlid(&mut self, world: &World<'_>, group: &McMemberRecord) -> Option<u16> {
        if world.settings.consolidate_ipv6_snm_req && is_solicited_node(&group.mgid) {
            let same = |other: &[u8; 16]| other[..13] == group.mgid[..13];
            if let Some(mlid) = self.groups.mlids.least_shared(same) {
                return Some(mlid);
            }
        }
        if group.mlid != 0 && self.groups.mlids.is_free(group.mlid) {
            return Some(group.mlid);
        }
        if let Some(mlid) = self.groups.mlids.free() {
            return Some(mlid);
        }
        let groups = &self.groups;
        let like = |other: &[u8; 16]| {
            let other = groups.get(other).map(|other| &other.record);
            other.is_some_and(|other| (other.pkey & 0x7fff, other.sl) == (group.pkey & 0x7fff, group.sl))
        };
        let akin = |other: &[u8; 16]| signature(other) == signature(&group.mgid) && like(other);
        groups.mlids.least_shared(akin).or_else(|| groups.mlids.least_shared(like))
    }

    /// Adds a group.
    pub(in crate::sa) fn insert_group(&mut self, record: McMemberRecord, well_known: bool) -> Result<(), Refusal> {
        if self.groups.len() >= GROUPS_MAX {
            return Err(Refusal::NO_RESOURCES);
        }
        self.groups.insert(Group { record, members: Default::default(), well_known });
        self.changes.insert(Change::Cache);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_of_groups_are_told_apart() {
        let mgid = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("an address").octets();
        assert!(is_valid(&mgid("ff12:401b:ffff::1")) && is_valid(&mgid("ff1e:a01b::1")) && is_valid(&mgid("ff02::1")));
        assert!(!is_valid(&mgid("ff12:a01b::1")) && !is_valid(&mgid("ff32::1")) && !is_valid(&mgid("fe80::1")));
        assert_eq!(broadcast(&mgid("ff12:601b:8002::16")), mgid("ff12:401b:8002::ffff:ffff"));
        assert!(is_solicited_node(&mgid("ff12:601b:ffff::1:ff00:1234")));
        assert!(!is_solicited_node(&mgid("ff12:401b:ffff::1:ff00:1234")));
    }

    #[test]
    fn what_a_group_carries_is_settled_by_the_port_that_makes_it() {
        use Selector as S;
        for (asked, port, expected) in [
            (None, Some(4), Some(4)),
            (None, None, Some(3)),
            (Some((S::EXACTLY, 5)), Some(4), Some(5)),
            (Some((S::GREATER_THAN, 3)), Some(4), Some(4)),
            (Some((S::GREATER_THAN, 4)), Some(4), None),
            (Some((S::LESS_THAN, 5)), Some(4), Some(4)),
            (Some((S::LESS_THAN, 4)), Some(4), Some(3)),
            (Some((S::BEST, 1)), Some(4), Some(4)),
            (Some((S::GREATER_THAN, 4)), None, Some(5)),
        ] {
            assert_eq!(settled(asked, port, 3), expected, "{asked:?} {port:?}");
        }
    }
}
