//! Subnet management (IBA 14): the attributes that a subnet manager reads and sets in nodes.

mod capability;
mod link;
mod node;
mod other;
mod port_info;
mod sm_info;
mod smp;
mod switch_info;
mod tables;

pub use capability::{CapabilityMask, CapabilityMask2};
pub use link::{LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, PhysState, PortState};
pub use node::{NodeDescription, NodeInfo, NodeType};
pub use other::{FecMode, FecModes, LedInfo, MlnxExtPortInfo, PortInfoExtended, VendorDiag};
pub use port_info::PortInfo;
pub use sm_info::{SmControl, SmInfo, SmState};
pub use smp::{CLASS_VERSION, HOPS_MAX, Smp, SmpData, SmpPath};
pub use switch_info::SwitchInfo;
pub use tables::{
    GUID_BLOCK, GuidInfo, LFT_BLOCK, LFT_NO_PATH, LinearForwardingTable, MFT_BLOCK, MFT_PORTS,
    MulticastForwardingTable, PKEY_BLOCK, PKeyTable, RandomForwarding, RandomForwardingTable, SlToVlTable,
    VlArbitrationTable, VlWeight,
};

use crate::mad::attribute::attributes;

attributes! {
    /// Attributes of subnet management and their names.
    ATTRIBUTES {
        NodeDescription(NODE_DESCRIPTION = 0x0010, "NodeDescription");
        NodeInfo(NODE_INFO = 0x0011, "NodeInfo");
        SwitchInfo(SWITCH_INFO = 0x0012, "SwitchInfo");
        GuidInfo(GUID_INFO = 0x0014, "GUIDInfo");
        PortInfo(PORT_INFO = 0x0015, "PortInfo");
        PKeyTable(PKEY_TABLE = 0x0016, "P_KeyTable");
        SlToVlTable(SL_TO_VL_TABLE = 0x0017, "SLtoVLMappingTable");
        VlArbitrationTable(VL_ARBITRATION_TABLE = 0x0018, "VLArbitrationTable");
        LinearForwardingTable(LINEAR_FORWARDING_TABLE = 0x0019, "LinearForwardingTable");
        RandomForwardingTable(RANDOM_FORWARDING_TABLE = 0x001a, "RandomForwardingTable");
        MulticastForwardingTable(MULTICAST_FORWARDING_TABLE = 0x001b, "MulticastForwardingTable");
        SmInfo(SM_INFO = 0x0020, "SMInfo");
        VendorDiag(VENDOR_DIAG = 0x0030, "VendorDiag");
        LedInfo(LED_INFO = 0x0031, "LedInfo");
        PortInfoExtended(PORT_INFO_EXTENDED = 0x0033, "PortInfoExtended");
        MlnxExtPortInfo(MLNX_EXT_PORT_INFO = 0xff90, "MlnxExtPortInfo");
    }
}
