//! Performance management: reading and resetting port counters.

use super::address::PortId;
use super::fields::perf::{port_counters, port_counters_extended};
use super::mad::{CLASS_PERF, DATA_AT, GET, MAD_LEN, Request, SET};
use super::port::{MadError, Port};
use super::report::warn;

/// Bytes of an attribute's data.
pub const DATA_LEN: usize = MAD_LEN - DATA_AT;
/// An attribute's data.
pub type Data = [u8; DATA_LEN];

/// PortSamplesControl.
pub const SAMPLES_CONTROL: u16 = 0x10;
/// PortCounters.
pub const COUNTERS: u16 = 0x12;
/// PortRcvErrorDetails.
pub const RCV_ERROR_DETAILS: u16 = 0x15;
/// PortXmitDiscardDetails.
pub const XMIT_DISCARD_DETAILS: u16 = 0x16;
/// PortOpRcvCounters.
pub const OP_RCV_COUNTERS: u16 = 0x17;
/// PortFlowCtlCounters.
pub const FLOW_CTL_COUNTERS: u16 = 0x18;
/// PortVLOpPackets.
pub const VL_OP_PACKETS: u16 = 0x19;
/// PortVLOpData.
pub const VL_OP_DATA: u16 = 0x1a;
/// PortVLXmitFlowCtlUpdateErrors.
pub const VL_XMIT_FLOW_CTL_UPDATE_ERRORS: u16 = 0x1b;
/// PortVLXmitWaitCounters.
pub const VL_XMIT_WAIT_COUNTERS: u16 = 0x1c;
/// PortCountersExtended.
pub const COUNTERS_EXTENDED: u16 = 0x1d;
/// PortExtendedSpeedsCounters.
pub const EXTENDED_SPEEDS: u16 = 0x1f;
/// SwPortVLCongestion.
pub const SW_PORT_VL_CONGESTION: u16 = 0x30;
/// PortRcvConCtrl.
pub const RCV_CON_CTRL: u16 = 0x31;
/// PortSLRcvFECN.
pub const SL_RCV_FECN: u16 = 0x32;
/// PortSLRcvBECN.
pub const SL_RCV_BECN: u16 = 0x33;
/// PortXmitConCtrl.
pub const XMIT_CON_CTRL: u16 = 0x34;
/// PortVLXmitTimeCong.
pub const VL_XMIT_TIME_CONG: u16 = 0x35;
/// PortXmitDataSL.
pub const XMIT_DATA_SL: u16 = 0x36;
/// PortRcvDataSL.
pub const RCV_DATA_SL: u16 = 0x37;

/// ClassPortInfo's CapabilityMask: PortSelect 255 means all ports.
pub const CAP_ALL_PORT_SELECT: u16 = 1 << 8;
/// CapabilityMask: PortCountersExtended is complete.
pub const CAP_EXT_WIDTH: u16 = 1 << 9;
/// CapabilityMask: PortCountersExtended lacks the unicast and multicast counters.
pub const CAP_EXT_WIDTH_NOIETF: u16 = 1 << 10;
/// CapabilityMask: PortXmitWait is supported.
pub const CAP_XMIT_WAIT: u16 = 1 << 12;
/// CapabilityMask: RS-FEC counters.
pub const CAP_RSFEC: u16 = 1 << 14;
/// CapabilityMask: QP1Dropped is supported.
pub const CAP_QP1_DROPPED: u16 = 1 << 15;
/// CapabilityMask2: PortCountersExtended includes error counters.
pub const CAP2_ADDITIONAL_EXT: u32 = 1 << 1;
/// PortSelect of all ports.
pub const ALL_PORTS: u8 = 255;

impl Port {
    /// Gets an attribute of a port of the node at `to`.
    ///
    /// # Errors
    /// No answer, or a bad one.
    pub fn pma_get(&mut self, to: &PortId, attribute: u16, port: u8, timeout_ms: u32) -> Result<Data, MadError> {
        self.trace_pma("pma_query_via", to, &format!("port {port}"));
        let mut data = [0; DATA_LEN];
        port_counters::PORT_SELECT.set(&mut data, u64::from(port));
        self.pma(GET, to, attribute, &data, timeout_ms)
    }

    /// Resets the counters in `mask`; 0 means all.
    ///
    /// # Errors
    /// No answer, or a bad one.
    pub fn pma_reset(
        &mut self,
        to: &PortId,
        attribute: u16,
        port: u8,
        mask: u32,
        timeout_ms: u32,
    ) -> Result<Data, MadError> {
        self.trace_pma("performance_reset_via", to, &format!("port {port} mask 0x{mask:x}"));
        let mask = u64::from(if mask == 0 { u32::MAX } else { mask });
        let mut data = [0; DATA_LEN];
        port_counters::PORT_SELECT.set(&mut data, u64::from(port));
        port_counters::COUNTER_SELECT.set(&mut data, mask & 0xffff);
        let second = if attribute == COUNTERS_EXTENDED {
            port_counters_extended::COUNTER_SELECT2
        } else {
            port_counters::COUNTER_SELECT2
        };
        second.set(&mut data, mask >> 16);
        self.pma(SET, to, attribute, &data, timeout_ms)
    }

    /// Sends a Get or Set with the attribute's data in `data`.
    ///
    /// # Errors
    /// No answer, or a bad one.
    pub fn pma(
        &mut self,
        method: u8,
        to: &PortId,
        attribute: u16,
        data: &Data,
        timeout_ms: u32,
    ) -> Result<Data, MadError> {
        let request = Request { class: CLASS_PERF, method, attribute, data, timeout_ms, ..Request::default() };
        let mad = self.rpc(&request, to)?;
        let mut data = [0; DATA_LEN];
        data.copy_from_slice(&mad[DATA_AT..]);
        Ok(data)
    }

    fn trace_pma(&self, function: &str, to: &PortId, what: &str) {
        if self.debug > 0 {
            warn(function, &format!("lid {} {what}", to.lid));
        }
    }
}
