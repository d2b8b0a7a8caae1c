//! A node as found by discovery: a channel adapter, a switch or a router, with its ports.

use super::{Attribute, Port};
use crate::ib::address::PortId;
use crate::ib::names::{NodeNames, clean};
use crate::ib::port_info::ExtendedSpeeds;

/// NodeInfo:NodeType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u8);

impl Kind {
    /// A channel adapter.
    pub const CA: Kind = Kind(1);
    /// A switch.
    pub const SWITCH: Kind = Kind(2);
    /// A router.
    pub const ROUTER: Kind = Kind(3);

    /// libibmad's name of the type.
    pub fn long_name(self) -> String {
        match self {
            Kind::CA => "Channel Adapter".to_owned(),
            Kind::SWITCH => "Switch".to_owned(),
            Kind::ROUTER => "Router".to_owned(),
            Kind(other) => format!("?({other})?"),
        }
    }
}

/// A node's kind of board in its chassis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// Unknown.
    #[default]
    Unknown,
    /// On a line board.
    Line,
    /// On a spine board.
    Spine,
    /// On a router board.
    Router,
}

/// A node's place in a chassis.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The chassis, as an index into the fabric's list.
    pub chassis: Option<usize>,
    /// Whether the place is known.
    pub found: bool,
    /// The chassis model.
    pub model: String,
    /// The kind of board.
    pub slot: Slot,
    /// The board's number.
    pub slot_num: u8,
    /// The chip on the board.
    pub chip: u8,
}

/// A node of a [`Fabric`](super::Fabric).
#[derive(Clone, Debug)]
pub struct Node {
    /// The path of its first discovery; a node from a cache file has none.
    pub path: Option<PortId>,
    /// NodeInfo:NodeGUID.
    pub guid: u64,
    /// NodeInfo:NodeType.
    pub kind: Kind,
    /// NodeInfo:NumPorts.
    pub num_ports: u8,
    /// A switch's LID.
    pub sma_lid: u16,
    /// A switch's LMC.
    pub sma_lmc: u8,
    /// Whether a switch's port 0 is an enhanced one.
    pub enhanced_port0: bool,
    /// NodeInfo.
    pub info: Attribute,
    /// SwitchInfo, if the node is a switch.
    pub switch_info: Attribute,
    /// NodeDescription.
    pub description: Attribute,
    /// Its place in a chassis.
    pub place: Place,
    /// Known ports by number: a node that claims 255 ports takes no memory for them.
    ports: Vec<Port>,
}

impl Node {
    /// A node of which only NodeInfo is known.
    pub fn new(info: Attribute) -> Node {
        let num_ports = info.u8(3);
        Node {
            path: None,
            guid: info.u64(12),
            kind: Kind(info.u8(2)),
            num_ports,
            sma_lid: 0,
            sma_lmc: 0,
            enhanced_port0: false,
            info,
            switch_info: Attribute::ZERO,
            description: Attribute::ZERO,
            place: Place::default(),
            ports: Vec::new(),
        }
    }

    /// NodeInfo:SystemImageGUID.
    pub fn system_guid(&self) -> u64 {
        self.info.u64(4)
    }

    /// NodeInfo:PortGUID, of the port that received the request.
    pub fn info_port_guid(&self) -> u64 {
        self.info.u64(20)
    }

    /// NodeInfo:DeviceID.
    pub fn device_id(&self) -> u16 {
        self.info.u16(30)
    }

    /// NodeInfo:LocalPortNum, the port that received the request.
    pub fn local_port(&self) -> u8 {
        self.info.u8(36)
    }

    /// NodeInfo:VendorID.
    pub fn vendor_id(&self) -> u32 {
        self.info.u32(36) & 0x00ff_ffff
    }

    /// SwitchInfo:LinearFDBTop.
    pub fn linear_top(&self) -> u16 {
        self.switch_info.u16(6)
    }

    /// SwitchInfo:MulticastFDBCap.
    pub fn multicast_cap(&self) -> u16 {
        self.switch_info.u16(4)
    }

    /// SwitchInfo:MulticastFDBTop.
    pub fn multicast_top(&self) -> u16 {
        self.switch_info.u16(18)
    }

    /// Whether SwitchInfo marks port 0 as an enhanced one.
    pub fn says_enhanced_port0(&self) -> bool {
        self.switch_info.u8(16) & 0x08 != 0
    }

    /// Whether it is a switch.
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::SWITCH
    }

    /// NodeDescription as text, with blanks in place of unprintable characters.
    pub fn name(&self) -> String {
        clean(&self.description.0)
    }

    /// The administrator's name for the node, or its own.
    pub fn called(&self, names: &NodeNames) -> String {
        names.name(self.guid, &self.description.0)
    }

    /// The port with this number.
    pub fn port(&self, num: u8) -> Option<&Port> {
        self.ports.get(self.place_of(num).ok()?)
    }

    /// The port with this number, mutable.
    pub fn port_mut(&mut self, num: u8) -> Option<&mut Port> {
        let place = self.place_of(num).ok()?;
        self.ports.get_mut(place)
    }

    /// The port with this number, created if it is unknown; `None` beyond the node's number of ports.
    pub fn port_or_new(&mut self, num: u8) -> Option<&mut Port> {
        if num > self.num_ports {
            return None;
        }
        let place = self.place_of(num).unwrap_or_else(|place| {
            self.ports.insert(place, Port::shell(num));
            place
        });
        self.ports.get_mut(place)
    }

    fn place_of(&self, num: u8) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&num, |port| port.num)
    }

    /// Known ports including port 0, by number.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter()
    }

    /// Known ports including port 0, mutable.
    pub fn ports_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.ports.iter_mut()
    }

    /// Known ports other than a switch's port 0, by number.
    pub fn external_ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(|port| port.num != 0)
    }

    /// The extended speeds that are valid in the PortInfo of `port`; `None` if a switch's port 0 did not answer.
    pub fn extended_speeds_of(&self, port: &Port) -> Option<ExtendedSpeeds> {
        if self.is_switch() { self.port(0).map(Port::extended_speeds) } else { Some(port.extended_speeds()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_beyond_the_nodes_number_is_nowhere() {
        let mut info = Attribute::ZERO;
        info.0[3] = 4;
        let mut node = Node::new(info);
        assert!(node.port_or_new(4).is_some());
        assert!(node.port_or_new(5).is_none());
        assert!(node.port(255).is_none());
        assert!(node.port_or_new(0).is_some());
        assert_eq!(node.ports().map(|port| port.num).collect::<Vec<_>>(), [0, 4]);
        assert_eq!(node.external_ports().map(|port| port.num).collect::<Vec<_>>(), [4]);
    }
}
