//! Counters by virtual lane or by service level (IBA 16.1.4).

use crate::layout::{array, int, message};

macro_rules! by_lane {
    ($($(#[$doc:meta])* $name:ident[$len:expr] { $(#[$field_doc:meta])* $field:ident: [$ty:ty; $n:expr] of $width:expr })*) => {$(
        message! {
            $(#[$doc])*
            #[derive(Copy)]
            $name[$len] {
                /// Port.
                port_select: u8 = int(1, 1),
                /// In a Set: the counters that it changes, in their order from bit 0.
                counter_select: u16 = int(2, 2),
                $(#[$field_doc])* $field: [$ty; $n] = array(4, $width),
            }
        }
    )*};
}

by_lane! {
    /// PortVLOpPackets.
    PortVlOpPackets[36] {
        /// Packets of the chosen operation, a virtual lane.
        port_vl_op_packets: [u16; 16] of 16
    }
    /// PortVLOpData.
    PortVlOpData[68] {
        /// Data of the chosen operation in words of four bytes, a virtual lane.
        port_vl_op_data: [u32; 16] of 32
    }
    /// PortVLXmitFlowCtlUpdateErrors.
    PortVlXmitFlowCtlUpdateErrors[8] {
        /// Flow control updates that were wrong, a virtual lane, 2 bits each.
        port_vl_xmit_flow_ctl_update_errors: [u8; 16] of 2
    }
    /// PortVLXmitWaitCounters.
    PortVlXmitWaitCounters[36] {
        /// Ticks in which there was something to send and nothing could be, a virtual lane.
        port_vl_xmit_wait: [u16; 16] of 16
    }
    /// SwPortVLCongestion.
    SwPortVlCongestion[36] {
        /// Packets dropped or marked for congestion, a virtual lane.
        sw_port_vl_congestion: [u16; 16] of 16
    }
    /// PortSLRcvFECN.
    PortSlRcvFecn[68] {
        /// Packets that came with forward congestion, a service level.
        port_sl_rcv_fecn: [u32; 16] of 32
    }
    /// PortSLRcvBECN.
    PortSlRcvBecn[68] {
        /// Packets that came with backward congestion, a service level.
        port_sl_rcv_becn: [u32; 16] of 32
    }
    /// PortVLXmitTimeCong.
    PortVlXmitTimeCong[64] {
        /// Ticks of congestion, a virtual lane.
        port_vl_xmit_time_cong: [u32; 15] of 32
    }
    /// PortXmitDataSL.
    PortXmitDataSl[68] {
        /// Data that left in words of four bytes, a service level.
        xmit_data_sl: [u32; 16] of 32
    }
    /// PortRcvDataSL.
    PortRcvDataSl[68] {
        /// Data that came in words of four bytes, a service level.
        rcv_data_sl: [u32; 16] of 32
    }
}
