//! Path records (IBA 15.2.5.16 and 15.2.5.20).

use super::Selector;
use super::component::components;
use crate::layout::{At, Bytes, bits, int, message};
use crate::mad::Rate;
use crate::span::Span;

message! {
    /// PathRecord: a path from one port to another. MTU and rate are codes; packet life time is 4.096 us * 2^n.
    #[derive(Copy)]
    PathRecord[64] {
        /// Service for which the path is used.
        service_id: u64 = int(0, 8),
        /// Destination GID.
        dgid: [u8; 16] = Bytes(8),
        /// Source GID.
        sgid: [u8; 16] = Bytes(24),
        /// Destination LID.
        dlid: u16 = int(40, 2),
        /// Source LID.
        slid: u16 = int(42, 2),
        /// For raw packets.
        raw_traffic: bool = bits(44, 0, 1),
        /// Flow label, 20 bits.
        flow_label: u32 = bits(44, 4, 20),
        /// Hop limit.
        hop_limit: u8 = int(47, 1),
        /// Traffic class.
        tclass: u8 = int(48, 1),
        /// The reverse path has the same properties.
        reversible: bool = bits(49, 0, 1),
        /// Maximum number of paths, 7 bits; 0 in responses.
        numb_path: u8 = bits(49, 1, 7),
        /// Partition.
        pkey: u16 = int(50, 2),
        /// Requested class of service, 12 bits.
        qos_class: u16 = bits(52, 0, 12),
        /// Service level, 4 bits.
        sl: u8 = bits(53, 4, 4),
        /// Meaning of the MTU in a query.
        mtu_selector: Selector = bits(54, 0, 2),
        /// MTU, 6 bits.
        mtu: u8 = bits(54, 2, 6),
        /// Meaning of the rate in a query.
        rate_selector: Selector = bits(55, 0, 2),
        /// Rate, 6 bits.
        rate: Rate = bits(55, 2, 6),
        /// Meaning of the packet life time in a query.
        packet_life_time_selector: Selector = bits(56, 0, 2),
        /// Packet life time, 6 bits.
        packet_life_time: u8 = bits(56, 2, 6),
        /// Preference among several paths: the smaller is better.
        preference: u8 = int(57, 1),
    }
}

components! {
    PathRecord {
        SERVICE_ID_MSB = 32, SERVICE_ID_LSB = 32, DGID = 128, SGID = 128, DLID = 16, SLID = 16, RAW_TRAFFIC = 1,
        RESERVED0 = 3, FLOW_LABEL = 20, HOP_LIMIT = 8, TCLASS = 8, REVERSIBLE = 1, NUMB_PATH = 7, PKEY = 16,
        QOS_CLASS = 12, SL = 4, MTU_SELECTOR = 2, MTU = 6, RATE_SELECTOR = 2, RATE = 6, PACKET_LIFE_TIME_SELECTOR = 2,
        PACKET_LIFE_TIME = 6, PREFERENCE = 8,
    }
}

/// Maximum number of GIDs in a multipath query that fits one datagram.
pub const MULTIPATH_GIDS_MAX: usize = 11;

/// The GIDs of a [`MultiPathRecord`].
#[derive(Clone, Copy)]
struct Gids;

impl Gids {
    const fn span(&self, _: usize) -> Span {
        Span::NONE
    }
}

impl At<[[u8; 16]; MULTIPATH_GIDS_MAX]> for Gids {
    fn take(&self, data: &[u8]) -> [[u8; 16]; MULTIPATH_GIDS_MAX] {
        std::array::from_fn(|index| Bytes(24 + 16 * index).take(data))
    }
    fn put(&self, data: &mut [u8], value: &[[u8; 16]; MULTIPATH_GIDS_MAX]) {
        value.iter().enumerate().for_each(|(index, gid)| Bytes(24 + 16 * index).put(data, gid));
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        vec![(24 * 8, MULTIPATH_GIDS_MAX * 128)]
    }
}

message! {
    /// MultiPathRecord: a query for paths between several ports, answered by [`PathRecord`]s.
    #[derive(Copy)]
    MultiPathRecord[200] {
        /// For raw packets.
        raw_traffic: bool = bits(0, 0, 1),
        /// Flow label, 20 bits.
        flow_label: u32 = bits(0, 4, 20),
        /// Hop limit.
        hop_limit: u8 = int(3, 1),
        /// Traffic class.
        tclass: u8 = int(4, 1),
        /// The reverse path has the same properties.
        reversible: bool = bits(5, 0, 1),
        /// Maximum number of paths, 7 bits.
        numb_path: u8 = bits(5, 1, 7),
        /// Partition.
        pkey: u16 = int(6, 2),
        /// Class of service, 12 bits.
        qos_class: u16 = bits(8, 0, 12),
        /// Service level, 4 bits.
        sl: u8 = bits(9, 4, 4),
        /// Meaning of the MTU in a query.
        mtu_selector: Selector = bits(10, 0, 2),
        /// MTU, 6 bits.
        mtu: u8 = bits(10, 2, 6),
        /// Meaning of the rate in a query.
        rate_selector: Selector = bits(11, 0, 2),
        /// Rate, 6 bits.
        rate: Rate = bits(11, 2, 6),
        /// Meaning of the packet life time in a query.
        packet_life_time_selector: Selector = bits(12, 0, 2),
        /// Packet life time, 6 bits.
        packet_life_time: u8 = bits(12, 2, 6),
        /// First byte of the service ID.
        service_id_msb: u8 = int(13, 1),
        /// Required independence of the paths, 2 bits.
        independence: u8 = bits(14, 0, 2),
        /// Number of source GIDs.
        sgid_count: u8 = int(15, 1),
        /// Number of destination GIDs.
        dgid_count: u8 = int(16, 1),
        /// The other seven bytes of the service ID.
        service_id_lsb: u64 = int(17, 7),
        /// Source GIDs, then destination GIDs.
        gids: [[u8; 16]; MULTIPATH_GIDS_MAX] = Gids,
    }
}

components! {
    MultiPathRecord {
        RAW_TRAFFIC = 1, RESERVED0 = 3, FLOW_LABEL = 20, HOP_LIMIT = 8, TCLASS = 8, REVERSIBLE = 1, NUMB_PATH = 7,
        PKEY = 16, QOS_CLASS = 12, SL = 4, MTU_SELECTOR = 2, MTU = 6, RATE_SELECTOR = 2, RATE = 6,
        PACKET_LIFE_TIME_SELECTOR = 2, PACKET_LIFE_TIME = 6, SERVICE_ID_MSB = 8, INDEPENDENCE = 2, RESERVED3 = 6,
        SGID_COUNT = 8, DGID_COUNT = 8, SERVICE_ID_LSB = 56,
    }
}
