//! Devices and host addresses, as their owner describes them to the connection manager.

use std::net::IpAddr;

use super::command::RoceMode;

/// A port of a device; a later description of the same port replaces the earlier one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Index of the device, the loopback's included.
    pub index: u32,
    /// Number of the port, from 1 on.
    pub port: u8,
    /// Its name.
    pub name: String,
    /// Its node GUID.
    pub node_guid: u64,
    /// Network interface of the device.
    pub ifindex: u32,
    /// Whether that interface is the loopback.
    pub loopback: bool,
    /// Whether the port is active.
    pub active: bool,
    /// Path MTU of the port, a value of `enum ibv_mtu`.
    pub active_mtu: u8,
    /// Rate of the port as in a path record, a value of `enum ibv_rate`.
    pub rate: u8,
    /// How connections over the port come about.
    pub kind: PortKind,
    /// Its P_Key table.
    pub pkeys: Vec<u16>,
    /// Its GIDs.
    pub gids: Vec<DeviceGid>,
}

/// Index of a device, and number of one of its ports.
pub type Place = (u32, u8);

impl Device {
    /// Returns the device index and port number.
    pub fn place(&self) -> Place {
        (self.index, self.port)
    }
}

/// How connections over a port come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortKind {
    /// RoCE: paths follow from addresses.
    #[default]
    Roce,
    /// Subnet administration resolves paths.
    InfiniBand,
    /// iWARP: a TCP connection.
    Iwarp,
}

/// An entry of a device's GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceGid {
    /// Index.
    pub index: u8,
    /// The GID.
    pub gid: [u8; 16],
    /// IP address of the entry: on RoCE the GID itself gives it; on InfiniBand it is the interface's.
    pub ip: IpAddr,
    /// Its framing.
    pub mode: RoceMode,
    /// The interface that it belongs to.
    pub ifindex: u32,
}

/// An address of the host, on any interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAddress {
    /// The interface.
    pub ifindex: u32,
    /// The address.
    pub ip: IpAddr,
}
