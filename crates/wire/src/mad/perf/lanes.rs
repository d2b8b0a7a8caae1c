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
        /// Packets of the chosen operation, for each virtual lane.
        port_vl_op_packets: [u16; 16] of 16
    }
    /// PortVLOpData.
    PortVlOpData[68] {
        /// Data of the chosen operation in words of four bytes, for each virtual lane.
        port_vl_op_data: [u32; 16] of 32
    }
    /// PortVLXmitFlowCtlUpdateErrors.
    PortVlXmitFlowCtlUpdateErrors[8] {
        /// Invalid flow control updates, for each virtual lane, 2 bits each.
        port_vl_xmit_flow_ctl_update_errors: [u8; 16] of 2
    }
    /// PortVLXmitWaitCounters.
    PortVlXmitWaitCounters[36] {
        /// Ticks in which data waited and none could be sent, for each virtual lane.
        port_vl_xmit_wait: [u16; 16] of 16
    }
    /// SwPortVLCongestion.
    SwPortVlCongestion[36] {
        /// Packets dropped or marked for congestion, for each virtual lane.
        sw_port_vl_congestion: [u16; 16] of 16
    }
    /// PortSLRcvFECN.
    PortSlRcvFecn[68] {
        /// Packets received with FECN, for each service level.
        port_sl_rcv_fecn: [u32; 16] of 32
    }
    /// PortSLRcvBECN.
    PortSlRcvBecn[68] {
        /// Packets received with BECN, for each service level.
        port_sl_rcv_becn: [u32; 16] of 32
    }
    /// PortVLXmitTimeCong.
    PortVlXmitTimeCong[64] {
        /// Ticks of congestion, for each virtual lane.
        port_vl_xmit_time_cong: [u32; 15] of 32
    }
    /// PortXmitDataSL.
    PortXmitDataSl[68] {
        /// Data sent in words of four bytes, for each service level.
        xmit_data_sl: [u32; 16] of 32
    }
    /// PortRcvDataSL.
    PortRcvDataSl[68] {
        /// Data received in words of four bytes, for each service level.
        rcv_data_sl: [u32; 16] of 32
    }
}
