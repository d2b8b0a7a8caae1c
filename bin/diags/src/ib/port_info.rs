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

/// Bits of the first set of extended speeds in a joined set; those of the second set follow.
const FIRST_BITS: u64 = 5;
/// "No extended speed" and "all supported speeds", as values of LinkSpeedExtEnabled and LinkSpeedExtEnabled2.
const ENABLED_NONE: u64 = 30;
const ENABLED_ALL: u64 = 31;
const ENABLED2_NONE: u64 = 6;
const ENABLED2_ALL: u64 = 7;

/// Valid sets of extended speeds in a node's PortInfo. FDR to NDR are in the first set, XDR is in the second; a joined
/// set has the bits of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedSpeeds {
    /// LinkSpeedExtActive, LinkSpeedExtSupported and LinkSpeedExtEnabled are valid.
    pub first: bool,
    /// LinkSpeedExtActive2, LinkSpeedExtSupported2 and LinkSpeedExtEnabled2 are valid.
    pub second: bool,
}

impl ExtendedSpeeds {
    /// Reads the capability masks of a port; port 0's masks apply to all ports of a switch.
    pub fn of(info: &Data) -> ExtendedSpeeds {
        let mask = port_info::CAP_MASK.value(info);
        let mask2 = if mask & smp::CAP_MASK2 != 0 { port_info::CAPABILITY_MASK2.value(info) } else { 0 };
        let first = mask & smp::CAP_EXTENDED_SPEEDS != 0;
        ExtendedSpeeds { first, second: first && mask2 & smp::CAP2_EXTENDED_SPEEDS2 != 0 }
    }

    /// The active extended speed, as a joined set; 0 if the link runs at QDR or below.
    pub fn active(self, info: &Data) -> u64 {
        let (first, second) = self.values(info, port_info::LINK_SPEED_EXT_ACTIVE, port_info::LINK_SPEED_EXT_ACTIVE2);
        if second != 0 { joined(0, second) } else { first }
    }

    /// The supported extended speeds, as a joined set.
    pub fn supported(self, info: &Data) -> u64 {
        let (first, second) =
            self.values(info, port_info::LINK_SPEED_EXT_SUPPORTED, port_info::LINK_SPEED_EXT_SUPPORTED2);
        joined(first, second)
    }

    /// The enabled extended speeds, as a joined set.
    pub fn enabled(self, info: &Data) -> u64 {
        let (first, second) = self.values(info, port_info::LINK_SPEED_EXT_ENABLED, port_info::LINK_SPEED_EXT_ENABLED2);
        let first = match first {
            ENABLED_NONE => 0,
            ENABLED_ALL => port_info::LINK_SPEED_EXT_SUPPORTED.value(info),
            some => some,
        };
        let second = match second {
            ENABLED2_NONE => 0,
            ENABLED2_ALL => port_info::LINK_SPEED_EXT_SUPPORTED2.value(info),
            some => some,
        };
        joined(first, second)
    }

    /// The values of a field of each set; 0 if the set is not valid.
    fn values(self, info: &Data, first: Field, second: Field) -> (u64, u64) {
        let value = |is_valid: bool, field: Field| if is_valid { field.value(info) } else { 0 };
        (value(self.first, first), value(self.second, second))
    }
}

fn joined(first: u64, second: u64) -> u64 {
    first | second << FIRST_BITS
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

#[cfg(test)]
mod tests {
    use super::*;

    /// PortInfo of a port whose capability masks have these bits: FDR to XDR supported and enabled, XDR active.
    fn xdr(mask: u64, mask2: u64) -> Data {
        let mut info = [0; smp::DATA_LEN];
        for (field, value) in [
            (port_info::CAP_MASK, mask),
            (port_info::CAPABILITY_MASK2, mask2),
            (port_info::LINK_SPEED_EXT_SUPPORTED, 15),
            (port_info::LINK_SPEED_EXT_ENABLED, 15),
            (port_info::LINK_SPEED_EXT_SUPPORTED2, 1),
            (port_info::LINK_SPEED_EXT_ENABLED2, 1),
            (port_info::LINK_SPEED_EXT_ACTIVE2, 1),
        ] {
            field.set(&mut info, value);
        }
        info
    }

    #[test]
    fn speeds_count_if_the_capability_masks_say_so() {
        let both = smp::CAP_EXTENDED_SPEEDS | smp::CAP_MASK2;
        for (mask, mask2, active, supported) in [
            (both, smp::CAP2_EXTENDED_SPEEDS2, 32, 0x2f),
            (both, 0, 0, 15),
            (smp::CAP_EXTENDED_SPEEDS, smp::CAP2_EXTENDED_SPEEDS2, 0, 15),
            (smp::CAP_MASK2, smp::CAP2_EXTENDED_SPEEDS2, 0, 0),
        ] {
            let info = xdr(mask, mask2);
            let speeds = ExtendedSpeeds::of(&info);
            let found = (speeds.active(&info), speeds.supported(&info), speeds.enabled(&info));
            assert_eq!(found, (active, supported, supported), "{mask:#x} {mask2:#x}");
        }
    }

    #[test]
    fn enabled_values_stand_for_all_or_for_none() {
        let mut info = xdr(smp::CAP_EXTENDED_SPEEDS | smp::CAP_MASK2, smp::CAP2_EXTENDED_SPEEDS2);
        for (first, second, enabled) in [(31, 7, 0x2f), (30, 6, 0), (3, 6, 3), (30, 1, 32)] {
            port_info::LINK_SPEED_EXT_ENABLED.set(&mut info, first);
            port_info::LINK_SPEED_EXT_ENABLED2.set(&mut info, second);
            assert_eq!(ExtendedSpeeds::of(&info).enabled(&info), enabled, "{first} {second}");
        }
    }
}
