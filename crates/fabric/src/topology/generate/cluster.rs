//! Common steps of all generators: create switches and hosts of a plan, and cable them by number.

use super::super::builder::adapter_name;
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
    /// With several adapters for each host: switch ports for adapters, whose hosts are added at the end.
    free: Vec<(u32, u32)>,
}

impl<'a> Cluster<'a> {
    pub fn new(plan: &'a Plan, builder: &'a mut Builder) -> Cluster<'a> {
        Cluster { plan, builder, hosts: 0, free: Vec::new() }
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

    /// Adds the next host, from `node1` on; returns the indices of its adapters, which have one port each.
    fn host(&mut self) -> Result<Vec<u32>> {
        self.hosts += 1;
        let host = format!("{}node{}", self.plan.prefix, self.hosts);
        let adapter = |rail| {
            let adapter = adapter_name(&self.plan.adapter, rail);
            let name = if self.plan.rails == 1 { host.clone() } else { format!("{host}/{adapter}") };
            let description = format!("{host} {adapter}");
            Node { adapter, ..self.node(NodeKind::Ca, &name, host.clone(), description, 1) }
        };
        let adapters: Vec<Node> = (0..usize::from(self.plan.rails)).map(adapter).collect();
        adapters.into_iter().map(|node| self.builder.node(node)).collect()
    }

    /// Gives a port of a switch to hosts. Ports of a switch must be given in one go.
    pub fn host_at(&mut self, switch: u32, port: u32) -> Result<()> {
        if self.plan.rails > 1 {
            self.free.push((switch, port));
            return Ok(());
        }
        self.host()?.into_iter().try_for_each(|host| self.cable(host, 1, switch, port))
    }

    /// Adds the hosts with several adapters. As many neighbouring switches as a host has adapters share their hosts:
    /// the first has the first adapter of each, the second the second. Where fewer switches are left, all adapters of a
    /// host are at the same one.
    pub fn finish(&mut self) -> Result<()> {
        let free = std::mem::take(&mut self.free);
        let switches: Vec<&[(u32, u32)]> = free.chunk_by(|a, b| a.0 == b.0).collect();
        let rails = usize::from(self.plan.rails);
        for group in switches.chunks(rails) {
            let places: Vec<Vec<(u32, u32)>> = match group.len() == rails {
                true => {
                    let hosts = group.iter().map(|ports| ports.len()).min().unwrap_or(0);
                    (0..hosts).map(|host| group.iter().map(|ports| ports[host]).collect()).collect()
                }
                false => group.iter().flat_map(|ports| ports.chunks_exact(rails)).map(<[_]>::to_vec).collect(),
            };
            for ports in places {
                let adapters = self.host()?;
                adapters
                    .into_iter()
                    .zip(ports)
                    .try_for_each(|(adapter, (switch, port))| self.cable(adapter, 1, switch, port))?;
            }
        }
        if !free.is_empty() && self.hosts == 0 {
            return refuse(
                format!("no switch has room for {rails} adapters of a host"),
                "take fewer rails, or more hosts at a switch",
            );
        }
        Ok(())
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
        a.into_iter().zip(b).try_for_each(|(a, b)| self.cable(a, 1, b, 1))
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
        let port = Port::infiniband(0, self.plan.width, self.plan.speed);
        Node {
            kind,
            name: name.to_owned(),
            host,
            adapter: String::new(),
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
