//! A node as discovery keeps it: a channel adapter, a switch or a router, with its ports.

use super::{Attribute, Port};
use crate::ib::address::PortId;
use crate::ib::names::{NodeNames, clean};

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

    /// What libibmad calls it.
    pub fn long_name(self) -> String {
        match self {
            Kind::CA => "Channel Adapter".to_owned(),
            Kind::SWITCH => "Switch".to_owned(),
            Kind::ROUTER => "Router".to_owned(),
            Kind(other) => format!("?({other})?"),
        }
    }
}

/// Where in its chassis a node sits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// Nothing is known.
    #[default]
    Unknown,
    /// On a line board.
    Line,
    /// On a spine board.
    Spine,
    /// On a router board.
    Router,
}

/// What is known of a node's place in a chassis.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The chassis, an index into the fabric's.
    pub chassis: Option<usize>,
    /// Whether the node has been placed.
    pub found: bool,
    /// What the chassis is called.
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
    /// The way on which it was first reached; a node from a cache file has none.
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
    /// SwitchInfo, of a switch.
    pub switch_info: Attribute,
    /// NodeDescription.
    pub description: Attribute,
    /// Where it stands.
    pub place: Place,
    /// Ports that are known, by number: a node that says that it has 255 takes no room for them.
    ports: Vec<Port>,
}

impl Node {
    /// A node of which nothing but its NodeInfo is known yet.
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

    /// NodeInfo:PortGUID, that of the port which was asked.
    pub fn info_port_guid(&self) -> u64 {
        self.info.u64(20)
    }

    /// NodeInfo:DeviceID.
    pub fn device_id(&self) -> u16 {
        self.info.u16(30)
    }

    /// NodeInfo:LocalPortNum, the port which was asked.
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

    /// Whether SwitchInfo says that port 0 is an enhanced one.
    pub fn says_enhanced_port0(&self) -> bool {
        self.switch_info.u8(16) & 0x08 != 0
    }

    /// Whether it is a switch.
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::SWITCH
    }

    /// NodeDescription as text: up to its end, what cannot be printed as blanks.
    pub fn name(&self) -> String {
        clean(&self.description.0)
    }

    /// What administrators call it, or its name.
    pub fn called(&self, names: &NodeNames) -> String {
        names.name(self.guid, &self.description.0)
    }

    /// The port of that number.
    pub fn port(&self, num: u8) -> Option<&Port> {
        self.ports.get(self.place_of(num).ok()?)
    }

    /// The port of that number, to change it.
    pub fn port_mut(&mut self, num: u8) -> Option<&mut Port> {
        let place = self.place_of(num).ok()?;
        self.ports.get_mut(place)
    }

    /// The port of that number, a new one if it is not known yet; nothing beyond the node's number of ports.
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

    /// Ports that are known, port 0 included, in their order.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter()
    }

    /// Ports that are known, port 0 included, to change them.
    pub fn ports_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.ports.iter_mut()
    }

    /// Ports that are known and can have a cable, in their order.
    pub fn external_ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(|port| port.num != 0)
    }

    /// Whether PortInfo's extended speeds mean something at `port`; nothing if a switch's port 0 did not answer.
    pub fn extended_speeds_of(&self, port: &Port) -> Option<bool> {
        if self.is_switch() { self.port(0).map(Port::has_extended_speeds) } else { Some(port.has_extended_speeds()) }
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
