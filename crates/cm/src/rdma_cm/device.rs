//! What the connection manager is told about devices and about the host's own addresses.

use std::net::IpAddr;

use super::command::RoceMode;

/// A port of a device, as the owner of devices describes it; a later description of the same port replaces the earlier one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Index of the device; the loopback's device and others alike.
    pub index: u32,
    /// Number of the port, from 1 on.
    pub port: u8,
    /// Its name.
    pub name: String,
    /// Its node GUID.
    pub node_guid: u64,
    /// The interface it stands on.
    pub ifindex: u32,
    /// Whether that is the loopback.
    pub loopback: bool,
    /// Whether its port is active.
    pub active: bool,
    /// Path MTU of the port, a value of `enum ibv_mtu`.
    pub active_mtu: u8,
    /// Rate of the port as a path record has it, a value of `enum ibv_rate`.
    pub rate: u8,
    /// What its port is linked to.
    pub link_layer: LinkLayer,
    /// Its P_Key table.
    pub pkeys: Vec<u16>,
    /// Its GIDs.
    pub gids: Vec<DeviceGid>,
}

/// Index of a device, and number of one of its ports.
pub type Place = (u32, u8);

impl Device {
    /// Which port of which device it is.
    pub fn place(&self) -> Place {
        (self.index, self.port)
    }
}

/// What a port is linked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkLayer {
    /// RoCE: paths follow from addresses.
    #[default]
    Ethernet,
    /// Paths are asked of the subnet administration.
    InfiniBand,
}

/// A row of a device's GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceGid {
    /// Row.
    pub index: u8,
    /// The GID.
    pub gid: [u8; 16],
    /// The IP address that it answers to: on RoCE the GID itself says it, on InfiniBand it is the interface's.
    pub ip: IpAddr,
    /// Its framing.
    pub mode: RoceMode,
    /// The interface it belongs to.
    pub ifindex: u32,
}

/// An address of the host, on whatever interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAddress {
    /// The interface.
    pub ifindex: u32,
    /// The address.
    pub ip: IpAddr,
}
