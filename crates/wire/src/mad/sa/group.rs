//! Multicast groups and their members (IBA 15.2.5.17).

use super::component::components;
use crate::layout::{Bytes, bits, int, message, open};
use crate::mad::Rate;

open! {
    /// Meaning of the MTU, rate or packet life time in a query, 2 bits.
    Selector(u8) {
        GREATER_THAN = 0, "greater than";
        LESS_THAN = 1, "less than";
        EXACTLY = 2, "exactly";
        /// The largest MTU or rate, the smallest packet life time.
        BEST = 3, "the best there is";
    }
}

bitflags::bitflags! {
    /// Membership of a port in a group, 4 bits.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct JoinState: u8 {
        /// Sends and receives, and keeps the group alive.
        const FULL_MEMBER = 1;
        /// Sends and receives, but does not keep the group alive.
        const NON_MEMBER = 2;
        /// Sends, but does not keep the group alive.
        const SEND_ONLY_NON_MEMBER = 4;
        /// Sends, and keeps the group alive.
        const SEND_ONLY_FULL_MEMBER = 8;
    }
}

crate::layout::flags!(JoinState(u8));

message! {
    /// MCMemberRecord: a multicast group, and a member port. MTU and rate are codes; packet life time is 4.096 us *
    /// 2^n.
    #[derive(Copy)]
    McMemberRecord[52] {
        /// GID of the group.
        mgid: [u8; 16] = Bytes(0),
        /// GID of the port.
        port_gid: [u8; 16] = Bytes(16),
        /// Q_Key.
        qkey: u32 = int(32, 4),
        /// LID of the group.
        mlid: u16 = int(36, 2),
        /// Meaning of the MTU in a query.
        mtu_selector: Selector = bits(38, 0, 2),
        /// MTU, 6 bits.
        mtu: u8 = bits(38, 2, 6),
        /// Traffic class.
        tclass: u8 = int(39, 1),
        /// Partition.
        pkey: u16 = int(40, 2),
        /// Meaning of the rate in a query.
        rate_selector: Selector = bits(42, 0, 2),
        /// Rate, 6 bits.
        rate: Rate = bits(42, 2, 6),
        /// Meaning of the packet life time in a query.
        packet_life_time_selector: Selector = bits(43, 0, 2),
        /// Packet life time, 6 bits.
        packet_life_time: u8 = bits(43, 2, 6),
        /// Service level, 4 bits.
        sl: u8 = bits(44, 0, 4),
        /// Flow label, 20 bits.
        flow_label: u32 = bits(44, 4, 20),
        /// Hop limit.
        hop_limit: u8 = int(47, 1),
        /// Scope of the group, 4 bits.
        scope: u8 = bits(48, 0, 4),
        /// Membership of the port.
        join_state: JoinState = bits(48, 4, 4),
        /// A proxy joined on behalf of the port.
        proxy_join: bool = bits(49, 0, 1),
    }
}

components! {
    McMemberRecord {
        MGID = 128, PORT_GID = 128, QKEY = 32, MLID = 16, MTU_SELECTOR = 2, MTU = 6, TCLASS = 8, PKEY = 16,
        RATE_SELECTOR = 2, RATE = 6, PACKET_LIFE_TIME_SELECTOR = 2, PACKET_LIFE_TIME = 6, SL = 4, FLOW_LABEL = 20,
        HOP_LIMIT = 8, SCOPE = 4, JOIN_STATE = 4, PROXY_JOIN = 1,
    }
}
