//! Performance management (IBA 16.1): port counters.

mod counters;
mod details;
mod extended;
mod lanes;
mod samples;

pub use counters::{CounterSelect, PortCounters};
pub use details::{
    PortFlowCtlCounters, PortOpRcvCounters, PortRcvConCtrl, PortRcvErrorDetails, PortXmitConCtrl,
    PortXmitDiscardDetails,
};
pub use extended::{PortCountersExtended, PortExtendedSpeedsCounters};
pub use lanes::{
    PortRcvDataSl, PortSlRcvBecn, PortSlRcvFecn, PortVlOpData, PortVlOpPackets, PortVlXmitFlowCtlUpdateErrors,
    PortVlXmitTimeCong, PortVlXmitWaitCounters, PortXmitDataSl, SwPortVlCongestion,
};
pub use samples::{PortSamplesControl, PortSamplesResult, SampleStatus};

use crate::mad::attribute::attributes;

/// Class version of performance management.
pub const CLASS_VERSION: u8 = 1;
/// PortSelect for all ports, if the node has [`Capability::ALL_PORT_SELECT`].
pub const ALL_PORTS: u8 = 0xff;

bitflags::bitflags! {
    /// CapabilityMask of the class's ClassPortInfo.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Capability: u16 {
        /// PortSelect 0xff sums all ports.
        const ALL_PORT_SELECT = 1 << 8;
        /// 64-bit counters.
        const EXTENDED_WIDTH = 1 << 9;
        /// 64-bit counters, without those of unicast and multicast.
        const EXTENDED_WIDTH_NO_IETF = 1 << 10;
        /// Sampling by SamplesControl only.
        const SAMPLES_ONLY = 1 << 11;
        /// PortXmitWait.
        const XMIT_WAIT = 1 << 12;
        /// Multicasts of limited members do not count as constraint errors.
        const INHIBIT_LIMITED_PKEY_MC_CONSTRAINT_ERRORS = 1 << 13;
        /// Counters of Reed-Solomon codes.
        const RSFEC_COUNTERS = 1 << 14;
        /// QP1Dropped.
        const QP1_DROPPED = 1 << 15;
    }
}

bitflags::bitflags! {
    /// CapabilityMask2 of the class's ClassPortInfo.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Capability2: u32 {
        /// A key guards the class.
        const PM_KEY = 1 << 0;
        /// PortCountersExtended includes the error counters.
        const ADDITIONAL_EXTENDED = 1 << 1;
    }
}

attributes! {
    /// Attributes of performance management and their names.
    ATTRIBUTES {
        PortSamplesControl(PORT_SAMPLES_CONTROL = 0x0010, "PortSamplesControl");
        PortSamplesResult(PORT_SAMPLES_RESULT = 0x0011, "PortSamplesResult");
        PortCounters(PORT_COUNTERS = 0x0012, "PortCounters");
        PortRcvErrorDetails(PORT_RCV_ERROR_DETAILS = 0x0015, "PortRcvErrorDetails");
        PortXmitDiscardDetails(PORT_XMIT_DISCARD_DETAILS = 0x0016, "PortXmitDiscardDetails");
        PortOpRcvCounters(PORT_OP_RCV_COUNTERS = 0x0017, "PortOpRcvCounters");
        PortFlowCtlCounters(PORT_FLOW_CTL_COUNTERS = 0x0018, "PortFlowCtlCounters");
        PortVlOpPackets(PORT_VL_OP_PACKETS = 0x0019, "PortVLOpPackets");
        PortVlOpData(PORT_VL_OP_DATA = 0x001a, "PortVLOpData");
        PortVlXmitFlowCtlUpdateErrors(PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS = 0x001b, "PortVLXmitFlowCtlUpdateErrors");
        PortVlXmitWaitCounters(PORT_VL_XMIT_WAIT_COUNTERS = 0x001c, "PortVLXmitWaitCounters");
        PortCountersExtended(PORT_COUNTERS_EXTENDED = 0x001d, "PortCountersExtended");
        PortExtendedSpeedsCounters(PORT_EXTENDED_SPEEDS_COUNTERS = 0x001f, "PortExtendedSpeedsCounters");
        SwPortVlCongestion(SW_PORT_VL_CONGESTION = 0x0030, "SwPortVLCongestion");
        PortRcvConCtrl(PORT_RCV_CON_CTRL = 0x0031, "PortRcvConCtrl");
        PortSlRcvFecn(PORT_SL_RCV_FECN = 0x0032, "PortSLRcvFECN");
        PortSlRcvBecn(PORT_SL_RCV_BECN = 0x0033, "PortSLRcvBECN");
        PortXmitConCtrl(PORT_XMIT_CON_CTRL = 0x0034, "PortXmitConCtrl");
        PortVlXmitTimeCong(PORT_VL_XMIT_TIME_CONG = 0x0035, "PortVLXmitTimeCong");
        PortXmitDataSl(PORT_XMIT_DATA_SL = 0x0036, "PortXmitDataSL");
        PortRcvDataSl(PORT_RCV_DATA_SL = 0x0037, "PortRcvDataSL");
    }
}
