//! Counters that break down the sums in PortCounters (IBA 16.1.4). They saturate.

use crate::layout::{int, message};

message! {
    /// PortRcvErrorDetails.
    #[derive(Copy)]
    PortRcvErrorDetails[16] {
        /// Port.
        port_select: u8 = int(1, 1),
        /// In a Set: the counters that it changes, in their order from bit 0.
        counter_select: u16 = int(2, 2),
        /// Wrong CRC, length or link version, and similar errors.
        port_local_physical_errors: u16 = int(4, 2),
        /// Wrong virtual lane, wrong LID, or longer than the link's MTU.
        port_malformed_packet_errors: u16 = int(6, 2),
        /// Packets dropped for lack of buffers.
        port_buffer_overrun_errors: u16 = int(8, 2),
        /// Packets with a destination LID that the switch has no port for.
        port_dlid_mapping_errors: u16 = int(10, 2),
        /// Packets with a service level that has no virtual lane.
        port_vl_mapping_errors: u16 = int(12, 2),
        /// Packets routed back to the port on which they arrived.
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
        /// Packets dropped because the port was not active.
        port_inactive_discards: u16 = int(4, 2),
        /// Packets longer than the neighbour's MTU.
        port_neighbor_mtu_discards: u16 = int(6, 2),
        /// Packets that exceeded their lifetime in the switch.
        port_sw_lifetime_limit_discards: u16 = int(8, 2),
        /// Packets that exceeded their lifetime at the head of the queue.
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
    /// PortOpRcvCounters: packets received with the vendor-selected operation.
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
        /// Sent.
        port_xmit_flow_pkts,
        /// Received.
        port_rcv_flow_pkts
    }
}

pair! {
    /// PortRcvConCtrl: packets received with a congestion control bit.
    PortRcvConCtrl {
        /// With FECN.
        port_pkt_rcv_fecn,
        /// With BECN.
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
