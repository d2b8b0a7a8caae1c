//! IP addresses of adapters' ports, for programs that connect by address (RDMA CM). A real fabric has them from IPoIB
//! interfaces and finds the GID of an address by ARP; here they follow from the topology, so every host knows them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::topology::{NodeKind, Topology};
use crate::{EthernetPorts, PortRef};

/// The network that all ports are in, 10.0.0.0/8; the first port of the first adapter is 10.0.0.1.
const NETWORK: u32 = 0x0a00_0000;

/// The address table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Number of each adapter's first port among all ports, by the adapter's index in the topology.
    first: BTreeMap<u32, u32>,
    /// The ports in that order.
    ports: Vec<PortRef>,
    /// Ports outside the fabric, in a network of their own.
    ethernet: EthernetPorts,
}

impl Addresses {
    /// Assigns addresses to every port of every adapter, in the order of the topology.
    pub fn new(topology: &Topology) -> Addresses {
        let mut table = Addresses { ethernet: EthernetPorts::new(topology), ..Addresses::default() };
        for (place, node) in (0u32..).zip(&topology.nodes) {
            if node.kind == NodeKind::Ca {
                table.first.insert(place, u32::try_from(table.ports.len()).unwrap_or(u32::MAX));
                table.ports.extend((1..=node.port_count()).map(|number| PortRef::new(place, number)));
            }
        }
        table
    }

    /// Returns the address of a port.
    pub fn ip(&self, port: PortRef) -> Option<Ipv4Addr> {
        if let Some(ip) = self.ethernet.ip(port) {
            return Some(ip);
        }
        let number = self.first.get(&port.node)?.checked_add(u32::from(port.port).checked_sub(1)?)?;
        // A number beyond the adapter's last port would be the next adapter's port.
        (*self.ports.get(number as usize)? == port).then(|| Ipv4Addr::from(NETWORK + 1 + number))
    }

    /// Returns the ports of all adapters, in the order of their addresses.
    pub fn ports(&self) -> impl Iterator<Item = PortRef> {
        self.ports.iter().copied()
    }

    /// Returns the port of an address.
    pub fn port(&self, ip: Ipv4Addr) -> Option<PortRef> {
        if let Some(port) = self.ethernet.by_ip(ip) {
            return Some(port);
        }
        let number = u32::from(ip).checked_sub(NETWORK + 1)?;
        self.ports.get(number as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::generate::{Plan, Shape};

    #[test]
    fn every_port_of_an_adapter_has_one_and_switches_have_none() {
        let topology =
            Plan::new(Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None }).generate().unwrap();
        let table = Addresses::new(&topology);
        let mut seen = 0;
        for (place, node) in (0u32..).zip(&topology.nodes) {
            for number in 1..=node.port_count() {
                let port = PortRef::new(place, number);
                let ip = table.ip(port);
                assert_eq!(ip.is_some(), node.kind == NodeKind::Ca);
                assert_eq!(ip.and_then(|ip| table.port(ip)), ip.map(|_| port));
                seen += usize::from(ip.is_some());
            }
            assert_eq!(table.ip(PortRef::new(place, 0)), None);
            assert_eq!(table.ip(PortRef::new(place, node.port_count() + 1)), None);
        }
        assert_eq!(seen, 8);
        assert_eq!(
            table.port(Ipv4Addr::new(10, 0, 0, 1)).and_then(|port| table.ip(port)).map(|ip| ip.octets()[3]),
            Some(1)
        );
        assert_eq!([[10, 0, 0, 0], [10, 0, 0, 9], [9, 9, 9, 9], [255; 4]].map(|ip| table.port(ip.into())), [None; 4]);
    }
}
