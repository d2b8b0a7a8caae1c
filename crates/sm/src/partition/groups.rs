//! Multicast groups that the configuration creates: IPoIB's broadcast group, and those in the rules of a partition.

use super::config::{self, GroupFlags, IPOIB_QKEY, SCOPE};
use super::keys::FULL;

/// MGID of IPoIB's IPv4 broadcast group in the default partition.
pub const BROADCAST: [u8; 16] = [0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

/// A multicast group that exists without members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Group {
    /// Its MGID.
    pub mgid: [u8; 16],
    /// Its P_Key, with the full-membership bit.
    pub pkey: u16,
    /// MTU, as a code; exact.
    pub mtu: u8,
    /// Rate, as a code; exact.
    pub rate: u8,
    /// Service level.
    pub sl: u8,
    /// Scope.
    pub scope: u8,
    /// Q_Key.
    pub qkey: u32,
    /// Traffic class.
    pub tclass: u8,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit: 0 within the subnet.
    pub hop_limit: u8,
    /// Packet lifetime, as a code.
    pub packet_life: u8,
}

/// Returns the broadcast groups of a partition, one per scope.
pub(super) fn broadcast(key: u16, flags: GroupFlags, packet_life: u8) -> Vec<Group> {
    let qkey = if flags.qkey == 0 { IPOIB_QKEY } else { flags.qkey };
    by_scope(key, with_key(BROADCAST, key), GroupFlags { qkey, ..flags }, packet_life)
}

/// Returns the groups of a rule's group line, one per scope; none if it disagrees with the partition.
pub(super) fn further(key: u16, group: &config::Group, partition: GroupFlags, packet_life: u8) -> Vec<Group> {
    if !group.is_ip() {
        return by_scope(key, group.mgid, group.flags, packet_life);
    }
    if disagreement(group, partition, Some(key)).is_some() {
        return Vec::new();
    }
    let qkey = if group.flags.qkey == 0 { IPOIB_QKEY } else { group.flags.qkey };
    by_scope(key, with_key(group.mgid, key), GroupFlags { qkey, ..group.flags }, packet_life)
}

fn with_key(mut mgid: [u8; 16], key: u16) -> [u8; 16] {
    [mgid[4], mgid[5]] = (key | FULL).to_be_bytes();
    mgid
}

fn by_scope(key: u16, mgid: [u8; 16], flags: GroupFlags, packet_life: u8) -> Vec<Group> {
    let scopes = if flags.scopes == 0 { 1 << SCOPE } else { flags.scopes };
    let one = |scope: u8| {
        let mut mgid = mgid;
        mgid[1] = mgid[1] & 0xf0 | scope;
        Group {
            mgid,
            pkey: key | FULL,
            mtu: flags.mtu,
            rate: flags.rate,
            sl: flags.sl,
            scope,
            qkey: flags.qkey,
            tclass: flags.tclass,
            flow_label: flags.flow_label,
            hop_limit: if scope == SCOPE { 0 } else { u8::MAX },
            packet_life,
        }
    };
    (1..16).filter(|scope| scopes & 1 << scope != 0).map(one).collect()
}

/// Returns the reason why an IP group cannot exist in a partition.
pub(super) fn disagreement(group: &config::Group, flags: GroupFlags, key: Option<u16>) -> Option<String> {
    let in_mgid = u16::from_be_bytes([group.mgid[4], group.mgid[5]]);
    let broadcast = group.mgid == BROADCAST;
    if let Some(key) = key
        && in_mgid != 0
        && in_mgid != key | 0x8000
        && !broadcast
    {
        return Some(format!("its P_Key {in_mgid:#06x} is not that of the partition, {:#06x}", key | 0x8000));
    }
    for (name, own, partition) in [("rate", group.flags.rate, flags.rate), ("mtu", group.flags.mtu, flags.mtu)] {
        if own != partition {
            return Some(format!("its {name} {own} is not that of the partition, {partition}"));
        }
    }
    None
}
