//! Ethernet ports of adapters. They are no part of the fabric: their cables lead to one Ethernet switch, and a RoCE packet
//! arrives at the port that has its destination GID.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::PortRef;
use crate::topology::{NodeKind, Topology};

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
/// The bit of a group's Ethernet address.
const GROUP: u8 = 1;

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

    /// Returns the port of a GID.
    pub fn by_gid(&self, gid: [u8; 16]) -> Option<PortRef> {
        self.by_gid.get(&gid).copied()
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
    let made_of = [a ^ UNIVERSAL, b, c, f, g, h];
    // No interface may have a group's address, or none.
    let is_valid = made_of[0] & GROUP == 0 && made_of != [0; 6];
    if [d, e] == EUI_64 && is_valid { made_of } else { [UNIVERSAL, b'w', b'e', b'f', high, low] }
}

/// Returns the link-local GID of an Ethernet address (RFC 4291 appendix A).
fn link_local(mac: [u8; 6]) -> [u8; 16] {
    let [a, b, c, d, e, f] = mac;
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ UNIVERSAL, b, c, EUI_64[0], EUI_64[1], d, e, f]
}
