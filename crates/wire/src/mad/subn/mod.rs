//! Subnet management (IBA 14): what a subnet manager asks of nodes and sets in them.

mod capability;
mod link;
mod node;
mod port_info;
mod smp;
mod switch_info;

pub use capability::{CapabilityMask, CapabilityMask2};
pub use link::{LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, PhysState, PortState};
pub use node::{NodeDescription, NodeInfo, NodeType};
pub use port_info::PortInfo;
pub use smp::{CLASS_VERSION, HOPS_MAX, Smp, SmpData, SmpPath};
pub use switch_info::SwitchInfo;

use crate::mad::attribute::attributes;

attributes! {
    /// Attributes of subnet management and their names.
    ATTRIBUTES {
        NodeDescription(NODE_DESCRIPTION = 0x0010, "NodeDescription");
        NodeInfo(NODE_INFO = 0x0011, "NodeInfo");
        SwitchInfo(SWITCH_INFO = 0x0012, "SwitchInfo");
        PortInfo(PORT_INFO = 0x0015, "PortInfo");
    }
}
