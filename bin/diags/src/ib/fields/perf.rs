//! Attributes of performance management (IBA 16.1.4), under the names that the tools print.

use crate::ib::field::{Field, numbered};
use crate::ib::fields::table;

/// ClassPortInfo, of every class: the fields in use.
pub mod class_port_info {
    use crate::ib::field::{Field, field};
    use crate::ib::format::Format::{Hex, Uint};

    /// `CapabilityMask`
    pub const CAPABILITY_MASK: Field = field("CapabilityMask", 16, 16, Hex);
    /// `CapabilityMask2`
    pub const CAPABILITY_MASK2: Field = field("CapabilityMask2", 32, 27, Hex);
    /// `RedirectSL`
    pub const REDIRECT_SL: Field = field("RedirectSL", 200, 4, Uint);
    /// `RedirectLID`
    pub const REDIRECT_LID: Field = field("RedirectLID", 224, 16, Uint);
    /// `RedirectQP`
    pub const REDIRECT_QP: Field = field("RedirectQP", 264, 24, Hex);
    /// `RedirectQKey`
    pub const REDIRECT_Q_KEY: Field = field("RedirectQKey", 288, 32, Hex);
}

/// PortCounters.
pub mod port_counters {
    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL {
            PORT_SELECT = "PortSelect" 8 8 Uint;
            COUNTER_SELECT = "CounterSelect" 16 16 Hex;
            SYMBOL_ERROR_COUNTER = "SymbolErrorCounter" 32 16 Uint;
            LINK_ERROR_RECOVERY_COUNTER = "LinkErrorRecoveryCounter" 48 8 Uint;
            LINK_DOWNED_COUNTER = "LinkDownedCounter" 56 8 Uint;
            PORT_RCV_ERRORS = "PortRcvErrors" 64 16 Uint;
            PORT_RCV_REMOTE_PHYSICAL_ERRORS = "PortRcvRemotePhysicalErrors" 80 16 Uint;
            PORT_RCV_SWITCH_RELAY_ERRORS = "PortRcvSwitchRelayErrors" 96 16 Uint;
            PORT_XMIT_DISCARDS = "PortXmitDiscards" 112 16 Uint;
            PORT_XMIT_CONSTRAINT_ERRORS = "PortXmitConstraintErrors" 128 8 Uint;
            PORT_RCV_CONSTRAINT_ERRORS = "PortRcvConstraintErrors" 136 8 Uint;
            COUNTER_SELECT2 = "CounterSelect2" 144 8 Hex;
            LOCAL_LINK_INTEGRITY_ERRORS = "LocalLinkIntegrityErrors" 152 4 Uint;
            EXCESSIVE_BUFFER_OVERRUN_ERRORS = "ExcessiveBufferOverrunErrors" 156 4 Uint;
            QP1_DROPPED = "QP1Dropped" 160 16 Uint;
            VL15_DROPPED = "VL15Dropped" 176 16 Uint;
            PORT_XMIT_DATA = "PortXmitData" 192 32 Uint;
            PORT_RCV_DATA = "PortRcvData" 224 32 Uint;
            PORT_XMIT_PKTS = "PortXmitPkts" 256 32 Uint;
            PORT_RCV_PKTS = "PortRcvPkts" 288 32 Uint;
            PORT_XMIT_WAIT = "PortXmitWait" 320 32 Uint;
        }
    }
}

/// PortCountersExtended.
pub mod port_counters_extended {
    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL {
            PORT_SELECT = "PortSelect" 8 8 Uint;
            COUNTER_SELECT = "CounterSelect" 16 16 Hex;
            PORT_XMIT_DATA = "PortXmitData" 64 64 Uint;
            PORT_RCV_DATA = "PortRcvData" 128 64 Uint;
            PORT_XMIT_PKTS = "PortXmitPkts" 192 64 Uint;
            PORT_RCV_PKTS = "PortRcvPkts" 256 64 Uint;
            PORT_UNICAST_XMIT_PKTS = "PortUnicastXmitPkts" 320 64 Uint;
            PORT_UNICAST_RCV_PKTS = "PortUnicastRcvPkts" 384 64 Uint;
            PORT_MULTICAST_XMIT_PKTS = "PortMulticastXmitPkts" 448 64 Uint;
            PORT_MULTICAST_RCV_PKTS = "PortMulticastRcvPkts" 512 64 Uint;
            COUNTER_SELECT2 = "CounterSelect2" 32 32 Hex;
            SYMBOL_ERROR_COUNTER = "SymbolErrorCounter" 576 64 Uint;
            LINK_ERROR_RECOVERY_COUNTER = "LinkErrorRecoveryCounter" 640 64 Uint;
            LINK_DOWNED_COUNTER = "LinkDownedCounter" 704 64 Uint;
            PORT_RCV_ERRORS = "PortRcvErrors" 768 64 Uint;
            PORT_RCV_REMOTE_PHYSICAL_ERRORS = "PortRcvRemotePhysicalErrors" 832 64 Uint;
            PORT_RCV_SWITCH_RELAY_ERRORS = "PortRcvSwitchRelayErrors" 896 64 Uint;
            PORT_XMIT_DISCARDS = "PortXmitDiscards" 960 64 Uint;
            PORT_XMIT_CONSTRAINT_ERRORS = "PortXmitConstraintErrors" 1024 64 Uint;
            PORT_RCV_CONSTRAINT_ERRORS = "PortRcvConstraintErrors" 1088 64 Uint;
            LOCAL_LINK_INTEGRITY_ERRORS = "LocalLinkIntegrityErrors" 1152 64 Uint;
            EXCESSIVE_BUFFER_OVERRUN_ERRORS = "ExcessiveBufferOverrunErrors" 1216 64 Uint;
            VL15_DROPPED = "VL15Dropped" 1280 64 Uint;
            PORT_XMIT_WAIT = "PortXmitWait" 1344 64 Uint;
            QP1_DROPPED = "QP1Dropped" 1408 64 Uint;
        }
    }
}

/// The first two fields of each detail attribute.
pub const SELECTS: &[Field] = &[port_counters_extended::PORT_SELECT, port_counters_extended::COUNTER_SELECT];

/// PortXmitDataSL.
pub const XMIT_DATA_SL: [Field; 16] = numbered("XmtDataSL", 32, 32);
/// PortRcvDataSL.
pub const RCV_DATA_SL: [Field; 16] = numbered("RcvDataSL", 32, 32);
/// PortVLOpPackets.
pub const VL_OP_PACKETS: [Field; 16] = numbered("PortVLOpPackets", 32, 16);
/// PortVLOpData.
pub const VL_OP_DATA: [Field; 16] = numbered("PortVLOpData", 32, 32);
/// PortVLXmitFlowCtlUpdateErrors.
pub const VL_XMIT_FLOW_CTL_UPDATE_ERRORS: [Field; 16] = numbered("PortVLXmitFlowCtlUpdateErrors", 32, 2);
/// PortVLXmitWaitCounters.
pub const VL_XMIT_WAIT: [Field; 16] = numbered("PortVLXmitWait", 32, 16);
/// SwPortVLCongestion.
pub const SW_PORT_VL_CONGESTION: [Field; 16] = numbered("SWPortVLCongestion", 32, 16);
/// PortSLRcvFECN.
pub const SL_RCV_FECN: [Field; 16] = numbered("PortSLRcvFECN", 32, 32);
/// PortSLRcvBECN.
pub const SL_RCV_BECN: [Field; 16] = numbered("PortSLRcvBECN", 32, 32);
/// PortVLXmitTimeCong.
pub const VL_XMIT_TIME_CONG: [Field; 15] = numbered("PortVLXmitTimeCong", 32, 32);

table! {
    /// PortXmitDiscardDetails.
    XMIT_DISCARD_DETAILS {
        INACTIVE_DISCARDS = "PortInactiveDiscards" 32 16 Uint;
        NEIGHBOR_MTU_DISCARDS = "PortNeighborMTUDiscards" 48 16 Uint;
        SW_LIFETIME_LIMIT_DISCARDS = "PortSwLifetimeLimitDiscards" 64 16 Uint;
        SW_HOQ_LIFETIME_LIMIT_DISCARDS = "PortSwHOQLifetimeLimitDiscards" 80 16 Uint;
    }
}
table! {
    /// PortRcvErrorDetails.
    RCV_ERROR_DETAILS {
        LOCAL_PHYSICAL_ERRORS = "PortLocalPhysicalErrors" 32 16 Uint;
        MALFORMED_PKT_ERRORS = "PortMalformedPktErrors" 48 16 Uint;
        BUFFER_OVERRUN_ERRORS = "PortBufferOverrunErrors" 64 16 Uint;
        DLID_MAPPING_ERRORS = "PortDLIDMappingErrors" 80 16 Uint;
        VL_MAPPING_ERRORS = "PortVLMappingErrors" 96 16 Uint;
        LOOPING_ERRORS = "PortLoopingErrors" 112 16 Uint;
    }
}
table! {
    /// PortOpRcvCounters.
    OP_RCV_COUNTERS {
        OP_RCV_PKTS = "PortOpRcvPkts" 32 32 Uint;
        OP_RCV_DATA = "PortOpRcvData" 64 32 Uint;
    }
}
table! {
    /// PortFlowCtlCounters.
    FLOW_CTL_COUNTERS {
        XMIT_FLOW_PKTS = "PortXmitFlowPkts" 32 32 Uint;
        RCV_FLOW_PKTS = "PortRcvFlowPkts" 64 32 Uint;
    }
}
table! {
    /// PortRcvConCtrl.
    RCV_CON_CTRL {
        PKT_RCV_FECN = "PortPktRcvFECN" 32 32 Uint;
        PKT_RCV_BECN = "PortPktRcvBECN" 64 32 Uint;
    }
}
table! {
    /// PortXmitConCtrl.
    XMIT_CON_CTRL {
        XMIT_TIME_CONG = "PortXmitTimeCong" 32 32 Uint;
    }
}

/// PortSamplesControl.
pub mod samples_control {
    use crate::ib::field::{Field, numbered};
    use crate::ib::fields::table;
    use crate::ib::format::Format;

    table! {
        /// The fields printed before the counter selections.
        HEAD {
            OP_CODE = "OpCode" 0 8 Hex;
            PORT_SELECT = "PortSelect" 8 8 Uint;
            TICK = "Tick" 16 8 Hex;
            COUNTER_WIDTH = "CounterWidth" 29 3 Uint;
            COUNTER_MASK0 = "CounterMask0" 34 3 Hex;
            COUNTER_MASKS1_TO_9 = "CounterMasks1to9" 37 27 Hex;
            COUNTER_MASKS10_TO_14 = "CounterMasks10to14" 65 15 Hex;
            SAMPLE_MECHANISMS = "SampleMechanisms" 80 8 Uint;
            SAMPLE_STATUS = "SampleStatus" 94 2 Uint;
            OPTION_MASK = "OptionMask" 96 64 Hex;
            VENDOR_MASK = "VendorMask" 160 64 Hex;
            SAMPLE_START = "SampleStart" 224 32 Uint;
            SAMPLE_INTERVAL = "SampleInterval" 256 32 Uint;
            TAG = "Tag" 288 16 Hex;
        }
    }
    table! {
        /// The fields printed after the counter selections.
        TAIL {
            SAMPLES_ONLY_OPTION_MASK = "SamplesOnlyOptionMask" 576 64 Hex;
        }
    }

    /// All fields, in printing order.
    pub fn all() -> Vec<Field> {
        let mut selects: [Field; 15] = numbered("CounterSelect", 304, 16);
        for select in &mut selects {
            select.format = Format::Hex;
        }
        [HEAD, &selects, TAIL].concat()
    }
}

/// PortExtendedSpeedsCounters, whose middle part depends on the forward error correction.
pub mod extended_speeds {
    use crate::ib::field::{Field, numbered};
    use crate::ib::fields::table;

    table! {
        /// The first fields of both forms.
        HEAD {
            PORT_SELECT = "PortSelect" 8 8 Uint;
            COUNTER_SELECT = "CounterSelect" 64 64 Hex;
            SYNC_HEADER_ERROR_COUNTER = "SyncHeaderErrorCounter" 128 16 Uint;
            UNKNOWN_BLOCK_COUNTER = "UnknownBlockCounter" 144 16 Uint;
        }
    }
    table! {
        /// The last fields of the RS-FEC form.
        RS_FEC_TAIL {
            CORRECTABLE_BLOCK_CTR = "PortFECCorrectableBlockCtr" 1120 32 Uint;
            UNCORRECTABLE_BLOCK_CTR = "PortFECUncorrectableBlockCtr" 1152 32 Uint;
            CORRECTED_SYMBOL_CTR = "PortFECCorrectedSymbolCtr" 1184 32 Uint;
        }
    }

    /// All fields without RS-FEC, in printing order.
    pub fn all() -> Vec<Field> {
        let detection: [Field; 12] = numbered("ErrorDetectionCounterLane", 160, 16);
        let correctable: [Field; 12] = numbered("FECCorrectableBlockCtrLane", 352, 32);
        let uncorrectable: [Field; 12] = numbered("FECUncorrectableBlockCtrLane", 736, 32);
        [HEAD, &detection, &correctable, &uncorrectable].concat()
    }

    /// All fields with RS-FEC, in printing order.
    pub fn all_rs_fec() -> Vec<Field> {
        let symbols: [Field; 12] = numbered("FECCorrectableSymbolCtrLane", 352, 32);
        [HEAD, &symbols, RS_FEC_TAIL].concat()
    }
}
