//! The transport header of a whole IP packet.

/// Protocols, and IPv6's next headers.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION_OPTIONS: u8 = 60;

pub(crate) const IPV4_LEN: usize = 20;
pub(crate) const IPV6_LEN: usize = 40;

/// Flag "more fragments", and the fragment's offset.
const FRAGMENT: u16 = 0x3fff;

/// Returns the protocol and the offset of an IP packet's payload. `None`: it is no whole packet, or its length is not the
/// one in its header.
pub(crate) fn ip_payload(packet: &[u8]) -> Option<(u8, usize)> {
    match packet.first()? >> 4 {
        4 => ipv4_payload(packet),
        6 => ipv6_payload(packet),
        _ => None,
    }
}

fn ipv4_payload(packet: &[u8]) -> Option<(u8, usize)> {
    let [first, _, l0, l1, _, _, f0, f1, _, protocol, ..] = *packet.first_chunk::<IPV4_LEN>()?;
    let header_len = ipv4_header_len(first);
    let is_whole = u16::from_be_bytes([f0, f1]) & FRAGMENT == 0;
    let fits = usize::from(u16::from_be_bytes([l0, l1])) == packet.len();
    (is_whole && fits && (IPV4_LEN..=packet.len()).contains(&header_len)).then_some((protocol, header_len))
}

/// Returns the length of an IPv4 header with this first byte.
pub(crate) fn ipv4_header_len(first: u8) -> usize {
    usize::from(first & 0xf) * 4
}

fn ipv6_payload(packet: &[u8]) -> Option<(u8, usize)> {
    let (header, payload) = packet.split_first_chunk::<IPV6_LEN>()?;
    let [_, _, _, _, l0, l1, mut next, ..] = *header;
    if usize::from(u16::from_be_bytes([l0, l1])) != payload.len() {
        return None;
    }
    let mut offset = IPV6_LEN;
    while matches!(next, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
        let [following, length, ..] = *packet.get(offset..)?.first_chunk::<8>()?;
        (next, offset) = (following, offset + (usize::from(length) + 1) * 8);
    }
    (offset <= packet.len()).then_some((next, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 64];
        packet.resize(IPV6_LEN, 0);
        packet.extend_from_slice(payload);
        packet
    }

    #[test]
    fn options_and_extension_headers_come_before_the_payload() {
        let mut ipv4 = vec![0x46, 0, 0, 30, 0, 0, 0x40, 0, 64, TCP];
        ipv4.resize(30, 0);
        assert_eq!(ip_payload(&ipv4), Some((TCP, 24)));
        ipv4[6] = 0x20;
        assert_eq!(ip_payload(&ipv4), None, "a fragment");
        ipv4[6] = 0;
        assert_eq!(ip_payload(&ipv4[..29]), None, "another length");
        ipv4[0] = 0x44;
        assert_eq!(ip_payload(&ipv4), None, "a header that ends within itself");
        let mut headers = [DESTINATION_OPTIONS, 0, 0, 0, 0, 0, 0, 0, UDP, 1].to_vec();
        headers.resize(24 + 8, 0);
        assert_eq!(ip_payload(&ipv6(HOP_BY_HOP, &headers)), Some((UDP, IPV6_LEN + 24)));
        assert_eq!(ip_payload(&ipv6(HOP_BY_HOP, &headers[..20])), None, "a header beyond the end");
        assert_eq!(ip_payload(&ipv6(TCP, &[])), Some((TCP, IPV6_LEN)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes: Vec<u8>, version in 0..16_u8) {
            bytes.first_mut().into_iter().for_each(|first| *first = version << 4 | 5);
            if let Some((_, offset)) = ip_payload(&bytes) {
                prop_assert!(offset <= bytes.len());
            }
        }
    }
}
