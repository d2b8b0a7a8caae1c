//! Attributes of performance management (IBA 16.1.4), under the names that the tools print.

use weft_wire::mad::perf::{
    PortFlowCtlCounters, PortOpRcvCounters, PortRcvConCtrl, PortRcvDataSl, PortRcvErrorDetails, PortSlRcvBecn,
    PortSlRcvFecn, PortVlOpData, PortVlOpPackets, PortVlXmitFlowCtlUpdateErrors, PortVlXmitTimeCong,
    PortVlXmitWaitCounters, PortXmitConCtrl, PortXmitDataSl, PortXmitDiscardDetails, SwPortVlCongestion,
};
use weft_wire::span;

use crate::ib::field::{Field, numbered};
use crate::ib::fields::table;

/// ClassPortInfo, of every class: the fields in use.
pub mod class_port_info {
    use weft_wire::mad::ClassPortInfo;
    use weft_wire::span;

    use crate::ib::field::{Field, field};
    use crate::ib::format::Format::{Hex, Uint};

    /// `CapabilityMask`
    pub const CAPABILITY_MASK: Field = field("CapabilityMask", span!(ClassPortInfo.capability_mask), Hex);
    /// `CapabilityMask2`
    pub const CAPABILITY_MASK2: Field = field("CapabilityMask2", span!(ClassPortInfo.capability_mask2), Hex);
    /// `RedirectSL`
    pub const REDIRECT_SL: Field = field("RedirectSL", span!(ClassPortInfo.redirect_sl), Uint);
    /// `RedirectLID`
    pub const REDIRECT_LID: Field = field("RedirectLID", span!(ClassPortInfo.redirect_lid), Uint);
    /// `RedirectQP`
    pub const REDIRECT_QP: Field = field("RedirectQP", span!(ClassPortInfo.redirect_qp), Hex);
    /// `RedirectQKey`
    pub const REDIRECT_Q_KEY: Field = field("RedirectQKey", span!(ClassPortInfo.redirect_qkey), Hex);
}

/// PortCounters.
pub mod port_counters {
    use weft_wire::mad::perf::PortCounters;

    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL of PortCounters {
            PORT_SELECT = "PortSelect" port_select Uint;
            COUNTER_SELECT = "CounterSelect" counter_select Hex;
            SYMBOL_ERROR_COUNTER = "SymbolErrorCounter" symbol_error_counter Uint;
            LINK_ERROR_RECOVERY_COUNTER = "LinkErrorRecoveryCounter" link_error_recovery_counter Uint;
            LINK_DOWNED_COUNTER = "LinkDownedCounter" link_downed_counter Uint;
            PORT_RCV_ERRORS = "PortRcvErrors" port_rcv_errors Uint;
            PORT_RCV_REMOTE_PHYSICAL_ERRORS = "PortRcvRemotePhysicalErrors" port_rcv_remote_physical_errors Uint;
            PORT_RCV_SWITCH_RELAY_ERRORS = "PortRcvSwitchRelayErrors" port_rcv_switch_relay_errors Uint;
            PORT_XMIT_DISCARDS = "PortXmitDiscards" port_xmit_discards Uint;
            PORT_XMIT_CONSTRAINT_ERRORS = "PortXmitConstraintErrors" port_xmit_constraint_errors Uint;
            PORT_RCV_CONSTRAINT_ERRORS = "PortRcvConstraintErrors" port_rcv_constraint_errors Uint;
            COUNTER_SELECT2 = "CounterSelect2" counter_select2 Hex;
            LOCAL_LINK_INTEGRITY_ERRORS = "LocalLinkIntegrityErrors" local_link_integrity_errors Uint;
            EXCESSIVE_BUFFER_OVERRUN_ERRORS = "ExcessiveBufferOverrunErrors" excessive_buffer_overrun_errors Uint;
            QP1_DROPPED = "QP1Dropped" qp1_dropped Uint;
            VL15_DROPPED = "VL15Dropped" vl15_dropped Uint;
            PORT_XMIT_DATA = "PortXmitData" port_xmit_data Uint;
            PORT_RCV_DATA = "PortRcvData" port_rcv_data Uint;
            PORT_XMIT_PKTS = "PortXmitPkts" port_xmit_pkts Uint;
            PORT_RCV_PKTS = "PortRcvPkts" port_rcv_pkts Uint;
            PORT_XMIT_WAIT = "PortXmitWait" port_xmit_wait Uint;
        }
    }
}

/// PortCountersExtended.
pub mod port_counters_extended {
    use weft_wire::mad::perf::PortCountersExtended;

    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL of PortCountersExtended {
            PORT_SELECT = "PortSelect" port_select Uint;
            COUNTER_SELECT = "CounterSelect" counter_select Hex;
            PORT_XMIT_DATA = "PortXmitData" port_xmit_data Uint;
            PORT_RCV_DATA = "PortRcvData" port_rcv_data Uint;
            PORT_XMIT_PKTS = "PortXmitPkts" port_xmit_pkts Uint;
            PORT_RCV_PKTS = "PortRcvPkts" port_rcv_pkts Uint;
            PORT_UNICAST_XMIT_PKTS = "PortUnicastXmitPkts" port_unicast_xmit_pkts Uint;
            PORT_UNICAST_RCV_PKTS = "PortUnicastRcvPkts" port_unicast_rcv_pkts Uint;
            PORT_MULTICAST_XMIT_PKTS = "PortMulticastXmitPkts" port_multicast_xmit_pkts Uint;
            PORT_MULTICAST_RCV_PKTS = "PortMulticastRcvPkts" port_multicast_rcv_pkts Uint;
            COUNTER_SELECT2 = "CounterSelect2" counter_select2 Hex;
            SYMBOL_ERROR_COUNTER = "SymbolErrorCounter" symbol_error_counter Uint;
            LINK_ERROR_RECOVERY_COUNTER = "LinkErrorRecoveryCounter" link_error_recovery_counter Uint;
            LINK_DOWNED_COUNTER = "LinkDownedCounter" link_downed_counter Uint;
            PORT_RCV_ERRORS = "PortRcvErrors" port_rcv_errors Uint;
            PORT_RCV_REMOTE_PHYSICAL_ERRORS = "PortRcvRemotePhysicalErrors" port_rcv_remote_physical_errors Uint;
            PORT_RCV_SWITCH_RELAY_ERRORS = "PortRcvSwitchRelayErrors" port_rcv_switch_relay_errors Uint;
            PORT_XMIT_DISCARDS = "PortXmitDiscards" port_xmit_discards Uint;
            PORT_XMIT_CONSTRAINT_ERRORS = "PortXmitConstraintErrors" port_xmit_constraint_errors Uint;
            PORT_RCV_CONSTRAINT_ERRORS = "PortRcvConstraintErrors" port_rcv_constraint_errors Uint;
            LOCAL_LINK_INTEGRITY_ERRORS = "LocalLinkIntegrityErrors" local_link_integrity_errors Uint;
            EXCESSIVE_BUFFER_OVERRUN_ERRORS = "ExcessiveBufferOverrunErrors" excessive_buffer_overrun_errors Uint;
            VL15_DROPPED = "VL15Dropped" vl15_dropped Uint;
            PORT_XMIT_WAIT = "PortXmitWait" port_xmit_wait Uint;
            QP1_DROPPED = "QP1Dropped" qp1_dropped Uint;
        }
    }
}

/// The first two fields of each detail attribute.
pub const SELECTS: &[Field] = &[port_counters_extended::PORT_SELECT, port_counters_extended::COUNTER_SELECT];

/// PortXmitDataSL.
pub const XMIT_DATA_SL: [Field; 16] = numbered("XmtDataSL", span!(PortXmitDataSl.xmit_data_sl));
/// PortRcvDataSL.
pub const RCV_DATA_SL: [Field; 16] = numbered("RcvDataSL", span!(PortRcvDataSl.rcv_data_sl));
/// PortVLOpPackets.
pub const VL_OP_PACKETS: [Field; 16] = numbered("PortVLOpPackets", span!(PortVlOpPackets.port_vl_op_packets));
/// PortVLOpData.
pub const VL_OP_DATA: [Field; 16] = numbered("PortVLOpData", span!(PortVlOpData.port_vl_op_data));
/// PortVLXmitFlowCtlUpdateErrors.
pub const VL_XMIT_FLOW_CTL_UPDATE_ERRORS: [Field; 16] =
    numbered("PortVLXmitFlowCtlUpdateErrors", span!(PortVlXmitFlowCtlUpdateErrors.port_vl_xmit_flow_ctl_update_errors));
/// PortVLXmitWaitCounters.
pub const VL_XMIT_WAIT: [Field; 16] = numbered("PortVLXmitWait", span!(PortVlXmitWaitCounters.port_vl_xmit_wait));
/// SwPortVLCongestion.
pub const SW_PORT_VL_CONGESTION: [Field; 16] =
    numbered("SWPortVLCongestion", span!(SwPortVlCongestion.sw_port_vl_congestion));
/// PortSLRcvFECN.
pub const SL_RCV_FECN: [Field; 16] = numbered("PortSLRcvFECN", span!(PortSlRcvFecn.port_sl_rcv_fecn));
/// PortSLRcvBECN.
pub const SL_RCV_BECN: [Field; 16] = numbered("PortSLRcvBECN", span!(PortSlRcvBecn.port_sl_rcv_becn));
/// PortVLXmitTimeCong.
pub const VL_XMIT_TIME_CONG: [Field; 15] =
    numbered("PortVLXmitTimeCong", span!(PortVlXmitTimeCong.port_vl_xmit_time_cong));

table! {
    /// PortXmitDiscardDetails.
    XMIT_DISCARD_DETAILS of PortXmitDiscardDetails {
        INACTIVE_DISCARDS = "PortInactiveDiscards" port_inactive_discards Uint;
        NEIGHBOR_MTU_DISCARDS = "PortNeighborMTUDiscards" port_neighbor_mtu_discards Uint;
        SW_LIFETIME_LIMIT_DISCARDS = "PortSwLifetimeLimitDiscards" port_sw_lifetime_limit_discards Uint;
        SW_HOQ_LIFETIME_LIMIT_DISCARDS = "PortSwHOQLifetimeLimitDiscards" port_sw_hoq_lifetime_limit_discards Uint;
    }
}
table! {
    /// PortRcvErrorDetails.
    RCV_ERROR_DETAILS of PortRcvErrorDetails {
        LOCAL_PHYSICAL_ERRORS = "PortLocalPhysicalErrors" port_local_physical_errors Uint;
        MALFORMED_PKT_ERRORS = "PortMalformedPktErrors" port_malformed_packet_errors Uint;
        BUFFER_OVERRUN_ERRORS = "PortBufferOverrunErrors" port_buffer_overrun_errors Uint;
        DLID_MAPPING_ERRORS = "PortDLIDMappingErrors" port_dlid_mapping_errors Uint;
        VL_MAPPING_ERRORS = "PortVLMappingErrors" port_vl_mapping_errors Uint;
        LOOPING_ERRORS = "PortLoopingErrors" port_looping_errors Uint;
    }
}
table! {
    /// PortOpRcvCounters.
    OP_RCV_COUNTERS of PortOpRcvCounters {
        OP_RCV_PKTS = "PortOpRcvPkts" port_op_rcv_pkts Uint;
        OP_RCV_DATA = "PortOpRcvData" port_op_rcv_data Uint;
    }
}
table! {
    /// PortFlowCtlCounters.
    FLOW_CTL_COUNTERS of PortFlowCtlCounters {
        XMIT_FLOW_PKTS = "PortXmitFlowPkts" port_xmit_flow_pkts Uint;
        RCV_FLOW_PKTS = "PortRcvFlowPkts" port_rcv_flow_pkts Uint;
    }
}
table! {
    /// PortRcvConCtrl.
    RCV_CON_CTRL of PortRcvConCtrl {
        PKT_RCV_FECN = "PortPktRcvFECN" port_pkt_rcv_fecn Uint;
        PKT_RCV_BECN = "PortPktRcvBECN" port_pkt_rcv_becn Uint;
    }
}
table! {
    /// PortXmitConCtrl.
    XMIT_CON_CTRL of PortXmitConCtrl {
        XMIT_TIME_CONG = "PortXmitTimeCong" port_xmit_time_cong Uint;
    }
}

/// PortSamplesControl.
pub mod samples_control {
    use weft_wire::mad::perf::PortSamplesControl;
    use weft_wire::span;

    use crate::ib::field::{Field, numbered};
    use crate::ib::fields::table;
    use crate::ib::format::Format;

    table! {
        /// The fields printed before the counter selections.
        HEAD of PortSamplesControl {
            OP_CODE = "OpCode" op_code Hex;
            PORT_SELECT = "PortSelect" port_select Uint;
            TICK = "Tick" tick Hex;
            COUNTER_WIDTH = "CounterWidth" counter_width Uint;
            COUNTER_MASK0 = "CounterMask0" counter_mask0 Hex;
            COUNTER_MASKS1_TO_9 = "CounterMasks1to9" counter_masks1_to_9 Hex;
            COUNTER_MASKS10_TO_14 = "CounterMasks10to14" counter_masks10_to_14 Hex;
            SAMPLE_MECHANISMS = "SampleMechanisms" sample_mechanisms Uint;
            SAMPLE_STATUS = "SampleStatus" sample_status Uint;
            OPTION_MASK = "OptionMask" option_mask Hex;
            VENDOR_MASK = "VendorMask" vendor_mask Hex;
            SAMPLE_START = "SampleStart" sample_start Uint;
            SAMPLE_INTERVAL = "SampleInterval" sample_interval Uint;
            TAG = "Tag" tag Hex;
        }
    }
    table! {
        /// The fields printed after the counter selections.
        TAIL of PortSamplesControl {
            SAMPLES_ONLY_OPTION_MASK = "SamplesOnlyOptionMask" samples_only_option_mask Hex;
        }
    }

    /// All fields, in printing order.
    pub fn all() -> Vec<Field> {
        let mut selects: [Field; 15] = numbered("CounterSelect", span!(PortSamplesControl.counter_select));
        for select in &mut selects {
            select.format = Format::Hex;
        }
        [HEAD, &selects, TAIL].concat()
    }
}

/// PortExtendedSpeedsCounters, whose middle part depends on the forward error correction.
pub mod extended_speeds {
    use weft_wire::mad::perf::PortExtendedSpeedsCounters;
    use weft_wire::span;

    use crate::ib::field::{Field, numbered};
    use crate::ib::fields::table;

    table! {
        /// The first fields of both forms.
        HEAD of PortExtendedSpeedsCounters {
            PORT_SELECT = "PortSelect" port_select Uint;
            COUNTER_SELECT = "CounterSelect" counter_select Hex;
            SYNC_HEADER_ERROR_COUNTER = "SyncHeaderErrorCounter" sync_header_error_counter Uint;
            UNKNOWN_BLOCK_COUNTER = "UnknownBlockCounter" unknown_block_counter Uint;
        }
    }
    table! {
        /// The last fields of the RS-FEC form.
        RS_FEC_TAIL of PortExtendedSpeedsCounters {
            CORRECTABLE_BLOCK_CTR = "PortFECCorrectableBlockCtr" port_fec_correctable_block_ctr Uint;
            UNCORRECTABLE_BLOCK_CTR = "PortFECUncorrectableBlockCtr" port_fec_uncorrectable_block_ctr Uint;
            CORRECTED_SYMBOL_CTR = "PortFECCorrectedSymbolCtr" port_fec_corrected_symbol_ctr Uint;
        }
    }

    /// All fields without RS-FEC, in printing order.
    pub fn all() -> Vec<Field> {
        let detection: [Field; 12] =
            numbered("ErrorDetectionCounterLane", span!(PortExtendedSpeedsCounters.error_detection_counter_lane));
        let correctable: [Field; 12] =
            numbered("FECCorrectableBlockCtrLane", span!(PortExtendedSpeedsCounters.fec_correctable_block_ctr_lane));
        let uncorrectable: [Field; 12] = numbered(
            "FECUncorrectableBlockCtrLane",
            span!(PortExtendedSpeedsCounters.fec_uncorrectable_block_ctr_lane),
        );
        [HEAD, &detection, &correctable, &uncorrectable].concat()
    }

    /// All fields with RS-FEC, in printing order.
    pub fn all_rs_fec() -> Vec<Field> {
        let symbols: [Field; 12] =
            numbered("FECCorrectableSymbolCtrLane", span!(PortExtendedSpeedsCounters.fec_correctable_block_ctr_lane));
        [HEAD, &symbols, RS_FEC_TAIL].concat()
    }
}
