//! Multicast groups of an IPoIB link (RFC 4391 §4): the broadcast group, and the group of an IP multicast address.
//!
//! ```text
//! | 0xff | 1, scope | signature (2) | P_Key (2) |        group (10)        |      signature 0x401b: IPv4, 0x601b: IPv6
//! ```

use std::net::IpAddr;

/// Signature of IPv4 groups, the broadcast group among them.
const IPV4: u16 = 0x401b;
/// Signature of IPv6 groups.
const IPV6: u16 = 0x601b;
/// Transient flag of a multicast GID.
const TRANSIENT: u8 = 0x10;
/// Full-member bit of a P_Key, which is set in a group's GID.
const FULL_MEMBER: u16 = 0x8000;

fn compose(scope: u8, signature: u16, pkey: u16, group: [u8; 10]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[0] = 0xff;
    gid[1] = TRANSIENT | scope & 15;
    gid[2..4].copy_from_slice(&signature.to_be_bytes());
    gid[4..6].copy_from_slice(&(pkey | FULL_MEMBER).to_be_bytes());
    gid[6..].copy_from_slice(&group);
    gid
}

/// Returns the GID of the broadcast group of a partition; a link exists where this group does (RFC 4391 §4.1).
pub fn broadcast_group(pkey: u16, scope: u8) -> [u8; 16] {
    compose(scope, IPV4, pkey, [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])
}

/// Returns the GID of the group of an IP multicast address, on the link of a partition. `None` for a unicast address.
/// The scope is that of the link's broadcast group, as on Linux.
pub fn group_of(address: IpAddr, pkey: u16, scope: u8) -> Option<[u8; 16]> {
    let mut group = [0; 10];
    match address {
        IpAddr::V4(address) if address.is_broadcast() => Some(broadcast_group(pkey, scope)),
        IpAddr::V4(address) if address.is_multicast() => {
            // The last 28 bits of the address.
            let [a, rest @ ..] = address.octets();
            group[6] = a & 15;
            group[7..].copy_from_slice(&rest);
            Some(compose(scope, IPV4, pkey, group))
        }
        IpAddr::V6(address) if address.is_multicast() => {
            // Its last 80 bits.
            group.copy_from_slice(&address.octets()[6..]);
            Some(compose(scope, IPV6, pkey, group))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    /// Scope of a link, which OpenSM gives the broadcast group.
    const LINK_LOCAL: u8 = 2;

    fn group(address: &str, pkey: u16) -> Option<String> {
        group_of(address.parse().expect("an address"), pkey, LINK_LOCAL).map(|gid| Ipv6Addr::from(gid).to_string())
    }

    /// The groups that OpenSM lists where Linux hosts have IPoIB.
    #[test]
    fn groups_have_the_addresses_that_linux_gives_them() {
        let of = |address| group(address, 0x7fff);
        assert_eq!(Ipv6Addr::from(broadcast_group(0xffff, LINK_LOCAL)).to_string(), "ff12:401b:ffff::ffff:ffff");
        assert_eq!(of("255.255.255.255").as_deref(), Some("ff12:401b:ffff::ffff:ffff"));
        assert_eq!(of("224.0.0.1").as_deref(), Some("ff12:401b:ffff::1"));
        assert_eq!(of("239.1.2.3").as_deref(), Some("ff12:401b:ffff::f01:203"));
        assert_eq!(of("ff02::1").as_deref(), Some("ff12:601b:ffff::1"));
        assert_eq!(of("ff02::1:ff22:e65").as_deref(), Some("ff12:601b:ffff::1:ff22:e65"));
        assert_eq!((of("10.0.0.1"), of("fe80::1")), (None, None));
        assert_eq!(group("224.0.0.251", 2).as_deref(), Some("ff12:401b:8002::fb"));
    }
}
