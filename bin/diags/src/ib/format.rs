//! Printed forms of values: numbers, and the words of infiniband-diags.

use super::report::warn;

/// Format of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Decimal.
    Uint,
    /// `0x` and two digits per byte of the field.
    Hex,
    /// LinkWidthActive.
    LinkWidth,
    /// LinkWidthSupported.
    LinkWidthSupported,
    /// LinkWidthEnabled.
    LinkWidthEnabled,
    /// LinkSpeedActive.
    LinkSpeed,
    /// LinkSpeedSupported and LinkSpeedEnabled.
    LinkSpeeds,
    /// LinkSpeedExtActive.
    LinkSpeedExt,
    /// LinkSpeedExtSupported.
    LinkSpeedExtSupported,
    /// LinkSpeedExtEnabled.
    LinkSpeedExtEnabled,
    /// LinkSpeedExtActive2.
    LinkSpeedExt2,
    /// LinkSpeedExtSupported2 and LinkSpeedExtEnabled2.
    LinkSpeedsExt2,
    /// One extended speed of both sets, as [`ExtendedSpeeds`](super::port_info::ExtendedSpeeds) joins them.
    LinkSpeedExtJoined,
    /// PortState.
    PortState,
    /// PortPhysicalState.
    PhysState,
    /// LinkDownDefaultState.
    DownDefault,
    /// MTU codes.
    Mtu,
    /// VLCap.
    VlCap,
    /// OperationalVLs.
    OperVls,
    /// CapabilityMask, with one line per name.
    CapMask,
    /// CapabilityMask2, with one line per name.
    CapMask2,
    /// NodeType.
    NodeType,
}

const PORT_STATES: &[&str] = &["NoChange", "Down", "Initialize", "Armed", "Active"];
const PHYS_STATES: &[&str] = &[
    "NoChange",
    "Sleep",
    "Polling",
    "Disabled",
    "PortConfigurationTraining",
    "LinkUp",
    "LinkErrorRecovery",
    "PhyTest",
];
const DOWN_DEFAULTS: &[&str] = &["NoChange", "Sleep", "Polling"];
const MTUS: &[&str] = &["", "256", "512", "1024", "2048", "4096"];
const VLS: &[&str] = &["", "VL0", "VL0-1", "VL0-3", "VL0-7", "VL0-14"];
const NODE_TYPES: &[&str] = &["", "Channel Adapter", "Switch", "Router"];
const WIDTHS: &[&str] = &["1X", "4X", "8X", "12X", "2X"];
const SPEEDS: &[&str] = &["2.5 Gbps", "5.0 Gbps", "10.0 Gbps"];
const SPEEDS_EXT: &[&str] = &["14.0625 Gbps", "25.78125 Gbps", "53.125 Gbps", "106.25 Gbps"];
/// Speeds of the second set.
const SPEEDS_EXT2: &[&str] = &["212.5 Gbps"];
/// XDR in a joined set, where the second set follows the five bits of the first.
const JOINED_XDR: u64 = 32;
/// LinkSpeedExtEnabled when extended speeds are off.
const SPEEDS_EXT_DISABLED: u64 = 30;

/// Names of CapabilityMask's bits (IBA 14.2.5.6), in the tools' spelling.
const CAP_MASK: &[&str] = &[
    "",
    "IsSM",
    "IsNoticeSupported",
    "IsTrapSupported",
    "IsOptionalIPDSupported",
    "IsAutomaticMigrationSupported",
    "IsSLMappingSupported",
    "IsMKeyNVRAM",
    "IsPKeyNVRAM",
    "IsLedInfoSupported",
    "IsSMdisabled",
    "IsSystemImageGUIDsupported",
    "IsPkeySwitchExternalPortTrapSupported",
    "",
    "IsExtendedSpeedsSupported",
    "IsCapabilityMask2Supported",
    "IsCommunicatonManagementSupported",
    "IsSNMPTunnelingSupported",
    "IsReinitSupported",
    "IsDeviceManagementSupported",
    "IsVendorClassSupported",
    "IsDRNoticeSupported",
    "IsCapabilityMaskNoticeSupported",
    "IsBootManagementSupported",
    "IsLinkRoundTripLatencySupported",
    "IsClientRegistrationSupported",
    "IsOtherLocalChangesNoticeSupported",
    "IsLinkSpeedWidthPairsTableSupported",
    "IsVendorSpecificMadsTableSupported",
    "IsMcastPkeyTrapSuppressionSupported",
    "IsMulticastFDBTopSupported",
    "IsHierarchyInfoSupported",
];

/// Names of CapabilityMask2's bits.
const CAP_MASK2: &[&str] = &[
    "IsSetNodeDescriptionSupported",
    "IsPortInfoExtendedSupported",
    "IsVirtualizationSupported",
    "IsSwitchPortStateTableSupported",
    "IsLinkWidth2xSupported",
    "IsLinkSpeedHDRSupported",
    "IsMKeyProtectBitsExtSupported",
    "IsEnhancedTrap128Supported",
    "IsPartitionTopSupported",
    "IsEnhancedQoSArbiterSupported",
    "IsLinkSpeedNDRSupported",
];

/// The text up to a zero byte or the end. Its author is unknown and the text goes to a terminal, so a blank replaces
/// each control character except newlines and tabs.
pub fn text_until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let tame = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c };
    String::from_utf8_lossy(&bytes[..end]).chars().map(tame).collect()
}

impl Format {
    /// A value as printed; `bits` is the width of its field.
    pub fn text(self, value: u64, bits: u16) -> String {
        let digits = usize::from(bits.div_ceil(8)) * 2;
        match self {
            Format::Uint => value.to_string(),
            Format::Hex => format!("0x{value:0digits$x}"),
            Format::LinkWidth => link_width(value),
            Format::LinkWidthSupported => link_widths(value) + width_extension(value),
            Format::LinkWidthEnabled => link_widths(value),
            Format::LinkSpeed if value == 0 => "Extended speed".to_owned(),
            Format::LinkSpeed => single(SPEEDS, value),
            Format::LinkSpeeds => link_speeds(value),
            Format::LinkSpeedExt if value == 0 => "No Extended Speed".to_owned(),
            Format::LinkSpeedExt => single(SPEEDS_EXT, value),
            Format::LinkSpeedExtEnabled if value == SPEEDS_EXT_DISABLED => "Extended link speeds disabled".to_owned(),
            Format::LinkSpeedExtSupported | Format::LinkSpeedExtEnabled if value == 0 => "0".to_owned(),
            Format::LinkSpeedExtSupported | Format::LinkSpeedExtEnabled => several(SPEEDS_EXT, value),
            Format::LinkSpeedExt2 if value == 0 => "No Extended Speed 2".to_owned(),
            Format::LinkSpeedExt2 => single(SPEEDS_EXT2, value),
            Format::LinkSpeedsExt2 if value == 0 => "0".to_owned(),
            Format::LinkSpeedsExt2 => several(SPEEDS_EXT2, value),
            Format::LinkSpeedExtJoined if value == JOINED_XDR => single(SPEEDS_EXT2, 1),
            Format::LinkSpeedExtJoined => Format::LinkSpeedExt.text(value, bits),
            Format::PortState => word(PORT_STATES, value, "?(", ")"),
            Format::PhysState => word(PHYS_STATES, value, "?(", ")"),
            Format::DownDefault => word(DOWN_DEFAULTS, value, "?(", ")"),
            Format::Mtu => word(MTUS, value, "?(", ")"),
            Format::VlCap => word(VLS, value, "?(", ")"),
            Format::OperVls if value == 0 => "No change".to_owned(),
            Format::OperVls => word(VLS, value, "?(", ")"),
            Format::NodeType => word(NODE_TYPES, value, "?(", ")?"),
            Format::CapMask | Format::CapMask2 => {
                self.flags(value).fold(format!("0x{value:x}"), |text, name| text + "\n\t\t\t\t" + name)
            }
        }
    }

    /// The names of the bits that are set.
    pub fn flags(self, value: u64) -> impl Iterator<Item = &'static str> {
        let names = if self == Format::CapMask2 { CAP_MASK2 } else { CAP_MASK };
        names.iter().enumerate().filter(move |(bit, name)| value >> bit & 1 != 0 && !name.is_empty()).map(|(_, n)| *n)
    }
}

/// The word for a value, or its number.
fn word(words: &[&str], value: u64, before: &str, after: &str) -> String {
    let word = usize::try_from(value).ok().and_then(|v| words.get(v)).filter(|word| !word.is_empty());
    word.map_or_else(|| format!("{before}{value}{after}"), |word| (*word).to_owned())
}

/// The name of the one bit that is set.
fn single(names: &[&str], value: u64) -> String {
    let name = if value.is_power_of_two() { names.get(value.trailing_zeros() as usize) } else { None };
    name.map_or_else(|| format!("undefined ({value})"), |name| (*name).to_owned())
}

/// The names of all set bits, followed by the number if any set bit has no name.
fn several(names: &[&str], value: u64) -> String {
    let known = names.iter().enumerate().filter(|(bit, _)| value >> bit & 1 != 0).map(|(_, name)| (*name).to_owned());
    let odd = (value == 0 || value >> names.len() != 0).then(|| format!("undefined ({value})"));
    known.chain(odd).collect::<Vec<_>>().join(" or ")
}

fn link_width(value: u64) -> String {
    let text = single(WIDTHS, value);
    if text.starts_with('u') {
        warn("mad_dump_linkwidth", &format!("bad width {value}"));
    }
    text
}

fn link_widths(value: u64) -> String {
    several(WIDTHS, value)
}

/// Marks combinations that the specification does not define.
fn width_extension(value: u64) -> &'static str {
    match value {
        1 | 3 | 7 | 11 | 15 | 17 | 19 | 23 | 27 | 31 | 32.. => "",
        _ => " (IBA extension)",
    }
}

fn link_speeds(value: u64) -> String {
    let extension = if matches!(value, 1 | 3 | 5 | 7 | 8..) { "" } else { " (IBA extension)" };
    several(SPEEDS, value) + extension
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_infiniband_diags() {
        for (format, value, bits, text) in [
            (Format::Uint, 7, 8, "7"),
            (Format::Hex, 0x1017, 16, "0x1017"),
            (Format::Hex, 0, 3, "0x00"),
            (Format::Hex, 0x2c9, 24, "0x0002c9"),
            (Format::LinkWidth, 2, 8, "4X"),
            (Format::LinkWidth, 3, 8, "undefined (3)"),
            (Format::LinkWidthEnabled, 3, 8, "1X or 4X"),
            (Format::LinkWidthEnabled, 0, 8, "undefined (0)"),
            (Format::LinkWidthEnabled, 0x22, 8, "4X or undefined (34)"),
            (Format::LinkWidthSupported, 31, 8, "1X or 4X or 8X or 12X or 2X"),
            (Format::LinkWidthSupported, 2, 8, "4X (IBA extension)"),
            (Format::LinkWidthSupported, 0, 8, "undefined (0) (IBA extension)"),
            (Format::LinkSpeed, 0, 4, "Extended speed"),
            (Format::LinkSpeed, 4, 4, "10.0 Gbps"),
            (Format::LinkSpeeds, 7, 4, "2.5 Gbps or 5.0 Gbps or 10.0 Gbps"),
            (Format::LinkSpeeds, 2, 4, "5.0 Gbps (IBA extension)"),
            (Format::LinkSpeeds, 15, 4, "2.5 Gbps or 5.0 Gbps or 10.0 Gbps or undefined (15)"),
            (Format::LinkSpeedExt, 0, 4, "No Extended Speed"),
            (Format::LinkSpeedExt, 8, 4, "106.25 Gbps"),
            (Format::LinkSpeedExtSupported, 0, 4, "0"),
            (Format::LinkSpeedExtEnabled, 30, 5, "Extended link speeds disabled"),
            (Format::LinkSpeedExtEnabled, 3, 5, "14.0625 Gbps or 25.78125 Gbps"),
            (Format::LinkSpeedExt2, 0, 2, "No Extended Speed 2"),
            (Format::LinkSpeedExt2, 1, 2, "212.5 Gbps"),
            (Format::LinkSpeedExt2, 2, 2, "undefined (2)"),
            (Format::LinkSpeedsExt2, 0, 3, "0"),
            (Format::LinkSpeedsExt2, 1, 3, "212.5 Gbps"),
            (Format::LinkSpeedsExt2, 3, 3, "212.5 Gbps or undefined (3)"),
            (Format::LinkSpeedExtJoined, 8, 8, "106.25 Gbps"),
            (Format::LinkSpeedExtJoined, 16, 8, "undefined (16)"),
            (Format::LinkSpeedExtJoined, 32, 8, "212.5 Gbps"),
            (Format::PortState, 2, 4, "Initialize"),
            (Format::PortState, 5, 4, "?(5)"),
            (Format::PhysState, 4, 4, "PortConfigurationTraining"),
            (Format::Mtu, 0, 4, "?(0)"),
            (Format::Mtu, 5, 4, "4096"),
            (Format::OperVls, 0, 4, "No change"),
            (Format::VlCap, 5, 4, "VL0-14"),
            (Format::NodeType, 9, 8, "?(9)?"),
            (Format::CapMask, 0, 32, "0x0"),
            (Format::CapMask, 0x4002, 32, "0x4002\n\t\t\t\tIsSM\n\t\t\t\tIsExtendedSpeedsSupported"),
            (Format::CapMask2, 0x400, 16, "0x400\n\t\t\t\tIsLinkSpeedNDRSupported"),
        ] {
            assert_eq!(format.text(value, bits), text, "{format:?} {value}");
        }
    }
}
