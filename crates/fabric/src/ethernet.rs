//! Ethernet ports of adapters. They are no part of the fabric: their cables lead to one Ethernet switch, and a RoCE packet
//! arrives at the port that has its destination GID.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::topology::{NodeKind, Topology};
use crate::{Delivery, Fabric, MadOut, PKEY_DEFAULT, PortRef};
use weft_wire::mad::GSI_QPN;

/// The network that all these ports are in, 192.168.0.0/16. The first is 192.168.1.1; no address ends in 0 or 255.
const NETWORK: [u8; 2] = [192, 168];
/// Addresses in each /24, from 1 on, and number of them.
const ADDRESSES: u32 = 254;
/// Ports with an address.
const PORTS_MAX: u32 = ADDRESSES * ADDRESSES;

/// The bytes in the middle of a GUID that was made of an Ethernet address (EUI-64).
const EUI_64: [u8; 2] = [0xff, 0xfe];
/// The bit of an EUI-64 that modified EUI-64 inverts.
const UNIVERSAL: u8 = 2;

/// A GID of an Ethernet port. Each is in the port's table twice: for RoCE v1 and for RoCE v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetGid {
    /// The GID.
    pub gid: [u8; 16],
    /// Whether it is of RoCE v2.
    pub is_v2: bool,
}

/// The Ethernet ports with cables, in the order of the topology, with their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EthernetPorts {
    /// Each port, and its Ethernet address.
    ports: Vec<(PortRef, [u8; 6])>,
    numbers: BTreeMap<PortRef, u32>,
    by_gid: BTreeMap<[u8; 16], PortRef>,
}

impl EthernetPorts {
    /// Assigns addresses to the ports of a topology.
    pub fn new(topology: &Topology) -> EthernetPorts {
        let mut table = EthernetPorts::default();
        for (place, node) in (0u32..).zip(&topology.nodes).filter(|(_, node)| node.kind == NodeKind::Ca) {
            for (number, port) in (1u8..).zip(&node.ports).filter(|(_, port)| port.is_on_ethernet) {
                table.add(PortRef::new(place, number), port.guid);
            }
        }
        table
    }

    fn add(&mut self, at: PortRef, guid: u64) {
        let number = self.ports.len() as u32;
        if number >= PORTS_MAX {
            return;
        }
        self.ports.push((at, mac_of(guid, number)));
        self.numbers.insert(at, number);
        for row in self.gids(at) {
            self.by_gid.entry(row.gid).or_insert(at);
        }
    }

    /// Returns the number of a port among all of them; `None` without a cable.
    pub fn number(&self, port: PortRef) -> Option<u32> {
        self.numbers.get(&port).copied()
    }

    /// Returns all ports.
    pub fn iter(&self) -> impl Iterator<Item = PortRef> {
        self.ports.iter().map(|(port, _)| *port)
    }

    /// Returns the Ethernet address of a port.
    pub fn mac(&self, port: PortRef) -> Option<[u8; 6]> {
        Some(self.ports.get(self.number(port)? as usize)?.1)
    }

    /// Returns the IP address of a port.
    pub fn ip(&self, port: PortRef) -> Option<Ipv4Addr> {
        let number = self.number(port)?;
        let [third, fourth] = [number / ADDRESSES, number % ADDRESSES].map(|part| (part + 1) as u8);
        Some(Ipv4Addr::new(NETWORK[0], NETWORK[1], third, fourth))
    }

    /// Returns the port of an IP address.
    pub fn by_ip(&self, ip: Ipv4Addr) -> Option<PortRef> {
        let [a, b, third, fourth] = ip.octets();
        let [third, fourth] = [third, fourth].map(|part| u32::from(part).checked_sub(1));
        let number = third? * ADDRESSES + fourth.filter(|fourth| *fourth < ADDRESSES)?;
        Some(self.ports.get(number as usize).filter(|_| [a, b] == NETWORK)?.0)
    }

    /// Returns whether a GID is one of these ports'.
    pub fn has_gid(&self, gid: [u8; 16]) -> bool {
        self.by_gid.contains_key(&gid)
    }

    /// Returns the GID table of a port, as Linux fills it: the link-local GID of its Ethernet address first, then that of
    /// its IP address. Empty without a cable.
    pub fn gids(&self, port: PortRef) -> Vec<EthernetGid> {
        let (Some(mac), Some(ip)) = (self.mac(port), self.ip(port)) else { return Vec::new() };
        let gids = [link_local(mac), ip.to_ipv6_mapped().octets()];
        gids.into_iter().flat_map(|gid| [false, true].map(|is_v2| EthernetGid { gid, is_v2 })).collect()
    }
}

/// Returns the Ethernet address that a PortGUID was made of; a local one for a GUID that was not made of one.
fn mac_of(guid: u64, number: u32) -> [u8; 6] {
    let [a, b, c, d, e, f, g, h] = guid.to_be_bytes();
    let [_, _, high, low] = number.wrapping_add(1).to_be_bytes();
    if [d, e] == EUI_64 { [a ^ UNIVERSAL, b, c, f, g, h] } else { [UNIVERSAL, b'w', b'e', b'f', high, low] }
}

/// Returns the link-local GID of an Ethernet address (RFC 4291 appendix A).
fn link_local(mac: [u8; 6]) -> [u8; 16] {
    let [a, b, c, d, e, f] = mac;
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ UNIVERSAL, b, c, EUI_64[0], EUI_64[1], d, e, f]
}

impl Fabric {
    /// Returns the Ethernet ports.
    pub fn ethernet(&self) -> &EthernetPorts {
        &self.ethernet
    }

    /// Returns the port where RoCE packets from an Ethernet port to a GID arrive.
    pub fn over_ethernet(&self, from: PortRef, dgid: [u8; 16]) -> Option<PortRef> {
        let is_up = |port: &PortRef| self.place(*port).is_some_and(|at| self.ports[at as usize].is_up_on_ethernet());
        let to = self.ethernet.by_gid.get(&dgid).copied();
        to.filter(|to| is_up(to) && is_up(&from))
    }

    /// Carries a general management datagram of an Ethernet port; one without a destination is lost.
    pub(crate) fn send_over_ethernet(&mut self, from: PortRef, out: &MadOut) {
        let to = &out.to;
        let arrives = to.grh.filter(|_| to.dest_qp == GSI_QPN).and_then(|grh| self.over_ethernet(from, grh.dgid));
        if let Some(port) = arrives {
            self.deliver(Delivery {
                port,
                slid: 0,
                path_bits: 0,
                sl: to.sl,
                src_qp: to.src_qp,
                dest_qp: to.dest_qp,
                pkey_index: 0,
                pkey: PKEY_DEFAULT,
                grh: to.grh,
                mad: out.mad,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;
    use crate::{GlobalRoute, MadAddress};
    use weft_verbs::Instant;
    use weft_wire::mad::Mad;

    const TEXT: &str = r#"
        cables = ["node1:1 - node2:1"]
        [[host]]
        name = "node1"
        ports = 2
        links = ["4xFDR", "40GbE"]
        port-guids = ["0xf4521403007be131", "0xf65214fffe7be132"]
        [[host]]
        name = "node2"
        ports = 3
        links = ["4xFDR", "Ethernet", "100GbE"]
    "#;
    const FIRST: PortRef = PortRef { node: 0, port: 2 };
    const SECOND: PortRef = PortRef { node: 1, port: 3 };

    fn fabric() -> Fabric {
        Fabric::new(&topology::file::read("two", TEXT).unwrap(), 1)
    }

    #[test]
    fn addresses_follow_from_guids_and_order() {
        let fabric = fabric();
        let ports = fabric.ethernet();
        assert_eq!(ports.iter().collect::<Vec<_>>(), [FIRST, SECOND], "a port without a cable has no address");
        assert_eq!(ports.mac(FIRST), Some([0xf4, 0x52, 0x14, 0x7b, 0xe1, 0x32]), "the GUID's own");
        assert_eq!(ports.mac(SECOND), Some([2, b'w', b'e', b'f', 0, 2]));
        assert_eq!(ports.ip(SECOND), Some(Ipv4Addr::new(192, 168, 1, 2)));
        assert_eq!(ports.by_ip(Ipv4Addr::new(192, 168, 1, 2)), Some(SECOND));
        assert_eq!([[192, 168, 1, 0], [192, 168, 1, 3], [10, 0, 1, 1]].map(|ip| ports.by_ip(ip.into())), [None; 3]);
        let rows = ports.gids(FIRST);
        assert_eq!(rows.iter().map(|row| row.is_v2).collect::<Vec<_>>(), [false, true, false, true]);
        assert_eq!(rows[0].gid[8..], [0xf6, 0x52, 0x14, 0xff, 0xfe, 0x7b, 0xe1, 0x32]);
        assert_eq!(rows[3].gid[10..], [0xff, 0xff, 192, 168, 1, 1]);
    }

    #[test]
    fn datagrams_arrive_by_gid_while_both_ends_have_power() {
        let mut fabric = fabric();
        let now = Instant::default();
        let dgid = fabric.ethernet().gids(SECOND)[2].gid;
        let mut to = MadAddress::gsi(0, PKEY_DEFAULT);
        to.grh = Some(GlobalRoute { dgid, ..GlobalRoute::default() });
        let out = MadOut { to, mad: Mad::parse(&[0; 256]).unwrap() };
        fabric.send(now, FIRST, &out).unwrap();
        let delivery = fabric.poll_delivery().unwrap();
        assert_eq!((delivery.port, delivery.slid, delivery.grh), (SECOND, 0, to.grh));
        let strange = MadOut { to: MadAddress { grh: None, ..to }, ..out };
        fabric.send(now, FIRST, &strange).unwrap();
        fabric.power_off(now, SECOND.node).unwrap();
        assert_eq!(fabric.over_ethernet(FIRST, dgid), None);
        fabric.send(now, FIRST, &out).unwrap();
        assert_eq!(fabric.poll_delivery(), None);
        fabric.power_on(now, SECOND.node).unwrap();
        assert_eq!(fabric.over_ethernet(FIRST, dgid), Some(SECOND));
    }
}
