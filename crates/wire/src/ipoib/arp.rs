//! ARP on an IPoIB link (RFC 4391 §9.1, RFC 826), for IPv4.
//!
//! ```text
//! | hardware type 32 (2) | protocol 0x0800 (2) | 20 (1) | 4 (1) | operation (2) |
//! | sender's link-layer address (20) | sender's IPv4 address (4) | target's, likewise |
//! ```

use std::net::Ipv4Addr;

use super::{LinkAddress, Protocol};

/// Hardware type of InfiniBand.
const INFINIBAND: u16 = 32;
/// Bytes of an IPv4 address.
const IPV4_LEN: u8 = 4;

/// A request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// [`Arp::REQUEST`] or [`Arp::REPLY`].
    pub operation: u16,
    /// The sender's link-layer address.
    pub sender: LinkAddress,
    /// The sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// The target's link-layer address; zeros in a request.
    pub target: LinkAddress,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// Length in bytes.
    pub const LEN: usize = 8 + 2 * (LinkAddress::LEN + IPV4_LEN as usize);
    /// Operation: a request.
    pub const REQUEST: u16 = 1;
    /// Operation: a reply.
    pub const REPLY: u16 = 2;

    const HEAD: [u8; 6] = {
        let ([a, b], [c, d]) = (INFINIBAND.to_be_bytes(), Protocol::IPV4.0.to_be_bytes());
        [a, b, c, d, LinkAddress::LEN as u8, IPV4_LEN]
    };

    /// Reads it; `None` if it is of another link, of another protocol, or too short.
    pub fn parse(bytes: &[u8]) -> Option<Arp> {
        let bytes: &[u8; Arp::LEN] = bytes.first_chunk()?;
        let (head, rest) = bytes.split_first_chunk::<6>()?;
        let (operation, rest) = rest.split_first_chunk::<2>()?;
        let (sender, rest) = rest.split_first_chunk()?;
        let (sender_ip, rest) = rest.split_first_chunk::<4>()?;
        let (target, rest) = rest.split_first_chunk()?;
        let (target_ip, _) = rest.split_first_chunk::<4>()?;
        (*head == Arp::HEAD).then(|| Arp {
            operation: u16::from_be_bytes(*operation),
            sender: LinkAddress::parse(sender),
            sender_ip: Ipv4Addr::from(*sender_ip),
            target: LinkAddress::parse(target),
            target_ip: Ipv4Addr::from(*target_ip),
        })
    }

    /// Writes it.
    pub fn encode(&self) -> [u8; Arp::LEN] {
        let mut bytes = [0; Arp::LEN];
        let mut at = 0;
        for part in [
            &Arp::HEAD[..],
            &self.operation.to_be_bytes(),
            &self.sender.encode(),
            &self.sender_ip.octets(),
            &self.target.encode(),
            &self.target_ip.octets(),
        ] {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(qpn: u32) -> LinkAddress {
        LinkAddress { flags: LinkAddress::RC, qpn, gid: [0xfe; 16] }
    }

    #[test]
    fn a_request_has_56_bytes() {
        let request = Arp {
            operation: Arp::REQUEST,
            sender: address(0x48),
            sender_ip: Ipv4Addr::new(10, 0, 0, 1),
            target: LinkAddress::default(),
            target_ip: Ipv4Addr::new(10, 0, 0, 2),
        };
        let bytes = request.encode();
        assert_eq!((bytes.len(), &bytes[..8]), (56, &[0, 32, 8, 0, 20, 4, 0, 1][..]));
        assert_eq!((&bytes[28..32], &bytes[52..]), (&[10, 0, 0, 1][..], &[10, 0, 0, 2][..]));
        assert_eq!(Arp::parse(&bytes), Some(request));
        assert_eq!(Arp::parse(&bytes[..55]), None);
        let mut ethernet = bytes;
        ethernet[1] = 1;
        assert_eq!(Arp::parse(&ethernet), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            if let Some(arp) = Arp::parse(&bytes) {
                prop_assert_eq!(&arp.encode()[..], &bytes[..Arp::LEN]);
            }
        }
    }
}
