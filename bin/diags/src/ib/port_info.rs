//! PortInfo as a whole: its lines, with the M_Key only on request, and the node's capabilities.

use super::address::PortId;
use super::field::{self, Field};
use super::fields::subn::{node_info, port_info};
use super::port::Port;
use super::report::warn;
use super::smp::{self, Data};

/// Placeholder of a hidden key.
pub const NOT_DISPLAYED: &str = "<not displayed>";

/// The lines of `fields`, each with a newline; hides the key unless `show_keys`.
pub fn lines(fields: &[Field], data: &[u8], show_keys: bool) -> String {
    let line = |f: &Field| match *f == port_info::MKEY && !show_keys {
        true => f.line_with(NOT_DISPLAYED),
        false => f.line(data),
    };
    fields.iter().map(|f| line(f) + "\n").collect()
}

/// `fields` as JSON; omits the key unless `show_keys`.
pub fn json(fields: &[Field], data: &[u8], show_keys: bool) -> serde_json::Value {
    let mut all = field::json(fields, data);
    if !show_keys {
        all.remove(port_info::MKEY.name);
    }
    all.into()
}

/// Why PortInfoExtended is not available.
#[derive(Debug)]
pub enum ExtendedError {
    /// NodeInfo was not answered.
    Node,
    /// PortInfo was not answered.
    Port,
}

impl ExtendedError {
    /// The tools' error text.
    pub fn text(&self) -> &'static str {
        match self {
            ExtendedError::Node => "node info query failed",
            ExtendedError::Port => "port info query failed",
        }
    }
}

/// Whether a port has PortInfoExtended; complains if not.
///
/// # Errors
/// The node does not answer.
pub fn has_extended(port: &mut Port, to: &PortId, number: u32) -> Result<bool, ExtendedError> {
    const FUNCTION: &str = "is_port_info_extended_supported";
    let node = port.smp_get(to, smp::NODE_INFO, 0).map_err(|_| ExtendedError::Node)?;
    let number = if node_info::NODE_TYPE.value(&node) == smp::TYPE_SWITCH { 0 } else { number };
    let info = port.smp_get(to, smp::PORT_INFO, number).map_err(|_| ExtendedError::Port)?;
    if port_info::CAP_MASK.value(&info) & smp::CAP_MASK2 == 0 {
        warn(FUNCTION, "port info capability mask2 not supported");
        return Ok(false);
    }
    let mask = port_info::CAPABILITY_MASK2.value(&info);
    if mask & smp::CAP2_PORT_INFO_EXTENDED == 0 {
        warn(FUNCTION, &format!("port info capability mask2 = 0x{mask:x} doesn't indicate PortInfoExtended support"));
        return Ok(false);
    }
    Ok(true)
}

/// Whether PortInfo includes extended speeds; for a switch, port 0's PortInfo decides.
pub fn has_extended_speeds(info: &Data) -> bool {
    port_info::CAP_MASK.value(info) & smp::CAP_EXTENDED_SPEEDS != 0
}

/// Whether devices of that kind answer the vendor's ExtendedPortInfo.
pub fn has_mlnx_ext(vendor_id: u64, device_id: u64) -> bool {
    const BULL: u64 = 0x119f;
    let is_switch = matches!(device_id, 0xc738..=0xc73b | 0xc839 | 0xcb20 | 0xcf08 | 0xcf09 | 0xd2f0);
    let is_adapter = matches!(device_id, 0x1003..=0x101b | 0xa2d2);
    let is_bulls = matches!(
        device_id,
        0x1b02 | 0x1b50 | 0x1ba0 | 0x1bd0..=0x1bd5 | 0x1bf0
            | 0x1b33 | 0x1b73 | 0x1b40 | 0x1b41 | 0x1b60 | 0x1b61 | 0x1b83 | 0x1b93 | 0x1b94
            | 0x1bb4 | 0x1bb5 | 0x1bc4..=0x1bc6
    );
    is_switch || is_adapter || vendor_id == BULL && is_bulls
}
