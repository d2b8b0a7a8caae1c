//! An adapter of a virtual host as the daemon describes it: its ports on the InfiniBand fabric as subnet management
//! sees them, in the numbers of the specification (IBA 14.2.5).

use serde::{Deserialize, Serialize};

use crate::gid::GidEntry;
use crate::limits::{
    GID_TABLE_ROWS_MAX, HOST_NAME_BYTES_MAX, IB_PKEYS_MAX, IB_PORTS_MAX, NETDEV_NAME_TEXT_BYTES_MAX,
    NODE_DESCRIPTION_BYTES_MAX,
};

/// Type of a virtual host's devices.
pub const DEVICE_KIND_IB: &str = "weft";

/// First identity ([`crate::DeviceInfo::index`]) of devices of virtual hosts; devices on network interfaces have those
/// below. Verbs has the identity as an `int`, where a negative value is no identity.
pub const IB_DEVICE_INDEX_BASE: u32 = 1 << 30;

/// The InfiniBand part of an adapter's description.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InfiniBand {
    /// Virtual host of the adapter.
    pub host: String,
    /// NodeDescription, which subnet managers may change.
    pub node_description: String,
    /// SystemImageGUID.
    pub system_image_guid: u64,
    /// VendorID, 24 bits.
    pub vendor_id: u32,
    /// DeviceID.
    pub device_id: u16,
    /// Hardware revision.
    pub revision: u32,
    /// Ports, from number 1 on.
    pub ports: Vec<IbPort>,
}

/// One port: the content of PortInfo, GUIDInfo and the P_Key table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct IbPort {
    /// Number, from 1.
    pub number: u8,
    /// Number N of `/dev/infiniband/umadN`, counted over all ports of the host.
    pub umad: u32,
    /// The port as an Ethernet port, if that is its link layer: it is not part of the fabric.
    pub ethernet: Option<EthernetLink>,
    /// PortGUID.
    pub guid: u64,
    /// GidPrefix.
    pub gid_prefix: u64,
    /// GUIDInfo from its second row on; 0 is an empty row. The first row is [`IbPort::guid`].
    pub alias_guids: Vec<u64>,
    /// Base LID, 0 until a subnet manager assigns one.
    pub lid: u16,
    /// LMC.
    pub lmc: u8,
    /// MasterSMLID.
    pub sm_lid: u16,
    /// MasterSMSL.
    pub sm_sl: u8,
    /// Times that the subnet manager asked programs to register again (ClientReregister).
    pub reregistrations: u32,
    /// PortState: 1 down, 2 init, 3 armed, 4 active.
    pub state: u8,
    /// PortPhysicalState: 2 polling, 3 disabled, 5 link up.
    pub phys_state: u8,
    /// LinkWidthActive: 1 for 1x, 2 for 4x, 4 for 8x, 8 for 12x, 16 for 2x.
    pub active_width: u8,
    /// Speed of the link in the numbers of `ibv_port_attr`: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128
    /// NDR, 256 XDR.
    pub active_speed: u16,
    /// MTUCap in bytes.
    pub max_mtu: u16,
    /// NeighborMTU in bytes.
    pub active_mtu: u16,
    /// CapabilityMask.
    pub capabilities: u32,
    /// CapabilityMask2.
    pub capabilities2: u16,
    /// VLCap.
    pub vl_cap: u8,
    /// SLtoVLMappingTable: four bits for each service level, the highest for level 0.
    pub sl_to_vl: u64,
    /// SubnetTimeOut.
    pub subnet_timeout: u8,
    /// InitTypeReply.
    pub init_type_reply: u8,
    /// P_KeyViolations.
    pub pkey_violations: u16,
    /// Q_KeyViolations.
    pub qkey_violations: u16,
    /// The whole P_Key table; 0 is an empty row.
    pub pkeys: Vec<u16>,
}

/// Interface and GIDs of an Ethernet port; empty without a cable.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EthernetLink {
    /// Network interface of the port, in its host.
    pub netdev: String,
    /// GID table, by row.
    pub gids: Vec<GidEntry>,
}

impl EthernetLink {
    fn is_sane(&self) -> bool {
        let is_safe = |c: char| !c.is_control() && c != '/';
        self.netdev.len() <= NETDEV_NAME_TEXT_BYTES_MAX
            && self.netdev.chars().all(is_safe)
            && self.gids.iter().zip(0..).all(|(row, index)| row.index == index)
    }
}

impl IbPort {
    /// Returns whether its link layer is Ethernet.
    pub fn is_ethernet(&self) -> bool {
        self.ethernet.is_some()
    }

    /// Returns the rows of an Ethernet port with a cable.
    pub fn roce_gids(&self) -> &[GidEntry] {
        self.ethernet.as_ref().map_or(&[], |link| &link.gids)
    }

    /// Returns a row of the GID table; `None` beyond its end, zeroes for an empty row.
    pub fn gid(&self, row: usize) -> Option<[u8; 16]> {
        if let [_, ..] = self.roce_gids() {
            return self.roce_gids().get(row).map(|row| row.gid);
        }
        let guid = match row.checked_sub(1) {
            None => self.guid,
            Some(alias) => *self.alias_guids.get(alias)?,
        };
        let mut gid = [0; 16];
        if guid != 0 {
            gid[..8].copy_from_slice(&self.gid_prefix.to_be_bytes());
            gid[8..].copy_from_slice(&guid.to_be_bytes());
        }
        Some(gid)
    }

    /// Returns the number of rows of the GID table.
    pub fn gid_rows(&self) -> usize {
        (1 + self.alias_guids.len()).max(self.roce_gids().len())
    }

    /// Returns the number of lanes of the link.
    pub fn lanes(&self) -> u32 {
        match self.active_width {
            1 => 1,
            16 => 2,
            2 => 4,
            4 => 8,
            8 => 12,
            _ => 0,
        }
    }

    /// Returns the speed of the link's lanes as sysfs writes it: tenths of Gb/s, and the name.
    pub fn lane_speed(&self) -> (u32, &'static str) {
        match self.active_speed {
            2 => (50, "DDR"),
            4 => (100, "QDR"),
            8 => (100, "FDR10"),
            16 => (140, "FDR"),
            32 => (250, "EDR"),
            64 => (500, "HDR"),
            128 => (1000, "NDR"),
            256 => (2000, "XDR"),
            _ => (25, "SDR"),
        }
    }
}

impl InfiniBand {
    /// Returns the port of this number.
    pub fn port(&self, number: u8) -> Option<&IbPort> {
        self.ports.iter().find(|port| port.number == number)
    }

    /// Returns whether a daemon may send this.
    pub(crate) fn is_sane(&self) -> bool {
        self.host.len() <= HOST_NAME_BYTES_MAX
            && self.node_description.len() <= NODE_DESCRIPTION_BYTES_MAX
            && !self.node_description.chars().any(char::is_control)
            && !self.ports.is_empty()
            && self.ports.len() <= IB_PORTS_MAX
            && self.ports.iter().zip(1..).all(|(port, number)| port.number == number)
            && self.ports.iter().all(|port| port.pkeys.len() <= IB_PKEYS_MAX && port.gid_rows() <= GID_TABLE_ROWS_MAX)
            && self.ports.iter().filter_map(|port| port.ethernet.as_ref()).all(EthernetLink::is_sane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gid::GidType;

    #[test]
    fn gids_are_made_of_prefix_and_guids() {
        let port = IbPort { guid: 2, gid_prefix: 1 << 63, alias_guids: vec![0, 7], ..IbPort::default() };
        assert_eq!(port.gid(0), Some([0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]));
        assert_eq!(port.gid(1), Some([0; 16]));
        assert_eq!(port.gid(2).map(|gid| gid[15]), Some(7));
        assert_eq!((port.gid(3), port.gid_rows()), (None, 3));
    }

    #[test]
    fn an_ethernet_port_has_the_rows_of_its_addresses() {
        let row = |index: u32| GidEntry { index, gid: [index as u8 + 1; 16], gid_type: GidType::RoceV2, ifindex: 0 };
        let link = |gids: Vec<GidEntry>, netdev: &str| EthernetLink { netdev: netdev.into(), gids };
        let port = |link| IbPort { number: 1, guid: 2, ethernet: Some(link), ..IbPort::default() };
        let plugged = port(link(vec![row(0), row(1)], "eth0"));
        assert_eq!((plugged.gid_rows(), plugged.gid(1), plugged.gid(2)), (2, Some([2; 16]), None));
        let unplugged = port(EthernetLink::default());
        assert_eq!((unplugged.gid_rows(), unplugged.gid(0).map(|gid| gid[15])), (1, Some(2)));
        let sane = |port| InfiniBand { ports: vec![port], ..InfiniBand::default() }.is_sane();
        assert!(sane(plugged) && sane(unplugged));
        assert!(!sane(port(link(vec![row(1)], "eth0"))), "a row that is not its index's");
        assert!(!sane(port(link(vec![row(0)], "../eth0"))), "the name becomes a file");
    }

    #[test]
    fn ports_are_numbered_from_one() {
        let ports = |numbers: &[u8]| numbers.iter().map(|&number| IbPort { number, ..IbPort::default() }).collect();
        let sane = |numbers: &[u8]| InfiniBand { ports: ports(numbers), ..InfiniBand::default() }.is_sane();
        assert!(sane(&[1]) && sane(&[1, 2]));
        assert!(!sane(&[]) && !sane(&[2]) && !sane(&[1, 1]));
    }
}
