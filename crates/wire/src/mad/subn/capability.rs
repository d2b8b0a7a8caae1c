//! The capability masks of PortInfo (IBA 14.2.5.6).

use crate::layout::flags;

bitflags::bitflags! {
    /// CapabilityMask of PortInfo. Bits without a name survive.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct CapabilityMask: u32 {
        /// A subnet manager runs behind this port.
        const SM = 1 << 1;
        /// Sends notices.
        const NOTICE = 1 << 2;
        /// Sends traps.
        const TRAP = 1 << 3;
        /// Optional port initialisation data.
        const OPT_IPD = 1 << 4;
        /// Supports automatic path migration.
        const AUTO_MIGRATION = 1 << 5;
        /// Has tables from service level to virtual lane.
        const SL_MAPPING = 1 << 6;
        /// Keeps its M_Key in non-volatile memory.
        const MKEY_NVRAM = 1 << 7;
        /// Keeps its P_Keys in non-volatile memory.
        const PKEY_NVRAM = 1 << 8;
        /// Has an LED that can be set.
        const LED_INFO = 1 << 9;
        /// Its subnet manager is not active.
        const SM_DISABLED = 1 << 10;
        /// Knows its system's GUID.
        const SYSTEM_IMAGE_GUID = 1 << 11;
        /// Also counts P_Key violations of the switch at the other end.
        const PKEY_SWITCH_EXTERNAL_PORT_TRAP = 1 << 12;
        /// Cable information.
        const CABLE_INFO = 1 << 13;
        /// Speeds beyond QDR: [`super::PortInfo`]'s LinkSpeedExt fields.
        const EXTENDED_SPEEDS = 1 << 14;
        /// [`CapabilityMask2`] is valid.
        const CAPABILITY_MASK2 = 1 << 15;
        /// Communication management.
        const COMMUNICATION_MANAGEMENT = 1 << 16;
        /// SNMP tunnelling.
        const SNMP_TUNNELING = 1 << 17;
        /// Supports reinitialisation by the subnet manager.
        const REINIT = 1 << 18;
        /// Device management.
        const DEVICE_MANAGEMENT = 1 << 19;
        /// Vendor-specific classes.
        const VENDOR_CLASS = 1 << 20;
        /// Notices along directed routes.
        const DR_NOTICE = 1 << 21;
        /// Sends trap 144 when this mask changes.
        const CAPABILITY_MASK_NOTICE = 1 << 22;
        /// Boot management.
        const BOOT_MANAGEMENT = 1 << 23;
        /// Measures the round-trip latency of its link.
        const LINK_ROUND_TRIP_LATENCY = 1 << 24;
        /// Supports the subnet manager's request that clients register again.
        const CLIENT_REREGISTRATION = 1 << 25;
        /// Sends trap 144 for other changes too.
        const OTHER_LOCAL_CHANGES_NOTICE = 1 << 26;
        /// Has a table of pairs of link speed and width.
        const LINK_SPEED_WIDTH_PAIRS_TABLE = 1 << 27;
        /// Table of vendor-specific datagrams.
        const VENDOR_SPECIFIC_MADS_TABLE = 1 << 28;
        /// Need not send traps for multicasts with a wrong P_Key.
        const MULTICAST_PKEY_TRAP_SUPPRESSION = 1 << 29;
        /// The last entry of the multicast table in use can be set.
        const MULTICAST_FDB_TOP = 1 << 30;
        /// Knows its position in a component hierarchy.
        const HIERARCHY_INFO = 1 << 31;
    }

    /// CapabilityMask2 of PortInfo. Bits without a name survive.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct CapabilityMask2: u16 {
        /// The node's description can be set.
        const SET_NODE_DESCRIPTION = 1 << 0;
        /// Has PortInfoExtended.
        const PORT_INFO_EXTENDED = 1 << 1;
        /// Virtualisation.
        const VIRTUALIZATION = 1 << 2;
        /// Has a table of the states of its switch's ports.
        const SWITCH_PORT_STATE_TABLE = 1 << 3;
        /// Links of width 2X.
        const LINK_WIDTH_2X = 1 << 4;
        /// Links of speed HDR.
        const LINK_SPEED_HDR = 1 << 5;
        /// Extends the M_Key protection bits.
        const MKEY_PROTECT_BITS_EXTENDED = 1 << 6;
        /// Trap 128 with 128 bits.
        const ENHANCED_TRAP_128 = 1 << 7;
        /// A switch whose port partitions the other end enforces.
        const PARTITION_TOP = 1 << 8;
        /// Links of speed NDR.
        const LINK_SPEED_NDR = 1 << 10;
        /// The second set of extended speeds.
        const EXTENDED_SPEEDS2 = 1 << 11;
        /// Links of speed XDR.
        const LINK_SPEED_XDR = 1 << 12;
    }
}

flags!(CapabilityMask(u32), CapabilityMask2(u16));
