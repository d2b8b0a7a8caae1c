//! Counters that say more of what PortCounters adds up (IBA 16.1.4). They stop at their top.

use crate::layout::{int, message};

message! {
    /// PortRcvErrorDetails.
    #[derive(Copy)]
    PortRcvErrorDetails[16] {
        /// Port.
        port_select: u8 = int(1, 1),
        /// In a Set: the counters that it changes, in their order from bit 0.
        counter_select: u16 = int(2, 2),
        /// Wrong CRC, wrong length, wrong link version and the like.
        port_local_physical_errors: u16 = int(4, 2),
        /// Wrong virtual lane, wrong LID, more than the link's MTU.
        port_malformed_packet_errors: u16 = int(6, 2),
        /// Packets that found no room.
        port_buffer_overrun_errors: u16 = int(8, 2),
        /// Destination LIDs that the switch has no port for.
        port_dlid_mapping_errors: u16 = int(10, 2),
        /// Service levels that have no virtual lane.
        port_vl_mapping_errors: u16 = int(12, 2),
        /// Packets that would leave by the port that they came in by.
        port_looping_errors: u16 = int(14, 2),
    }
}

message! {
    /// PortXmitDiscardDetails.
    #[derive(Copy)]
    PortXmitDiscardDetails[12] {
        /// Port.
        port_select: u8 = int(1, 1),
        /// In a Set: the counters that it changes, in their order from bit 0.
        counter_select: u16 = int(2, 2),
        /// The port was not active.
        port_inactive_discards: u16 = int(4, 2),
        /// Longer than the MTU of the neighbour.
        port_neighbor_mtu_discards: u16 = int(6, 2),
        /// Too long in the switch.
        port_sw_lifetime_limit_discards: u16 = int(8, 2),
        /// Too long at the head of the queue.
        port_sw_hoq_lifetime_limit_discards: u16 = int(10, 2),
    }
}

macro_rules! pair {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident, $(#[$second_doc:meta])* $second:ident }) => {
        message! {
            $(#[$doc])*
            #[derive(Copy)]
            $name[12] {
                /// Port.
                port_select: u8 = int(1, 1),
                /// In a Set: the counters that it changes, in their order from bit 0.
                counter_select: u16 = int(2, 2),
                $(#[$first_doc])* $first: u32 = int(4, 4),
                $(#[$second_doc])* $second: u32 = int(8, 4),
            }
        }
    };
}

pair! {
    /// PortOpRcvCounters: what came with the operation that the vendor chose.
    PortOpRcvCounters {
        /// Packets.
        port_op_rcv_pkts,
        /// Data in words of four bytes.
        port_op_rcv_data
    }
}

pair! {
    /// PortFlowCtlCounters: packets of link level flow control.
    PortFlowCtlCounters {
        /// That left.
        port_xmit_flow_pkts,
        /// That came.
        port_rcv_flow_pkts
    }
}

pair! {
    /// PortRcvConCtrl: packets that came with a bit of congestion control.
    PortRcvConCtrl {
        /// Forward.
        port_pkt_rcv_fecn,
        /// Backward.
        port_pkt_rcv_becn
    }
}

message! {
    /// PortXmitConCtrl.
    #[derive(Copy)]
    PortXmitConCtrl[8] {
        /// Port.
        port_select: u8 = int(1, 1),
        /// In a Set: the counter that it changes, bit 0.
        counter_select: u16 = int(2, 2),
        /// Ticks in which the port was congested.
        port_xmit_time_cong: u32 = int(4, 4),
    }
}
