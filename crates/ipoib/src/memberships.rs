//! The kernel's multicast memberships, from the reports that it sends: IGMP (RFC 1112, RFC 2236, RFC 3376) and MLD
//! (RFC 2710, RFC 3810). A TUN has no other way to learn them.
//!
//! ```text
//!            report, TO_EX, ALLOW          TO_IN {}, leave, done, BLOCK of the last source
//!   absent ──────────────────────▶ member ─────────────────────────────────────────────────▶ absent
//! ```
//!
//! A membership does not expire: the kernel reports each end itself. Where its reports may have been lost, a query
//! ([`queries`]) brings all of them again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use weft_wire::ipoib::Protocol;

use crate::frame::Frame;
use crate::limits::{MEMBERSHIPS_MAX, SOURCES_MAX};

const IGMP: u8 = 2;
const ICMPV6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
const IPV6_LEN: usize = 40;

/// Types of IGMP.
const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;
/// Types of ICMPv6.
const MLD_QUERY: u8 = 130;
const MLD_REPORT: u8 = 131;
const MLD_DONE: u8 = 132;
const MLD_REPORT_V2: u8 = 143;

/// Types of group records (RFC 3376 §4.2.12).
const MODE_IS_INCLUDE: u8 = 1;
const MODE_IS_EXCLUDE: u8 = 2;
const TO_INCLUDE: u8 = 3;
const TO_EXCLUDE: u8 = 4;
const ALLOW: u8 = 5;
const BLOCK: u8 = 6;

/// Sources of a group that the kernel wants.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Sources {
    /// All, perhaps except for some.
    Any,
    /// These.
    Only(BTreeSet<IpAddr>),
}

/// The groups that the kernel is a member of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memberships {
    of: BTreeMap<IpAddr, Sources>,
}

/// One record of a report.
struct Record {
    kind: u8,
    group: IpAddr,
    sources: Vec<IpAddr>,
}

impl Memberships {
    /// Returns the groups.
    pub fn groups(&self) -> impl Iterator<Item = IpAddr> {
        self.of.keys().copied()
    }

    /// Looks at a packet of the kernel; returns whether the groups changed.
    pub fn handle_packet(&mut self, packet: &[u8]) -> bool {
        let before: Vec<IpAddr> = self.groups().collect();
        let records = records_of(packet).unwrap_or_default();
        if records.is_empty() {
            return false;
        }
        records.into_iter().for_each(|record| self.apply(record));
        !self.groups().eq(before)
    }

    fn apply(&mut self, Record { kind, group, sources }: Record) {
        if !group.is_multicast() || self.of.len() >= MEMBERSHIPS_MAX && !self.of.contains_key(&group) {
            return;
        }
        let old = self.of.remove(&group);
        let new = match (kind, old) {
            (MODE_IS_EXCLUDE | TO_EXCLUDE, _) => Some(Sources::Any),
            (MODE_IS_INCLUDE | TO_INCLUDE, _) => only(sources.into_iter().collect()),
            (ALLOW | BLOCK, Some(Sources::Any)) => Some(Sources::Any),
            (ALLOW, Some(Sources::Only(old))) => only(old.into_iter().chain(sources).collect()),
            (ALLOW, None) => only(sources.into_iter().collect()),
            (BLOCK, Some(Sources::Only(old))) => only(old.into_iter().filter(|old| !sources.contains(old)).collect()),
            (_, old) => old,
        };
        self.of.extend(new.map(|new| (group, new)));
    }
}

/// Returns these sources; `None` without any. Too many count as all: the membership then ends with its leave only.
fn only(sources: BTreeSet<IpAddr>) -> Option<Sources> {
    match sources.len() {
        0 => None,
        1..=SOURCES_MAX => Some(Sources::Only(sources)),
        _ => Some(Sources::Any),
    }
}

/// Reads the records of a report; `None` if the packet is none.
fn records_of(packet: &[u8]) -> Option<Vec<Record>> {
    match packet.first()? >> 4 {
        4 => {
            let length = usize::from(packet[0] & 15) * 4;
            if *packet.get(9)? != IGMP || !(20..=60).contains(&length) {
                return None;
            }
            // Reports leave in one piece.
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
            if fragment != 0 { None } else { igmp_records(packet.get(length..)?) }
        }
        6 => {
            let header = packet.first_chunk::<IPV6_LEN>()?;
            let rest = &packet[IPV6_LEN..];
            if header[6] != HOP_BY_HOP || *rest.first()? != ICMPV6 {
                return None;
            }
            let length = (usize::from(*rest.get(1)?) + 1) * 8;
            mld_records(rest.get(length..)?)
        }
        _ => None,
    }
}

fn igmp_records(message: &[u8]) -> Option<Vec<Record>> {
    let (kind, group) = match *message.first()? {
        REPORT_V1 | REPORT_V2 => (TO_EXCLUDE, address::<4>(message, 4)?),
        LEAVE => (TO_INCLUDE, address::<4>(message, 4)?),
        REPORT_V3 => return Some(group_records::<4>(message)),
        _ => return None,
    };
    Some(vec![Record { kind, group, sources: Vec::new() }])
}

fn mld_records(message: &[u8]) -> Option<Vec<Record>> {
    let (kind, group) = match *message.first()? {
        MLD_REPORT => (TO_EXCLUDE, address::<16>(message, 8)?),
        MLD_DONE => (TO_INCLUDE, address::<16>(message, 8)?),
        MLD_REPORT_V2 => return Some(group_records::<16>(message)),
        _ => return None,
    };
    Some(vec![Record { kind, group, sources: Vec::new() }])
}

/// Reads the records of IGMPv3 and of MLDv2, which differ in the length of addresses only.
fn group_records<const LEN: usize>(message: &[u8]) -> Vec<Record>
where
    IpAddr: From<[u8; LEN]>,
{
    let mut found = Vec::new();
    let mut rest = message.get(8..).unwrap_or_default();
    let count = message.get(6..8).and_then(|bytes| bytes.first_chunk().copied()).map_or(0, u16::from_be_bytes);
    for _ in 0..count {
        let Some(&[kind, auxiliary, high, low]) = rest.first_chunk() else { break };
        let Some(group) = address::<LEN>(rest, 4) else { break };
        let sources_bytes = usize::from(u16::from_be_bytes([high, low])) * LEN;
        let Some(sources) = rest.get(4 + LEN..4 + LEN + sources_bytes) else { break };
        let sources = sources.chunks_exact(LEN).filter_map(|source| address::<LEN>(source, 0)).collect();
        found.push(Record { kind, group, sources });
        rest = rest.get(4 + LEN + sources_bytes + 4 * usize::from(auxiliary)..).unwrap_or_default();
    }
    found
}

fn address<const LEN: usize>(bytes: &[u8], at: usize) -> Option<IpAddr>
where
    IpAddr: From<[u8; LEN]>,
{
    bytes.get(at..)?.first_chunk::<LEN>().map(|octets| IpAddr::from(*octets))
}

/// Makes the general queries of IGMPv3 and MLDv2 for the kernel itself, which answers with reports of all its groups
/// within a tenth of a second. `local`: a link-local address, from which alone a host takes MLD.
pub fn queries(local: Ipv6Addr) -> [Frame; 2] {
    [Frame::new(Protocol::IPV4, &igmp_query()), Frame::new(Protocol::IPV6, &mld_query(local))]
}

fn igmp_query() -> Vec<u8> {
    // Type, maximum response time in tenths of a second, checksum, group; robustness 2, interval 125 s, no sources.
    let mut query = [QUERY, 1, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0];
    let sum = checksum(&[&query]);
    query[2..4].copy_from_slice(&sum.to_be_bytes());
    // Header of 24 bytes with the router alert option; TTL 1; from no address, to all systems.
    let mut header = [0x46, 0xc0, 0, 36, 0, 0, 0x40, 0, 1, IGMP, 0, 0, 0, 0, 0, 0, 224, 0, 0, 1, 0x94, 4, 0, 0];
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&header[..], &query].concat()
}

fn mld_query(local: Ipv6Addr) -> Vec<u8> {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let mut query = [0; 28];
    query[0] = MLD_QUERY;
    // Maximum response delay in milliseconds; robustness and interval as above.
    query[4..6].copy_from_slice(&100u16.to_be_bytes());
    (query[24], query[25]) = (2, 125);
    let pseudo = [0, 0, 0, query.len() as u8, 0, 0, 0, ICMPV6];
    let sum = checksum(&[&local.octets(), &ALL_NODES.octets(), &pseudo, &query]);
    query[2..4].copy_from_slice(&sum.to_be_bytes());
    // Next header ICMPv6, router alert for MLD, two bytes of padding.
    let option = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];
    let mut packet = vec![0x60, 0, 0, 0, 0, (option.len() + query.len()) as u8, HOP_BY_HOP, 1];
    packet.extend(local.octets());
    packet.extend(ALL_NODES.octets());
    packet.extend(option);
    packet.extend(query);
    packet
}

/// The Internet checksum (RFC 1071) of parts of even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.as_chunks::<2>().0);
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GROUP: [u8; 4] = [239, 1, 2, 3];

    fn igmp(message: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x46, 0, 0, 0, 0, 0, 0x40, 0, 1, IGMP];
        packet.resize(24, 0);
        packet.extend(message);
        packet
    }

    /// Type, group and sources of a record.
    type V3Record<'a> = (u8, [u8; 4], &'a [[u8; 4]]);

    fn v3(records: &[V3Record<'_>]) -> Vec<u8> {
        let mut message = vec![REPORT_V3, 0, 0, 0, 0, 0, 0, records.len() as u8];
        for (kind, group, sources) in records {
            message.extend([*kind, 0, 0, sources.len() as u8]);
            message.extend(group);
            message.extend(sources.concat());
        }
        igmp(&message)
    }

    fn mld(message: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, HOP_BY_HOP, 1];
        packet.resize(IPV6_LEN, 0);
        packet.extend([ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
        packet.extend(message);
        packet
    }

    fn groups(memberships: &Memberships) -> Vec<String> {
        memberships.groups().map(|group| group.to_string()).collect()
    }

    #[test]
    fn reports_of_every_version_join_and_leave() {
        let group6: Ipv6Addr = "ff15::7".parse().unwrap();
        let v2 = |kind: u8| igmp(&[&[kind, 0, 0, 0][..], &GROUP].concat());
        let mld1 = |kind: u8| mld(&[&[kind, 0, 0, 0, 0, 0, 0, 0][..], &group6.octets()].concat());
        let mld2 =
            |kind: u8| mld(&[&[MLD_REPORT_V2, 0, 0, 0, 0, 0, 0, 1, kind, 0, 0, 0][..], &group6.octets()].concat());
        for (join, leave, name) in [
            (v2(REPORT_V1), v2(LEAVE), "239.1.2.3"),
            (v2(REPORT_V2), v2(LEAVE), "239.1.2.3"),
            (v3(&[(TO_EXCLUDE, GROUP, &[])]), v3(&[(TO_INCLUDE, GROUP, &[])]), "239.1.2.3"),
            (v3(&[(MODE_IS_EXCLUDE, GROUP, &[])]), v3(&[(TO_INCLUDE, GROUP, &[])]), "239.1.2.3"),
            (mld1(MLD_REPORT), mld1(MLD_DONE), "ff15::7"),
            (mld2(TO_EXCLUDE), mld2(TO_INCLUDE), "ff15::7"),
        ] {
            let mut memberships = Memberships::default();
            assert!(memberships.handle_packet(&join) && !memberships.handle_packet(&join));
            assert_eq!(groups(&memberships), [name]);
            assert!(memberships.handle_packet(&leave) && !memberships.handle_packet(&leave));
            assert!(groups(&memberships).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_group_of_selected_sources_ends_with_the_last_one() {
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let mut memberships = Memberships::default();
        assert!(memberships.handle_packet(&v3(&[(ALLOW, GROUP, &[a])])));
        assert!(!memberships.handle_packet(&v3(&[(ALLOW, GROUP, &[b])])));
        assert!(!memberships.handle_packet(&v3(&[(BLOCK, GROUP, &[a])])));
        assert!(memberships.handle_packet(&v3(&[(BLOCK, GROUP, &[b])])));
        // Sources that are blocked within all leave the rest.
        let report = v3(&[(TO_EXCLUDE, GROUP, &[a]), (BLOCK, GROUP, &[b]), (ALLOW, [239, 9, 9, 9], &[b])]);
        assert!(memberships.handle_packet(&report));
        assert_eq!(groups(&memberships), ["239.1.2.3", "239.9.9.9"]);
        let many: Vec<[u8; 4]> = (0..SOURCES_MAX as u8 + 1).map(|number| [10, 0, 1, number]).collect();
        memberships.handle_packet(&v3(&[(TO_INCLUDE, GROUP, &many)]));
        assert!(!memberships.handle_packet(&v3(&[(BLOCK, GROUP, &many)])), "too many to follow");
        assert!(memberships.handle_packet(&v3(&[(TO_INCLUDE, GROUP, &[])])));
    }

    #[test]
    fn a_flood_of_groups_is_bounded_and_other_packets_are_nothing() {
        let mut memberships = Memberships::default();
        for number in 0..2 * MEMBERSHIPS_MAX {
            memberships.handle_packet(&v3(&[(TO_EXCLUDE, [239, 7, (number >> 8) as u8, number as u8], &[])]));
        }
        assert_eq!(memberships.groups().count(), MEMBERSHIPS_MAX);
        for other in [igmp_query(), vec![0x45; 40], mld_query(Ipv6Addr::LOCALHOST), v3(&[(TO_EXCLUDE, [10; 4], &[])])] {
            assert!(!memberships.handle_packet(&other));
        }
    }

    #[test]
    fn queries_have_right_checksums() {
        let local = "fe80::1".parse().unwrap();
        let [v4, v6] = queries(local).map(|query| query.packet().to_vec());
        assert_eq!((checksum(&[&v4[..24]]), checksum(&[&v4[24..]])), (0, 0));
        assert_eq!(checksum(&[&v6[8..40], &[0, 28, 0, ICMPV6], &v6[48..]]), 0);
        assert_eq!(v6.len(), IPV6_LEN + usize::from(v6[5]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let mut memberships = Memberships::default();
            memberships.handle_packet(&bytes);
            memberships.handle_packet(&igmp(&bytes));
            memberships.handle_packet(&mld(&bytes));
            memberships.handle_packet(&igmp(&[&[REPORT_V3, 0, 0, 0, 0, 0][..], &bytes].concat()));
        }
    }
}
