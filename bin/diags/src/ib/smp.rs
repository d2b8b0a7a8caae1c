//! Subnet management: getting and setting a node's attributes.

use super::address::PortId;
use super::mad::{CLASS_SUBN_DIRECTED, CLASS_SUBN_LID, DATA_AT, GET, MAD_LEN, Request, SET};
use super::port::{MadError, Port};
use super::report::warn;

/// Bytes of an attribute's data.
pub const DATA_LEN: usize = 64;
/// An attribute's data.
pub type Data = [u8; DATA_LEN];

/// NodeDescription.
pub const NODE_DESC: u16 = 0x10;
/// NodeInfo.
pub const NODE_INFO: u16 = 0x11;
/// SwitchInfo.
pub const SWITCH_INFO: u16 = 0x12;
/// GUIDInfo.
pub const GUID_INFO: u16 = 0x14;
/// PortInfo.
pub const PORT_INFO: u16 = 0x15;
/// P_KeyTable.
pub const PKEY_TABLE: u16 = 0x16;
/// SLtoVLMappingTable.
pub const SL2VL_TABLE: u16 = 0x17;
/// VLArbitrationTable.
pub const VL_ARBITRATION: u16 = 0x18;
/// LinearForwardingTable.
pub const LINEAR_FORWARDING: u16 = 0x19;
/// MulticastForwardingTable.
pub const MULTICAST_FORWARDING: u16 = 0x1b;
/// SMInfo.
pub const SM_INFO: u16 = 0x20;
/// PortInfoExtended.
pub const PORT_INFO_EXTENDED: u16 = 0x33;
/// The vendor's ExtendedPortInfo.
pub const MLNX_EXT_PORT_INFO: u16 = 0xff90;

/// NodeType of a switch.
pub const TYPE_SWITCH: u64 = 2;

/// CapabilityMask: LinkSpeedExt is supported.
pub const CAP_EXTENDED_SPEEDS: u64 = 1 << 14;
/// CapabilityMask: CapabilityMask2 is supported.
pub const CAP_MASK2: u64 = 1 << 15;
/// CapabilityMask2: PortInfoExtended is supported.
pub const CAP2_PORT_INFO_EXTENDED: u64 = 1 << 1;
/// CapabilityMask2: LinkSpeedExt2 is supported.
pub const CAP2_EXTENDED_SPEEDS2: u64 = 1 << 11;
/// The modifier bit of PortInfo that allows reading and setting LinkSpeedExt.
pub const SUPPORTS_EXTENDED_SPEEDS: u32 = 1 << 31;

impl Port {
    /// Gets an attribute of the node at `to`.
    ///
    /// # Errors
    /// No answer, or a bad one.
    pub fn smp_get(&mut self, to: &PortId, attribute: u16, modifier: u32) -> Result<Data, MadError> {
        self.smp_get_within(to, attribute, modifier, 0)
    }

    /// The same with a timeout of its own; 0 means the default.
    ///
    /// # Errors
    /// No answer, or a bad one.
    pub fn smp_get_within(
        &mut self,
        to: &PortId,
        attribute: u16,
        modifier: u32,
        timeout_ms: u32,
    ) -> Result<Data, MadError> {
        self.smp_query_with(to, attribute, modifier, &[0; DATA_LEN], timeout_ms)
    }

    /// Gets an attribute with request data besides the attribute ID and modifier.
    ///
    /// # Errors
    /// No answer, or a bad one.
    pub fn smp_query_with(
        &mut self,
        to: &PortId,
        attribute: u16,
        modifier: u32,
        data: &Data,
        timeout_ms: u32,
    ) -> Result<Data, MadError> {
        self.trace("smp_query_status_via", to, attribute, modifier);
        self.smp(GET, to, attribute, modifier, data, timeout_ms)
    }

    /// Sets an attribute of the node at `to`, and returns the resulting value.
    ///
    /// # Errors
    /// No answer, or a bad one.
    pub fn smp_set(&mut self, to: &PortId, attribute: u16, modifier: u32, data: &Data) -> Result<Data, MadError> {
        self.smp_set_within(to, attribute, modifier, data, 0)
    }

    /// The same with a timeout of its own; 0 means the default.
    ///
    /// # Errors
    /// No answer, or a bad one.
    pub fn smp_set_within(
        &mut self,
        to: &PortId,
        attribute: u16,
        modifier: u32,
        data: &Data,
        timeout_ms: u32,
    ) -> Result<Data, MadError> {
        self.trace("smp_set_status_via", to, attribute, modifier);
        self.smp(SET, to, attribute, modifier, data, timeout_ms)
    }

    fn smp(
        &mut self,
        method: u8,
        to: &PortId,
        attribute: u16,
        modifier: u32,
        data: &Data,
        timeout_ms: u32,
    ) -> Result<Data, MadError> {
        let class = if to.is_directed() { CLASS_SUBN_DIRECTED } else { CLASS_SUBN_LID };
        let m_key = self.m_key;
        let request = Request { class, method, attribute, modifier, m_key, data, timeout_ms, ..Request::default() };
        self.rpc(&request, to).map(|mad| data_of(&mad))
    }

    fn trace(&self, function: &str, to: &PortId, attribute: u16, modifier: u32) {
        if self.debug > 0 {
            warn(function, &format!("attr 0x{attribute:x} mod 0x{modifier:x} route {to}"));
        }
    }
}

fn data_of(mad: &[u8; MAD_LEN]) -> Data {
    let mut data = [0; DATA_LEN];
    data.copy_from_slice(&mad[DATA_AT..DATA_AT + DATA_LEN]);
    data
}
