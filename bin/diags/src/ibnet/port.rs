//! A port as found by discovery: accessors for the fields of its PortInfo.

use super::{Attribute, PortRef};
use crate::ib::port_info::ExtendedSpeeds;

/// FDR10 in Mellanox's ExtendedPortInfo: 10 Gb/s per lane with 64b/66b encoding.
const FDR10: u8 = 1;

/// PortInfo:PortState of a port whose link is down.
pub const STATE_DOWN: u8 = 1;
/// PortInfo:PortState of a port that carries data traffic.
pub const STATE_ACTIVE: u8 = 4;
/// PortInfo:PortPhysicalState of a trained link.
pub const PHYS_LINK_UP: u8 = 5;

/// A port of a [`Node`](super::Node).
#[derive(Clone, Debug)]
pub struct Port {
    /// PortGUID; all ports of a switch have port 0's.
    pub guid: u64,
    /// Its number.
    pub num: u8,
    /// The number printed on the chassis, or 0.
    pub external: u8,
    /// LID; all ports of a switch have port 0's.
    pub lid: u16,
    /// LMC, likewise.
    pub lmc: u8,
    /// PortInfo.
    pub info: Attribute,
    /// Mellanox's ExtendedPortInfo; zeros if not queried.
    pub extended_info: Attribute,
    /// The port at the other end of the cable.
    pub remote: Option<PortRef>,
}

impl Port {
    /// A port of which only the number is known.
    pub fn shell(num: u8) -> Port {
        Port {
            guid: 0,
            num,
            external: 0,
            lid: 0,
            lmc: 0,
            info: Attribute::ZERO,
            extended_info: Attribute::ZERO,
            remote: None,
        }
    }

    /// PortInfo:LID.
    pub fn info_lid(&self) -> u16 {
        self.info.u16(16)
    }

    /// PortInfo:MasterSMLID.
    pub fn sm_lid(&self) -> u16 {
        self.info.u16(18)
    }

    /// PortInfo:CapabilityMask.
    pub fn capability_mask(&self) -> u32 {
        self.info.u32(20)
    }

    /// PortInfo:LocalPortNum: the port that received the request.
    pub fn local_port(&self) -> u8 {
        self.info.u8(28)
    }

    /// PortInfo:LinkWidthSupported.
    pub fn width_supported(&self) -> u8 {
        self.info.u8(30)
    }

    /// PortInfo:LinkWidthActive.
    pub fn width_active(&self) -> u8 {
        self.info.u8(31)
    }

    /// PortInfo:LinkSpeedSupported.
    pub fn speed_supported(&self) -> u8 {
        self.info.u8(32) >> 4
    }

    /// PortInfo:PortState.
    pub fn state(&self) -> u8 {
        self.info.u8(32) & 15
    }

    /// PortInfo:PortPhysicalState.
    pub fn phys_state(&self) -> u8 {
        self.info.u8(33) >> 4
    }

    /// PortInfo:LMC.
    pub fn info_lmc(&self) -> u8 {
        self.info.u8(34) & 7
    }

    /// PortInfo:LinkSpeedActive.
    pub fn speed_active(&self) -> u8 {
        self.info.u8(35) >> 4
    }

    /// PortInfo:NeighborMTU.
    pub fn neighbor_mtu(&self) -> u8 {
        self.info.u8(36) >> 4
    }

    /// PortInfo:VLCap.
    pub fn vl_cap(&self) -> u8 {
        self.info.u8(37) >> 4
    }

    /// PortInfo:VLStallCount.
    pub fn vl_stall_count(&self) -> u8 {
        self.info.u8(42) >> 5
    }

    /// PortInfo:HOQLife.
    pub fn hoq_life(&self) -> u8 {
        self.info.u8(42) & 31
    }

    /// The extended speeds that this port's own capability masks mark as valid. For a switch, port 0's masks count.
    pub fn extended_speeds(&self) -> ExtendedSpeeds {
        ExtendedSpeeds::of(&self.info.0)
    }

    /// Whether the link runs at Mellanox's FDR10.
    pub fn fdr10_active(&self) -> bool {
        self.extended_info.u8(15) & FDR10 != 0
    }

    /// Whether the link could run at Mellanox's FDR10.
    pub fn fdr10_supported(&self) -> bool {
        self.extended_info.u8(7) & FDR10 != 0
    }
}
