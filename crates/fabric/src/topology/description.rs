//! A fabric's description: nodes, their ports, and cables.

use serde::{Deserialize, Serialize};

use super::limits;
use super::link::{Speed, Width};

/// A whole fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Title for people: the file's name, the generator's parameters.
    pub title: String,
    /// Every node, in the order of the description. A cable's end names a node by its index here.
    pub nodes: Vec<Node>,
    /// Every cable. No port has two.
    pub cables: Vec<Cable>,
}

/// Kind of a node (IBA 14.2.5.3 NodeType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeKind {
    /// A host's channel adapter.
    Ca,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

/// An adapter, a switch or a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Its name in commands (`weft cable cut NAME:PORT ...`), unique in the fabric.
    pub name: String,
    /// An adapter's host: `weft run --host HOST`. Several adapters may share one. Empty otherwise.
    pub host: String,
    /// An adapter's name on its host, as its programs know the device: `weft0`, `mlx4_0`. Unique there. Empty: not an
    /// adapter, or not named yet.
    pub adapter: String,
    /// NodeDescription, at most 64 bytes.
    pub description: String,
    /// NodeGUID.
    pub guid: u64,
    /// SystemImageGUID.
    pub system_image_guid: u64,
    /// VendorID, 24 bits.
    pub vendor_id: u32,
    /// DeviceID.
    pub device_id: u16,
    /// For a switch: whether port 0 is enhanced (IBA 18.2.4.1).
    pub enhanced_port0: bool,
    /// LMC that an SM may give to its port, at most 7.
    pub lmc_max: u8,
    /// External ports: port 1 is `ports[0]`. A switch's port 0 is not among them; its PortGUID is [`Node::guid`].
    pub ports: Vec<Port>,
}

/// One external port, with the capabilities of its hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// PortGUID; for a switch's port that of the switch.
    pub guid: u64,
    /// Largest width that it supports; it also supports the smaller ones that exist.
    pub width: Width,
    /// Highest speed that it supports; it also supports the lower ones.
    pub speed: Speed,
    /// Its link layer.
    pub link_layer: LinkLayer,
    /// Whether an Ethernet port has a cable to the Ethernet switch. [`Topology::cables`] has those of InfiniBand.
    pub is_on_ethernet: bool,
}

/// Rates of Ethernet links, by name, and the width and speed in which verbs reports each.
const ETHERNET_RATES: [(&str, Width, Speed); 8] = [
    ("10GbE", Width::X4, Speed::Sdr),
    ("25GbE", Width::X1, Speed::Edr),
    ("40GbE", Width::X4, Speed::Qdr),
    ("50GbE", Width::X2, Speed::Edr),
    ("56GbE", Width::X4, Speed::Fdr),
    ("100GbE", Width::X4, Speed::Edr),
    ("200GbE", Width::X4, Speed::Hdr),
    ("400GbE", Width::X4, Speed::Ndr),
];

impl Port {
    /// Makes a port of an InfiniBand link.
    pub fn infiniband(guid: u64, width: Width, speed: Speed) -> Port {
        Port { guid, width, speed, link_layer: LinkLayer::InfiniBand, is_on_ethernet: false }
    }

    /// Makes an Ethernet port without a cable. No cable of a fabric fits; the width and speed are those of 10 Gb/s, which
    /// adapters report for such a port without a link.
    pub fn ethernet(guid: u64) -> Port {
        Port { guid, width: Width::X4, speed: Speed::Sdr, link_layer: LinkLayer::Ethernet, is_on_ethernet: false }
    }

    /// Makes an Ethernet port with a cable of a rate such as `40GbE`; `None` for a rate that no link has.
    pub fn on_ethernet(guid: u64, rate: &str) -> Option<Port> {
        let (_, width, speed) = *ETHERNET_RATES.iter().find(|(name, ..)| name.eq_ignore_ascii_case(rate))?;
        Some(Port { width, speed, is_on_ethernet: true, ..Port::ethernet(guid) })
    }

    /// Returns the rate of an Ethernet port's cable, as [`Port::on_ethernet`] takes it.
    pub fn ethernet_rate(&self) -> Option<&'static str> {
        let (name, ..) =
            ETHERNET_RATES.iter().find(|(_, width, speed)| (*width, *speed) == (self.width, self.speed))?;
        self.is_on_ethernet.then_some(name)
    }
}

/// Link layer of an adapter's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkLayer {
    /// InfiniBand.
    #[default]
    InfiniBand,
    /// Ethernet: the port is not part of the fabric.
    Ethernet,
}

/// One end of a cable: the index of a node in [`Topology::nodes`], and a port number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct End {
    /// Index of the node in [`Topology::nodes`].
    pub node: u32,
    /// Port number, from 1.
    pub port: u8,
}

/// A cable between two ports. Its link trains to the best that both ports and the cable support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cable {
    /// One end.
    pub a: End,
    /// The other.
    pub b: End,
    /// Largest width that it carries; `None`: any width.
    pub width: Option<Width>,
    /// Highest speed that it carries; `None`: any speed.
    pub speed: Option<Speed>,
    /// Latency of a packet, in nanoseconds.
    pub latency_ns: u32,
    /// Packets damaged, per million; the receiving port counts and drops them.
    pub errors_ppm: u32,
}

impl NodeKind {
    /// Returns NodeInfo's NodeType.
    pub const fn node_type(self) -> u8 {
        match self {
            NodeKind::Ca => 1,
            NodeKind::Switch => 2,
            NodeKind::Router => 3,
        }
    }

    /// Returns `CA`, `switch` or `router`, for people.
    pub const fn word(self) -> &'static str {
        match self {
            NodeKind::Ca => "CA",
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
        }
    }
}

impl Node {
    /// Returns external port `number`, from 1.
    pub fn port(&self, number: u8) -> Option<&Port> {
        self.ports.get(usize::from(number).checked_sub(1)?)
    }

    /// Returns the number of external ports.
    pub fn port_count(&self) -> u8 {
        u8::try_from(self.ports.len()).unwrap_or(limits::PORTS_MAX)
    }
}

impl Cable {
    /// Creates a cable without limits, delay or errors.
    pub const fn new(a: End, b: End) -> Cable {
        Cable { a, b, width: None, speed: None, latency_ns: 0, errors_ppm: 0 }
    }
}

impl Topology {
    /// Returns the node at an end of a cable.
    pub fn node(&self, end: End) -> Option<&Node> {
        self.nodes.get(end.node as usize)
    }

    /// Returns the port at an end of a cable.
    pub fn port(&self, end: End) -> Option<&Port> {
        self.node(end)?.port(end.port)
    }

    /// Returns an end of a cable as commands name it, `NAME:PORT`.
    pub fn spell(&self, end: End) -> String {
        match self.node(end) {
            Some(node) => format!("{}:{}", node.name, end.port),
            None => format!("?{}:{}", end.node, end.port),
        }
    }

    /// Returns the index of the node that commands call `name`.
    pub fn by_name(&self, name: &str) -> Option<u32> {
        self.nodes.iter().position(|node| node.name == name).and_then(|place| u32::try_from(place).ok())
    }

    /// Returns the width and speed that a cable's link trains to: the best that both ports and the cable support.
    pub fn trained(&self, cable: &Cable) -> Option<(Width, Speed)> {
        let (a, b) = (self.port(cable.a)?, self.port(cable.b)?);
        let width = a.width.common(b.width);
        let width = cable.width.map_or(width, |limit| width.common(limit));
        let speed = a.speed.min(b.speed);
        Some((width, cable.speed.map_or(speed, |limit| speed.min(limit))))
    }

    /// Returns whether a cable's limits keep its link below what its ports support.
    pub fn is_limited(&self, cable: &Cable) -> bool {
        self.trained(cable) != self.trained(&Cable { width: None, speed: None, ..*cable })
    }

    /// Returns the names of all hosts, each once, in the order of the description.
    pub fn host_names(&self) -> Vec<&str> {
        let mut seen = std::collections::BTreeSet::new();
        let adapters = self.nodes.iter().filter(|node| node.kind == NodeKind::Ca && !node.host.is_empty());
        adapters.map(|node| node.host.as_str()).filter(|host| seen.insert(*host)).collect()
    }

    /// Returns the host of this name; `h0012` also means the twelfth host.
    pub fn host_called(&self, name: &str) -> Option<&str> {
        let names = self.host_names();
        names.iter().copied().find(|host| *host == name).or_else(|| {
            let number: usize = name.strip_prefix('h')?.parse().ok()?;
            names.get(number.checked_sub(1)?).copied()
        })
    }

    /// Returns the number of nodes of a kind.
    pub fn count(&self, kind: NodeKind) -> usize {
        self.nodes.iter().filter(|node| node.kind == kind).count()
    }
}
