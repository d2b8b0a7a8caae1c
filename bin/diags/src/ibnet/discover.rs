//! The walk through a fabric: a NodeInfo request out of every connected port, and queries of each new node.
//!
//! Requests wait in a queue, with a limited number outstanding. The order of requests and answers is libibnetdisc's, so
//! that both list a fabric alike if its answers come in order.

use std::collections::{HashMap, VecDeque};
use std::io;

use super::{Attribute, Fabric, Node, PortRef, chassis, port::PHYS_LINK_UP};
use crate::ib::address::{LID_PERMISSIVE, PortId};

/// Subnet management attributes that discovery requests.
pub mod attribute_id {
    /// NodeDescription.
    pub const NODE_DESCRIPTION: u16 = 0x10;
    /// NodeInfo.
    pub const NODE_INFO: u16 = 0x11;
    /// SwitchInfo.
    pub const SWITCH_INFO: u16 = 0x12;
    /// PortInfo.
    pub const PORT_INFO: u16 = 0x15;
    /// Mellanox's ExtendedPortInfo.
    pub const MLNX_EXT_PORT_INFO: u16 = 0xff90;
}
use attribute_id::{MLNX_EXT_PORT_INFO, NODE_DESCRIPTION, NODE_INFO, PORT_INFO, SWITCH_INFO};

/// Maximum number of nodes: there are no LIDs for more.
const NODES_MAX: usize = 1 << 16;
/// Maximum number of PortInfos: the switches of a fabric of this size have no more ports.
const PORTS_MAX: usize = 1 << 20;
/// Maximum number of requests across the start port's cable: one at the start, one after the walk returns by that
/// cable.
const RETURNS_MAX: u32 = 2;
/// Maximum number of queued requests: a fabric with the maximum number of nodes never has more.
const QUEUE_MAX: usize = 1 << 20;
/// LinkSpeedActive of 10 Gb/s per lane; a Mellanox port with this value may run FDR10.
const QDR: u8 = 4;

/// Parameters of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Maximum number of outstanding requests.
    pub in_flight: u32,
    /// Whether to print each node found.
    pub show_progress: bool,
    /// Maximum number of hops; 0 means no limit.
    pub max_hops: u32,
    /// Whether to query Mellanox ports for ExtendedPortInfo.
    pub mlnx_ext_port_info: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { in_flight: 2, show_progress: false, max_hops: 0, mlnx_ext_port_info: true }
    }
}

/// A Get request of subnet management.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Destination.
    pub to: PortId,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Timeout or send error: an errno.
    Transport(i32),
    /// The status in the answer.
    Status(u16),
}

/// Sends discovery's requests and receives the answers.
pub trait Carrier {
    /// Sends a request and returns the number that identifies its answer.
    ///
    /// # Errors
    /// The request could not be sent.
    fn send(&mut self, question: &Question) -> io::Result<u64>;

    /// Waits for the next answer.
    ///
    /// # Errors
    /// The carrier can receive no more.
    fn receive(&mut self) -> io::Result<(u64, Result<Attribute, Refusal>)>;

    /// The LID of the local port that sends the requests.
    fn own_lid(&self) -> u16;
}

/// The subject of a request, for its answer.
#[derive(Clone, Copy, Debug)]
enum About {
    /// The node at the other end of this port's cable; `None` for the node where the walk starts.
    Neighbour(Option<PortRef>),
    /// A node.
    Node(usize),
    /// A port.
    Port(PortRef),
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    question: Question,
    about: About,
}

struct Walk<'a> {
    carrier: &'a mut dyn Carrier,
    config: Config,
    fabric: Fabric,
    queue: VecDeque<Asked>,
    under_way: HashMap<u64, Asked>,
    first_hops: usize,
    /// Number of requests across the start port's cable.
    returns: u32,
}

/// Walks the fabric, starting at `from`.
///
/// # Errors
/// The starting node did not answer, or the carrier failed.
pub fn discover(carrier: &mut dyn Carrier, from: PortId, config: Config) -> Result<Fabric, String> {
    let mut walk = Walk {
        carrier,
        config,
        fabric: Fabric::default(),
        queue: VecDeque::new(),
        under_way: HashMap::new(),
        first_hops: from.dr_path.count,
        returns: 0,
    };
    walk.ask(from, NODE_INFO, 0, About::Neighbour(None)).map_err(|e| e.to_string())?;
    walk.run().map_err(|e| e.to_string())?;
    let mut fabric = walk.fabric;
    fabric.max_hops += u32::try_from(from.dr_path.count).unwrap_or(0);
    if fabric.from.is_none() {
        return Err(format!("{from} does not answer"));
    }
    chassis::group(&mut fabric)?;
    Ok(fabric)
}

impl Walk<'_> {
    fn run(&mut self) -> io::Result<()> {
        while !self.under_way.is_empty() {
            let (number, answer) = self.carrier.receive()?;
            // An answer without an outstanding request.
            let Some(asked) = self.under_way.remove(&number) else { continue };
            self.fill()?;
            match answer {
                Ok(data) => self.on_answer(&asked, data)?,
                Err(refusal) => self.on_refusal(&asked, refusal)?,
            }
        }
        Ok(())
    }

    fn ask(&mut self, to: PortId, attribute: u16, modifier: u32, about: About) -> io::Result<()> {
        if self.queue.len() >= QUEUE_MAX {
            return Err(io::Error::other(format!("more than {QUEUE_MAX} requests queued; fabric is inconsistent")));
        }
        self.queue.push_back(Asked { question: Question { to, attribute, modifier }, about });
        self.fill()
    }

    fn fill(&mut self) -> io::Result<()> {
        while self.under_way.len() < self.config.in_flight.max(1) as usize {
            let Some(asked) = self.queue.pop_front() else { break };
            let number = self.carrier.send(&asked.question)?;
            self.under_way.insert(number, asked);
            self.fabric.mads += 1;
        }
        Ok(())
    }

    fn on_refusal(&mut self, asked: &Asked, refusal: Refusal) -> io::Result<()> {
        let Question { to, attribute, modifier } = asked.question;
        match refusal {
            Refusal::Transport(errno) => {
                let why = crate::errno::text(&io::Error::from_raw_os_error(errno));
                crate::errln!("discovery; umad ({to} Attr 0x{attribute:x}:{modifier}) bad status {errno}; {why}");
            }
            Refusal::Status(status) => {
                crate::errln!("discovery; mad ({to} Attr 0x{attribute:x}:{modifier}) bad status 0x{status:x}");
            }
        }
        match asked.about {
            // A port without ExtendedPortInfo may still have a cable.
            About::Port(at) if attribute == MLNX_EXT_PORT_INFO => self.cross(at, &to),
            _ => Ok(()),
        }
    }

    fn on_answer(&mut self, asked: &Asked, data: Attribute) -> io::Result<()> {
        let to = asked.question.to;
        match asked.about {
            About::Neighbour(via) => self.on_node_info(data, to, via),
            About::Node(node) if asked.question.attribute == SWITCH_INFO => {
                let node = self.fabric.node_mut(node);
                node.switch_info = data;
                node.enhanced_port0 = node.says_enhanced_port0();
                Ok(())
            }
            About::Node(node) => {
                self.fabric.node_mut(node).description = data;
                Ok(())
            }
            About::Port(at) if asked.question.attribute == MLNX_EXT_PORT_INFO => {
                if let Some(port) = self.fabric.port_mut(at) {
                    port.extended_info = data;
                }
                self.cross(at, &to)
            }
            About::Port(at) => self.on_port_info(data, to, at),
        }
    }

    fn on_node_info(&mut self, info: Attribute, to: PortId, via: Option<PortRef>) -> io::Result<()> {
        let mut heard = Node::new(info);
        heard.path = Some(to);
        let known = self.fabric.find_node(heard.guid);
        if known.is_none() && self.fabric.node_count() >= NODES_MAX {
            return Err(io::Error::other(format!("the fabric has more than {NODES_MAX} nodes")));
        }
        let (guid, num) = (heard.info_port_guid(), heard.local_port());
        let index = known.unwrap_or_else(|| self.fabric.add(heard));
        let node = self.fabric.node_mut(index);
        let Some(port) = node.port_or_new(num) else {
            let ports = node.num_ports;
            crate::errln!("discovery; {to} claims to be port {num} of {ports}; ignored");
            return Ok(());
        };
        port.guid = guid;
        let at = PortRef { node: index, port: num };
        if self.config.show_progress {
            self.show(&to, known.is_none(), at);
        }
        match via {
            None => self.fabric.from = Some(at),
            Some(via) => self.fabric.link(at, via),
        }
        self.ask_about(index, num, to, known.is_none())
    }

    fn ask_about(&mut self, index: usize, num: u8, to: PortId, is_new: bool) -> io::Result<()> {
        let is_switch = self.fabric.node(index).is_switch();
        if is_new {
            self.ask(to, NODE_DESCRIPTION, 0, About::Node(index))?;
        }
        if is_new && is_switch {
            self.ask(to, SWITCH_INFO, 0, About::Node(index))?;
            self.ask(to, PORT_INFO, 0, About::Port(PortRef { node: index, port: 0 }))?;
        }
        if !is_switch {
            self.ask(to, PORT_INFO, num.into(), About::Port(PortRef { node: index, port: num }))?;
        }
        Ok(())
    }

    fn on_port_info(&mut self, info: Attribute, to: PortId, at: PortRef) -> io::Result<()> {
        let node = self.fabric.node_mut(at.node);
        let (is_switch, num_ports, guid) = (node.is_switch(), node.num_ports, node.info_port_guid());
        let base = (node.sma_lid, node.sma_lmc);
        let is_new = node.port(at.port).is_none();
        let Some(port) = node.port_or_new(at.port) else { return Ok(()) };
        if is_new {
            port.guid = guid;
        }
        port.info = info;
        (port.lid, port.lmc) = (port.info_lid(), port.info_lmc());
        if at.port == 0 {
            let base = (port.lid, port.lmc);
            (node.sma_lid, node.sma_lmc) = base;
        } else if is_switch {
            (port.lid, port.lmc) = base;
        }
        if self.fabric.announced().len() >= PORTS_MAX {
            return Err(io::Error::other(format!("the fabric has more than {PORTS_MAX} ports")));
        }
        self.fabric.announce(at);
        if self.wants_extended(at) {
            self.ask(to, MLNX_EXT_PORT_INFO, at.port.into(), About::Port(at))?;
        } else {
            self.cross(at, &to)?;
        }
        if at.port == 0 {
            for num in 1..=num_ports {
                self.ask(to, PORT_INFO, num.into(), About::Port(PortRef { node: at.node, port: num }))?;
            }
        }
        Ok(())
    }

    /// Whether a port may run Mellanox's FDR10, which PortInfo does not distinguish from QDR.
    fn wants_extended(&self, at: PortRef) -> bool {
        let node = self.fabric.node(at.node);
        let Some(port) = node.port(at.port) else { return false };
        let plain = node.extended_speeds_of(port).is_none_or(|speeds| speeds.active(&port.info.0) == 0);
        self.config.mlnx_ext_port_info
            && has_mlnx_ext_port_info(node.vendor_id(), node.device_id())
            && port.phys_state() == PHYS_LINK_UP
            && port.speed_active() == QDR
            && plain
    }

    /// Requests the NodeInfo at the other end of a port's cable.
    fn cross(&mut self, at: PortRef, to: &PortId) -> io::Result<()> {
        let node = self.fabric.node(at.node);
        let Some(port) = node.port(at.port) else { return Ok(()) };
        let starts_here = self.fabric.from == Some(at);
        let leads_on = starts_here || node.is_switch() && at.port != port.local_port();
        if at.port == 0 || port.phys_state() != PHYS_LINK_UP || !leads_on {
            return Ok(());
        }
        if starts_here {
            self.returns += 1;
            // Otherwise a neighbour that claims to be this same port would keep the walk going forever.
            if self.returns > RETURNS_MAX {
                return Ok(());
            }
        }
        let beyond = if !node.is_switch() && to.dr_path.count > 1 {
            self.retracted(to)
        } else if to.lid == 0 || node.is_switch() {
            self.extended(to, at.port)
        } else {
            // A directed route does not pass through an adapter.
            None
        };
        match beyond {
            Some(beyond) => self.ask(beyond, NODE_INFO, 0, About::Neighbour(Some(at))),
            None => Ok(()),
        }
    }

    fn far_enough(&self) -> bool {
        self.config.max_hops != 0 && self.fabric.max_hops > self.config.max_hops
    }

    /// Drops the last hop: if the walk starts at an adapter, its neighbour is one hop back.
    fn retracted(&mut self, to: &PortId) -> Option<PortId> {
        if self.far_enough() {
            return None;
        }
        self.fabric.max_hops += 1;
        let mut back = *to;
        if let Some(last) = back.dr_path.path.get_mut(back.dr_path.count) {
            *last = 0;
        }
        back.dr_path.count -= 1;
        Some(back)
    }

    fn extended(&mut self, to: &PortId, port: u8) -> Option<PortId> {
        if self.far_enough() {
            return None;
        }
        let mut on = *to;
        if on.lid != 0 {
            (on.dr_path.dr_slid, on.dr_path.dr_dlid) = (self.carrier.own_lid(), LID_PERMISSIVE);
        }
        let Some(path) = on.dr_path.extended(port) else {
            crate::errln!("discovery; add port {port} to DR path failed; {on}");
            return None;
        };
        on.dr_path = path;
        let hops = path.count.saturating_sub(self.first_hops);
        if hops > self.fabric.max_hops as usize {
            self.fabric.max_hops += 1;
        }
        Some(on)
    }

    fn show(&self, to: &PortId, is_new: bool, at: PortRef) {
        let node = self.fabric.node(at.node);
        let Some(port) = node.port(at.port) else { return };
        let prompt = if is_new { "new" } else { "known" };
        let num = if node.is_switch() { 0 } else { port.num };
        let last = u32::from(port.lid) + (1 << port.lmc) - 1;
        let (kind, guid, lid) = (node.kind.long_name(), node.guid, port.lid);
        let name = node.name();
        crate::outln!("{to} -> {prompt} {kind} {{{guid:016x}}} portnum {num} lid {lid}-{last} \"{name}\"");
    }
}

/// Whether a chip supports Mellanox's ExtendedPortInfo.
pub fn has_mlnx_ext_port_info(vendor: u32, device: u16) -> bool {
    /// Bull's vendor ID.
    const BULL: u32 = 0x119f;
    match device {
        0xc738..=0xc73b | 0xc839 | 0xcb20 | 0xcf08 | 0xcf09 | 0xd2f0 | 0x1003..=0x101b | 0xa2d2 => true,
        0x1b02 | 0x1b50 | 0x1ba0 | 0x1bd0..=0x1bd5 | 0x1bf0 => vendor == BULL,
        0x1b33 | 0x1b73 | 0x1b40 | 0x1b41 | 0x1b60 | 0x1b61 | 0x1b83 | 0x1b93 | 0x1b94 => vendor == BULL,
        0x1bb4 | 0x1bb5 | 0x1bc4..=0x1bc6 => vendor == BULL,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
