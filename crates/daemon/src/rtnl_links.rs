//! Requests of rtnetlink(7) that make Ethernet links: a bridge, pairs of interfaces, and ports of the bridge.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::rtnl_changes::{NLM_F_CREATE, NLM_F_EXCL, RTM_NEWLINK, request};

const IFF_UP: u32 = 1;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// `struct ifinfomsg` without an index, flags or changes.
const ANY_LINK: [u8; 16] = [0; 16];

/// One end of a pair of interfaces.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Name of the interface.
    pub name: &'a str,
    /// MTU in bytes.
    pub mtu: u32,
}

/// Makes a bridge, off.
pub fn add_bridge(name: &str) -> Vec<u8> {
    let kind = attribute(IFLA_INFO_KIND, b"bridge");
    let attributes: [(u16, &[u8]); 2] = [(IFLA_IFNAME, &text(name)), (IFLA_LINKINFO, &kind)];
    request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ANY_LINK, &attributes)
}

/// Makes a pair of interfaces, both off: one with this address, the other in another network namespace.
pub fn add_pair(near: End<'_>, mac: [u8; 6], far: End<'_>, network: BorrowedFd<'_>) -> Vec<u8> {
    let namespace = network.as_raw_fd().to_ne_bytes();
    let peer = [
        ANY_LINK.to_vec(),
        attribute(IFLA_IFNAME, &text(far.name)),
        attribute(IFLA_MTU, &far.mtu.to_ne_bytes()),
        attribute(IFLA_NET_NS_FD, &namespace),
    ];
    let data = attribute(VETH_INFO_PEER, &peer.concat());
    let info = [attribute(IFLA_INFO_KIND, b"veth"), attribute(IFLA_INFO_DATA, &data)].concat();
    let attributes: [(u16, &[u8]); 4] = [
        (IFLA_IFNAME, &text(near.name)),
        (IFLA_ADDRESS, &mac),
        (IFLA_MTU, &near.mtu.to_ne_bytes()),
        (IFLA_LINKINFO, &info),
    ];
    request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ANY_LINK, &attributes)
}

/// Gives an interface an Ethernet address.
pub fn set_mac(name: &str, mac: [u8; 6]) -> Vec<u8> {
    let attributes: [(u16, &[u8]); 2] = [(IFLA_IFNAME, &text(name)), (IFLA_ADDRESS, &mac)];
    request(RTM_NEWLINK, 0, &ANY_LINK, &attributes)
}

/// Switches an interface on or off.
pub fn switch(name: &str, is_on: bool) -> Vec<u8> {
    let flags = if is_on { IFF_UP } else { 0 };
    let fixed = [&[0; 8][..], &flags.to_ne_bytes(), &IFF_UP.to_ne_bytes()].concat();
    request(RTM_NEWLINK, 0, &fixed, &[(IFLA_IFNAME, &text(name))])
}

/// Switches an interface on as a port of the bridge with this index.
pub fn join_bridge(name: &str, mtu: u32, bridge: u32) -> Vec<u8> {
    let fixed = [&[0; 8][..], &IFF_UP.to_ne_bytes(), &IFF_UP.to_ne_bytes()].concat();
    let attributes: [(u16, &[u8]); 3] =
        [(IFLA_IFNAME, &text(name)), (IFLA_MTU, &mtu.to_ne_bytes()), (IFLA_MASTER, &bridge.to_ne_bytes())];
    request(RTM_NEWLINK, 0, &fixed, &attributes)
}

fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// An attribute, padded to four bytes, for use inside another one.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut out = [&(value.len() as u16 + 4).to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn attributes_are_padded_but_their_lengths_are_not() {
        assert_eq!(attribute(IFLA_INFO_KIND, b"veth").len(), 8);
        assert_eq!(attribute(IFLA_INFO_KIND, b"bridge")[..5], [10, 0, 1, 0, b'b']);
        assert_eq!(attribute(IFLA_INFO_KIND, b"bridge").len(), 12);
    }

    #[test]
    fn a_pair_names_the_namespace_of_its_far_end() {
        let network = std::fs::File::open("/dev/null").unwrap();
        let bytes =
            add_pair(End { name: "eth0", mtu: 1500 }, [2; 6], End { name: "port1", mtu: 1500 }, network.as_fd());
        assert_eq!(bytes.len() as u32, u32::from_ne_bytes(bytes[..4].try_into().unwrap()));
        let namespace = attribute(IFLA_NET_NS_FD, &network.as_raw_fd().to_ne_bytes());
        assert!(bytes.windows(8).any(|window| window == namespace));
    }
}
