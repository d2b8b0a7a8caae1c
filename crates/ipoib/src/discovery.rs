//! Neighbour solicitations and advertisements (RFC 4861 §4.3 and §4.4) in IPv6 packets.

use std::net::Ipv6Addr;

use weft_wire::ipoib::{LinkAddress, LinkAddressOption};

use crate::checksum::{ICMPV6, icmpv6_checksum};

/// Bytes of an IPv6 header, and of a message before its options.
const IPV6_LEN: usize = 40;
const MESSAGE_LEN: usize = 24;
/// Hop limit of every message: one that a router forwarded is ignored.
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Flags of an advertisement: it answers a solicitation, and replaces what is known.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A message of neighbour discovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Discovery {
    /// A solicitation; otherwise an advertisement.
    pub solicits: bool,
    /// Source address; unspecified while an address is tested for duplicates.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// The address that is asked for, or answered.
    pub target: Ipv6Addr,
    /// Link-layer address of the sender, or of the target.
    pub address: Option<LinkAddress>,
}

/// Returns the group of the nodes whose address has these last 24 bits (RFC 4291 §2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

impl Discovery {
    /// Reads a packet; `None` if it is no message of neighbour discovery, or a damaged one.
    pub fn parse(packet: &[u8]) -> Option<Discovery> {
        let (header, rest) = packet.split_first_chunk::<IPV6_LEN>()?;
        if header[0] >> 4 != 6 || header[6] != ICMPV6 || header[7] != HOP_LIMIT {
            return None;
        }
        let octets = |from: usize| -> [u8; 16] { std::array::from_fn(|i| header[from + i]) };
        let (src, dst) = (Ipv6Addr::from(octets(8)), Ipv6Addr::from(octets(24)));
        let message = rest.get(..usize::from(u16::from_be_bytes([header[4], header[5]])))?;
        let (fixed, options) = message.split_first_chunk::<MESSAGE_LEN>()?;
        let [kind, code, ..] = *fixed;
        if !matches!(kind, SOLICITATION | ADVERTISEMENT)
            || code != 0
            || icmpv6_checksum(&src.octets(), &dst.octets(), message) != 0
        {
            return None;
        }
        let solicits = kind == SOLICITATION;
        let option = if solicits { LinkAddressOption::SOURCE } else { LinkAddressOption::TARGET };
        let target: [u8; 16] = *fixed.last_chunk()?;
        let address = LinkAddressOption::find(options, option).map(|option| option.address);
        Some(Discovery { solicits, src, dst, target: target.into(), address })
    }

    /// Writes the packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = vec![0; MESSAGE_LEN];
        message[0] = if self.solicits { SOLICITATION } else { ADVERTISEMENT };
        if !self.solicits {
            message[4] = OVERRIDE | if self.dst.is_multicast() { 0 } else { SOLICITED };
        }
        message[8..].copy_from_slice(&self.target.octets());
        if let Some(address) = self.address {
            let kind = if self.solicits { LinkAddressOption::SOURCE } else { LinkAddressOption::TARGET };
            message.extend_from_slice(&LinkAddressOption { kind, address }.encode());
        }
        let sum = icmpv6_checksum(&self.src.octets(), &self.dst.octets(), &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&(message.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[ICMPV6, HOP_LIMIT]);
        packet.extend_from_slice(&self.src.octets());
        packet.extend_from_slice(&self.dst.octets());
        packet.extend_from_slice(&message);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_solicitation_is_read_as_it_was_written_and_damage_is_seen() {
        let target: Ipv6Addr = "fe80::e61d:2d03:e7:ff6".parse().unwrap();
        let address = Some(LinkAddress { flags: 0x80, qpn: 0x208, gid: [9; 16] });
        let src = "fe80::1".parse().unwrap();
        let sent = Discovery { solicits: true, src, dst: solicited_node(target), target, address };
        assert_eq!(sent.dst.to_string(), "ff02::1:ffe7:ff6");
        let packet = sent.encode();
        assert_eq!(packet.len(), 40 + 24 + 24);
        assert_eq!(Discovery::parse(&packet), Some(sent));
        let reply = Discovery { solicits: false, dst: src, src: target, ..sent };
        assert_eq!(Discovery::parse(&reply.encode()), Some(reply));
        // The checksum covers addresses and message.
        for at in 8..packet.len() {
            let mut damaged = packet.clone();
            damaged[at] ^= 1;
            assert_eq!(Discovery::parse(&damaged), None, "byte {at}");
        }
        assert_eq!(Discovery::parse(&packet[..60]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = Discovery::parse(&bytes);
        }
    }
}
