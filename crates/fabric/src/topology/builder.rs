//! Builds a topology node by node and cable by cable, and refuses an invalid one at once.

use super::description::{Cable, End, LinkLayer, Node, NodeKind, Port, Topology};
use super::error::{Error, Result};
use super::limits;
use rustc_hash::{FxHashMap, FxHashSet};

/// First GUID of the nodes without a given one: locally administered, so that it belongs to no vendor. The node's kind
/// and number follow.
const GUID_BASE: u64 = 0x0257_4500_0000_0000;

/// A topology under construction.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    topology: Topology,
    names: FxHashMap<String, u32>,
    /// Names of the adapters of each host.
    adapters: FxHashMap<String, Vec<String>>,
    guids: FxHashSet<u64>,
    cabled: FxHashMap<End, u32>,
    ports: usize,
}

impl Builder {
    /// Creates an empty topology with a title.
    pub fn new(title: impl Into<String>) -> Builder {
        Builder { topology: Topology { title: title.into(), ..Topology::default() }, ..Builder::default() }
    }

    /// Adds a node, and returns its index. Fills in GUIDs that are 0; takes others as they are, which must not be
    /// another node's.
    pub fn node(&mut self, mut node: Node) -> Result<u32> {
        let place = self.topology.nodes.len();
        if place >= limits::NODES_MAX {
            return Err(Error::of(
                format!("more than {} nodes", limits::NODES_MAX),
                "no fabric has LIDs for so many: describe fewer",
            ));
        }
        self.ports += node.ports.len();
        judge(&node, self.ports)?;
        let place = place as u32;
        if let Some(other) = self.names.get(&node.name) {
            return Err(Error::of(
                format!("two nodes are named {:?} (the other is node {})", node.name, other + 1),
                "give one of them another name",
            ));
        }
        self.fill_guids(&mut node, place);
        self.take_guids(&node)?;
        self.name_adapter(&mut node)?;
        self.names.insert(node.name.clone(), place);
        self.topology.nodes.push(node);
        Ok(place)
    }

    /// Adds a cable between existing, free ports.
    pub fn cable(&mut self, cable: Cable) -> Result<()> {
        for end in [cable.a, cable.b] {
            let Some(port) = self.topology.port(end) else { return Err(self.no_port(end)) };
            if port.link_layer == LinkLayer::Ethernet {
                return Err(Error::of(
                    format!("{} is an Ethernet port", self.spell(end)),
                    "an InfiniBand cable does not fit: use another port, or change its entry in links",
                ));
            }
            if let Some(other) = self.cabled.get(&end) {
                let other = &self.topology.cables[*other as usize];
                let far = if other.a == end { other.b } else { other.a };
                return Err(Error::of(
                    format!("{} has a cable already, to {}", self.spell(end), self.spell(far)),
                    "a port takes one cable: remove one of the two, or use another port",
                ));
            }
        }
        if cable.a == cable.b {
            return Err(Error::of(
                format!("both ends of a cable are {}", self.spell(cable.a)),
                "plug the other end into another port",
            ));
        }
        if cable.errors_ppm > 1_000_000 || cable.latency_ns > limits::LATENCY_NS_MAX {
            return Err(Error::of(
                format!("the cable {} - {} loses or delays too much", self.spell(cable.a), self.spell(cable.b)),
                format!("at most 1000000 errors of a million and {} ns of latency", limits::LATENCY_NS_MAX),
            ));
        }
        let place = self.topology.cables.len() as u32;
        self.cabled.insert(cable.a, place);
        self.cabled.insert(cable.b, place);
        self.topology.cables.push(cable);
        Ok(())
    }

    /// Returns the cable in a port.
    pub fn cable_at(&self, end: End) -> Option<&Cable> {
        self.topology.cables.get(*self.cabled.get(&end)? as usize)
    }

    /// Returns the index of a node by its name.
    pub fn place(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// Returns the topology so far.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Gives an adapter without a name the next of `weft0`, `weft1`, ...; takes another as it is.
    fn name_adapter(&mut self, node: &mut Node) -> Result<()> {
        if node.kind != NodeKind::Ca {
            return Ok(());
        }
        let taken = self.adapters.entry(node.host.clone()).or_default();
        if node.adapter.is_empty() {
            node.adapter = adapter_name(DEFAULT_ADAPTER, taken.len());
        }
        if taken.contains(&node.adapter) {
            return Err(Error::of(
                format!("two adapters of host {:?} are named {:?}", node.host, node.adapter),
                "give one of them another name",
            ));
        }
        taken.push(node.adapter.clone());
        Ok(())
    }

    /// Fills in missing GUIDs. A switch's port has its node's own, and so has the port of an adapter with one port and
    /// a made GUID; another port of an adapter has its node's plus its number.
    fn fill_guids(&self, node: &mut Node, place: u32) {
        let shares = node.kind == NodeKind::Switch || (node.guid == 0 && node.ports.len() == 1);
        if node.guid == 0 {
            let kind = u64::from(node.kind.node_type()) << 32;
            node.guid = GUID_BASE | kind | u64::from(place) << 8;
        }
        if node.system_image_guid == 0 {
            node.system_image_guid = node.guid;
        }
        for (port, number) in node.ports.iter_mut().zip(1u64..) {
            if port.guid == 0 {
                port.guid = if shares { node.guid } else { node.guid.wrapping_add(number) };
            }
        }
    }

    /// Records the GUIDs of a node and, for an adapter or router, of its ports. A port may have its node's.
    fn take_guids(&mut self, node: &Node) -> Result<()> {
        let own: &[Port] = if node.kind == NodeKind::Switch { &[] } else { &node.ports };
        let ports = own.iter().map(|port| port.guid).filter(|guid| *guid != node.guid);
        for guid in std::iter::once(node.guid).chain(ports) {
            if !self.guids.insert(guid) {
                return Err(Error::of(
                    format!("GUID {guid:#018x} of {:?} is given twice", node.name),
                    "GUIDs name nodes and ports everywhere: give each its own, or leave them out to have them made",
                ));
            }
        }
        Ok(())
    }

    fn no_port(&self, end: End) -> Error {
        match self.topology.node(end) {
            Some(node) => Error::of(
                format!("{} has no port {}", node.name, end.port),
                format!("its ports are 1 to {}: use one of them, or give it more", node.ports.len()),
            ),
            None => Error::of(format!("there is no node {}", end.node + 1), "describe the node before its cables"),
        }
    }

    fn spell(&self, end: End) -> String {
        self.topology.spell(end)
    }

    /// Returns the finished topology.
    pub fn finish(self) -> Topology {
        self.topology
    }
}

/// Family of the adapters' names where none is given.
pub const DEFAULT_ADAPTER: &str = "weft";

/// Names adapter `number` of a host, from 0: `weft0`, but `mlx4_0` as vendors' drivers do.
pub fn adapter_name(family: &str, number: usize) -> String {
    if family == DEFAULT_ADAPTER { format!("{family}{number}") } else { format!("{family}_{number}") }
}

/// Returns whether an adapter may have this name: it becomes a file name under /sys/class/infiniband.
pub fn is_adapter_name(name: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b'%';
    !name.is_empty()
        && name.len() <= limits::ADAPTER_LEN_MAX
        && !matches!(name, "." | "..")
        && name.bytes().all(is_safe)
}

/// Checks a node against its limits.
fn judge(node: &Node, ports_in_all: usize) -> Result<()> {
    let name = &node.name;
    if name.is_empty() || name.len() > limits::NAME_LEN_MAX || name.contains(|c: char| c.is_control()) {
        return Err(Error::of(
            format!("{name:?} is no name for a node"),
            format!("a name has 1 to {} bytes and no control characters", limits::NAME_LEN_MAX),
        ));
    }
    if node.host.len() > limits::NAME_LEN_MAX || node.host.contains(|c: char| c.is_control()) {
        return Err(Error::of(
            format!("{:?} is no name for the host of {name:?}", node.host),
            format!("a name has at most {} bytes and no control characters", limits::NAME_LEN_MAX),
        ));
    }
    if !node.adapter.is_empty() && !is_adapter_name(&node.adapter) {
        return Err(Error::of(
            format!("{:?} is no name for the adapter {name:?}", node.adapter),
            format!(
                "a name has at most {} visible ASCII characters, no slash and no per cent",
                limits::ADAPTER_LEN_MAX
            ),
        ));
    }
    if node.description.len() > limits::DESCRIPTION_LEN || node.description.contains(|c: char| c.is_control()) {
        return Err(Error::of(
            format!("the description {:?} of {name:?} does not fit", node.description),
            format!("a NodeDescription has at most {} bytes and no control characters", limits::DESCRIPTION_LEN),
        ));
    }
    if node.ports.is_empty() || node.ports.len() > usize::from(limits::PORTS_MAX) {
        return Err(Error::of(
            format!("{name:?} has {} ports", node.ports.len()),
            format!("a {} has 1 to {} ports", node.kind.word(), limits::PORTS_MAX),
        ));
    }
    if ports_in_all > limits::PORTS_TOTAL_MAX {
        return Err(Error::of(
            format!("more than {} ports in all", limits::PORTS_TOTAL_MAX),
            "use fewer or smaller switches",
        ));
    }
    if node.vendor_id >> 24 != 0 || node.lmc_max > 7 {
        return Err(Error::of(
            format!("vendor ID {:#x} or LMC {} of {name:?} is too large", node.vendor_id, node.lmc_max),
            "a vendor ID has 24 bits, an LMC is at most 7",
        ));
    }
    Ok(())
}

impl Topology {
    /// Checks what the types do not ensure: unique names and GUIDs, ports that exist and have at most one cable each,
    /// numbers within their [`limits`]. The topologies of loaders and generators pass.
    pub fn check(&self) -> Result<()> {
        let mut builder = Builder::default();
        for node in &self.nodes {
            builder.node(node.clone())?;
        }
        self.cables.iter().try_for_each(|cable| builder.cable(*cable))
    }
}
