//! ICMP answers to packets that are longer than their way allows (RFC 1191, RFC 8201): the kernel that sent one learns the
//! MTU of that destination and sends smaller ones. They come from the packet's destination, since a kernel accepts no
//! packet from outside with its own address as source.

use std::net::{Ipv4Addr, Ipv6Addr};

use weft_wire::ipoib::Protocol;

use crate::checksum::{ICMPV6, icmpv6_checksum, internet_checksum};

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// Bytes of an ICMP message before the quoted packet.
const ICMP_LEN: usize = 8;
/// Longest answers: the packets that every host must accept (RFC 1812 §4.3.2.3, RFC 4443 §2.4).
const IPV4_ANSWER_MAX: usize = 576;
const IPV6_ANSWER_MAX: usize = 1280;
const TTL: u8 = 64;

/// Protocol number of ICMP, and of its IPv4 messages: destination unreachable, fragmentation needed.
const ICMP: u8 = 1;
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// ICMPv6: packet too big.
const PACKET_TOO_BIG: u8 = 2;
/// First type of ICMPv6 that is no error.
const ICMPV6_INFORMATION: u8 = 128;

/// Returns the answer to a packet that is longer than `mtu`; `None` if there must be none: to groups, to errors of ICMP, to
/// later fragments, and to what is no IP packet.
pub(crate) fn answer(packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    match Protocol::of_ip(packet)? {
        Protocol::IPV4 => answer_ipv4(packet, mtu),
        _ => answer_ipv6(packet, mtu),
    }
}

fn answer_ipv4(packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let header = packet.first_chunk::<IPV4_LEN>()?;
    let (src, dst) = (*header[12..].first_chunk::<4>()?, *header[16..].first_chunk::<4>()?);
    let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    let has_sender = !Ipv4Addr::from(src).is_unspecified() && !Ipv4Addr::from(src).is_multicast();
    let (to, header_len) = (Ipv4Addr::from(dst), usize::from(header[0] & 0xf) * 4);
    let is_error = header[9] == ICMP && packet.get(header_len).is_none_or(|kind| !matches!(kind, 0 | 8 | 13..=18));
    if fragment_offset != 0 || !has_sender || to.is_multicast() || to.is_broadcast() || is_error {
        return None;
    }
    let quoted = packet.get(..packet.len().min(IPV4_ANSWER_MAX - IPV4_LEN - ICMP_LEN))?;
    let [.., high, low] = mtu.min(0xffff).to_be_bytes();
    let mut icmp = vec![UNREACHABLE, FRAGMENTATION_NEEDED, 0, 0, 0, 0, high, low];
    icmp.extend_from_slice(quoted);
    let sum = internet_checksum(&[&icmp]);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x45, 0xc0];
    ip.extend_from_slice(&((IPV4_LEN + icmp.len()) as u16).to_be_bytes());
    ip.extend_from_slice(&[0, 0, 0, 0, TTL, ICMP, 0, 0]);
    ip.extend_from_slice(&dst);
    ip.extend_from_slice(&src);
    let sum = internet_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend_from_slice(&icmp);
    Some(ip)
}

fn answer_ipv6(packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let header = packet.first_chunk::<IPV6_LEN>()?;
    let (src, dst) = (*header[8..].first_chunk::<16>()?, *header[24..].first_chunk::<16>()?);
    let has_sender = !Ipv6Addr::from(src).is_unspecified() && src[0] != 0xff;
    let is_error = header[6] == ICMPV6 && packet.get(IPV6_LEN).is_none_or(|kind| *kind < ICMPV6_INFORMATION);
    if !has_sender || dst[0] == 0xff || is_error {
        return None;
    }
    let quoted = packet.get(..packet.len().min(IPV6_ANSWER_MAX - IPV6_LEN - ICMP_LEN))?;
    let mut icmp = vec![PACKET_TOO_BIG, 0, 0, 0];
    icmp.extend_from_slice(&mtu.to_be_bytes());
    icmp.extend_from_slice(quoted);
    let sum = icmpv6_checksum(&dst, &src, &icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend_from_slice(&(icmp.len() as u16).to_be_bytes());
    ip.extend_from_slice(&[ICMPV6, TTL]);
    ip.extend_from_slice(&dst);
    ip.extend_from_slice(&src);
    ip.extend_from_slice(&icmp);
    Some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ipv4(protocol: u8, dst: [u8; 4], rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1];
        packet.extend_from_slice(&dst);
        packet.extend_from_slice(rest);
        packet
    }

    fn ipv6(next: u8, dst: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend_from_slice(&Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1).octets());
        packet.extend_from_slice(&dst.octets());
        packet.extend_from_slice(rest);
        packet
    }

    #[test]
    fn a_long_packet_gets_the_mtu_its_own_start_and_right_sums() {
        let packet = ipv4(17, [10, 0, 0, 2], &[7; 5000]);
        let reply = answer(&packet, 2044).expect("an answer");
        assert_eq!((reply.len(), &reply[12..20]), (576, &[10, 0, 0, 2, 10, 0, 0, 1][..]));
        assert_eq!((&reply[20..22], &reply[26..28], &reply[28..]), (&[3, 4][..], &[7, 0xfc][..], &packet[..548]));
        assert_eq!((internet_checksum(&[&reply[..20]]), internet_checksum(&[&reply[20..]])), (0, 0));
        let packet = ipv6(17, Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2), &[7; 5000]);
        let reply = answer(&packet, 65_520).expect("an answer");
        assert_eq!((reply.len(), reply[40], &reply[44..48]), (1280, 2, &[0, 0, 0xff, 0xf0][..]));
        let (src, dst) = (reply[8..].first_chunk().unwrap(), reply[24..].first_chunk().unwrap());
        assert_eq!(icmpv6_checksum(src, dst, &reply[40..]), 0);
    }

    #[test]
    fn groups_errors_and_later_fragments_get_no_answer() {
        let echo = ipv4(1, [10, 0, 0, 2], &[8; 3000]);
        assert!(answer(&echo, 2044).is_some());
        let mut fragment = echo.clone();
        fragment[7] = 9;
        let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        for packet in [
            fragment,
            ipv4(1, [10, 0, 0, 2], &[3; 3000]),
            ipv4(17, [239, 1, 2, 3], &[0; 3000]),
            ipv4(17, [255; 4], &[0; 3000]),
            ipv6(58, Ipv6Addr::LOCALHOST, &[2; 3000]),
            ipv6(17, all, &[0; 3000]),
            echo[..19].to_vec(),
            Vec::new(),
        ] {
            assert_eq!(answer(&packet, 2044), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, mtu: u32) {
            let _ = answer(&bytes, mtu);
        }
    }
}
