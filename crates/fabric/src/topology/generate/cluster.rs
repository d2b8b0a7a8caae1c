//! Common steps of all generators: create switches and hosts of a plan, and cable them by number.

use super::super::{Builder, Cable, End, Node, NodeKind, Port, Result, limits};
use super::plan::{Plan, refuse};

/// A vendor ID that the IEEE has not assigned, the same as of Weft's verbs devices.
pub const VENDOR_ID: u32 = 0x45_5446;
/// DeviceID of generated adapters.
pub const ADAPTER_ID: u16 = 1;
/// DeviceID of generated switches.
pub const SWITCH_ID: u16 = 2;

/// A network under construction.
pub struct Cluster<'a> {
    plan: &'a Plan,
    builder: &'a mut Builder,
    hosts: u32,
}

impl<'a> Cluster<'a> {
    pub fn new(plan: &'a Plan, builder: &'a mut Builder) -> Cluster<'a> {
        Cluster { plan, builder, hosts: 0 }
    }

    /// Adds a switch with this many ports; returns its index.
    pub fn switch(&mut self, name: &str, ports: u32) -> Result<u32> {
        let Ok(ports) = u8::try_from(ports) else {
            return refuse(
                format!("a switch would have {ports} ports"),
                format!("a switch has at most {}: choose smaller parameters", limits::PORTS_MAX),
            );
        };
        let name = format!("{}{name}", self.plan.prefix);
        let node = self.node(NodeKind::Switch, &name, String::new(), name.clone(), ports);
        self.builder.node(node)
    }

    /// Adds the next host, from `node1` on, with one adapter of one port; returns its index.
    pub fn host(&mut self) -> Result<u32> {
        self.hosts += 1;
        let name = format!("{}node{}", self.plan.prefix, self.hosts);
        let description = format!("{name} weft0");
        let node = self.node(NodeKind::Ca, &name, name.clone(), description, 1);
        self.builder.node(node)
    }

    /// Adds the next host, cabled to a port of a switch.
    pub fn host_at(&mut self, switch: u32, port: u32) -> Result<()> {
        let host = self.host()?;
        self.cable(host, 1, switch, port)
    }

    /// Adds a cable between two ports.
    pub fn cable(&mut self, a: u32, a_port: u32, b: u32, b_port: u32) -> Result<()> {
        // A port beyond a byte exists at no node; the builder's error names it.
        let port = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        self.builder.cable(Cable::new(End { node: a, port: port(a_port) }, End { node: b, port: port(b_port) }))
    }

    /// Adds two hosts, back to back.
    pub fn pair(&mut self) -> Result<()> {
        let (a, b) = (self.host()?, self.host()?);
        self.cable(a, 1, b, 1)
    }

    /// Adds one switch with hosts.
    pub fn star(&mut self, hosts: u32) -> Result<()> {
        if hosts == 0 {
            return refuse("a switch without hosts", "say how many hosts it has, at least 1");
        }
        let switch = self.switch("switch1", hosts)?;
        (1..=hosts).try_for_each(|port| self.host_at(switch, port))
    }

    fn node(&self, kind: NodeKind, name: &str, host: String, description: String, ports: u8) -> Node {
        let port = Port { guid: 0, width: self.plan.width, speed: self.plan.speed };
        Node {
            kind,
            name: name.to_owned(),
            host,
            description,
            guid: 0,
            system_image_guid: 0,
            vendor_id: VENDOR_ID,
            device_id: if kind == NodeKind::Switch { SWITCH_ID } else { ADAPTER_ID },
            enhanced_port0: kind == NodeKind::Switch,
            lmc_max: 7,
            ports: vec![port; usize::from(ports)],
        }
    }
}
