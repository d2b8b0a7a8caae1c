//! The few messages of rtnetlink(7) that list interfaces and addresses. Parsed by hand: only a handful of attributes
//! matter here, and a kernel that adds or lengthens another one must not make an interface disappear.
//!
//! ```text
//! nlmsghdr:  length u32 | type u16 | flags u16 | sequence u32 | port u32          (host byte order)
//! ifinfomsg: family u8 | pad u8 | type u16 | index i32 | flags u32 | change u32 | rtattr ...
//! ifaddrmsg: family u8 | prefixlen u8 | flags u8 | scope u8 | index u32           | rtattr ...
//! rtattr:    length u16 | type u16 | value, padded to 4 bytes
//! ```

use std::net::IpAddr;

pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_DUMP: u16 = 0x300;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_OPERSTATE: u16 = 16;
const IF_OPER_UP: u8 = 6;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// Bits of an attribute's type that are not its number.
const NLA_TYPE_MASK: u16 = 0x3fff;

const AF_UNSPEC: u8 = 0;
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;

pub(crate) const HEADER_BYTES: usize = 16;

/// Groups to listen to: RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR.
pub const GROUPS: u32 = 1 | 0x10 | 0x100;

/// An interface, as one message reports it: `None` is a property that the message omits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkMessage {
    /// Index.
    pub ifindex: u32,
    /// IFF_*.
    pub flags: u32,
    /// Name.
    pub name: Option<String>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Hardware address, if it is one of 6 bytes.
    pub mac: Option<[u8; 6]>,
    /// Whether its operational state is up (RFC 2863): it has a link, and the kernel sends over it.
    pub is_operational: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressMessage {
    /// Interface.
    pub ifindex: u32,
    /// The local address.
    pub ip: IpAddr,
    /// RT_SCOPE_*.
    pub scope: u8,
    /// IFA_F_*.
    pub flags: u32,
}

/// One message from the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteMessage {
    /// An interface is new or changed.
    NewLink(LinkMessage),
    /// An interface is gone.
    DelLink {
        /// Index.
        ifindex: u32,
    },
    /// An address is new or changed.
    NewAddress(AddressMessage),
    /// An address is gone.
    DelAddress(AddressMessage),
    /// The end of a dump.
    Done,
    /// A request failed.
    Failed,
}

/// Makes a request for all interfaces.
pub fn dump_links(sequence: u32) -> Vec<u8> {
    dump(RTM_GETLINK, sequence)
}

/// Makes a request for all addresses.
pub fn dump_addresses(sequence: u32) -> Vec<u8> {
    dump(RTM_GETADDR, sequence)
}

pub(crate) fn dump(message_type: u16, sequence: u32) -> Vec<u8> {
    // rtgenmsg, padded, is enough of a body for both.
    const LENGTH: u32 = HEADER_BYTES as u32 + 4;
    let mut out = Vec::with_capacity(LENGTH as usize);
    out.extend(LENGTH.to_ne_bytes());
    out.extend(message_type.to_ne_bytes());
    out.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    out.extend(sequence.to_ne_bytes());
    out.extend([0; 4]);
    out.extend([AF_UNSPEC, 0, 0, 0]);
    out
}

/// Parses the messages of one datagram. Stops at a malformed one; skips irrelevant ones.
pub fn parse(datagram: &[u8]) -> Vec<RouteMessage> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while let Some((header, _)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let length = u32_at(header, 0).unwrap_or(0) as usize;
        let Some(body) = rest.get(HEADER_BYTES..length) else { break };
        found.extend(parse_one(u16_at(header, 4).unwrap_or(0), body));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn parse_one(message_type: u16, body: &[u8]) -> Option<RouteMessage> {
    match message_type {
        RTM_NEWLINK => parse_link(body).map(RouteMessage::NewLink),
        RTM_DELLINK => parse_link(body).map(|link| RouteMessage::DelLink { ifindex: link.ifindex }),
        RTM_NEWADDR => parse_address(body).map(RouteMessage::NewAddress),
        RTM_DELADDR => parse_address(body).map(RouteMessage::DelAddress),
        NLMSG_DONE => Some(RouteMessage::Done),
        NLMSG_ERROR => Some(RouteMessage::Failed),
        _ => None,
    }
}

fn parse_link(body: &[u8]) -> Option<LinkMessage> {
    // A bridge reports its ports in messages of its own family; they are not about the interface itself.
    if *body.first()? != AF_UNSPEC {
        return None;
    }
    let mut link = LinkMessage {
        ifindex: u32_at(body, 4)?,
        flags: u32_at(body, 8)?,
        name: None,
        mtu: None,
        mac: None,
        is_operational: false,
    };
    for (attribute, value) in attributes(body.get(16..)?) {
        match attribute {
            IFLA_IFNAME => {
                let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
                // The kernel allows unprintable characters in a name; Weft does not.
                let odd = |c: char| c.is_control() || c.is_whitespace();
                let name = String::from_utf8_lossy(name);
                link.name = Some(name.replace(odd, "\u{fffd}"));
            }
            IFLA_MTU => link.mtu = u32_at(value, 0),
            IFLA_ADDRESS => link.mac = value.try_into().ok(),
            IFLA_OPERSTATE => link.is_operational = value.first() == Some(&IF_OPER_UP),
            _ => {}
        }
    }
    Some(link)
}

fn parse_address(body: &[u8]) -> Option<AddressMessage> {
    let &[family, _prefixlen, flags, scope] = body.first_chunk()?;
    let mut flags = u32::from(flags);
    let (mut address, mut local) = (None, None);
    for (attribute, value) in attributes(body.get(8..)?) {
        match attribute {
            IFA_ADDRESS => address = ip(family, value),
            // On a point-to-point link the other attribute is the peer's.
            IFA_LOCAL => local = ip(family, value),
            IFA_FLAGS => flags = u32_at(value, 0).unwrap_or(flags),
            _ => {}
        }
    }
    Some(AddressMessage { ifindex: u32_at(body, 4)?, ip: local.or(address)?, scope, flags })
}

pub(crate) fn ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?)),
        AF_INET6 => Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
        _ => None,
    }
}

pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let attribute = u16_at(rest, 2)? & NLA_TYPE_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((attribute, value))
    })
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(message_type: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = fixed.to_vec();
        for (attribute, value) in attributes {
            body.extend((value.len() as u16 + 4).to_ne_bytes());
            body.extend(attribute.to_ne_bytes());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut out = ((body.len() + HEADER_BYTES) as u32).to_ne_bytes().to_vec();
        out.extend(message_type.to_ne_bytes());
        out.extend([0; 10]);
        out.extend(body);
        out
    }

    fn ifinfomsg(family: u8, ifindex: u32, flags: u32) -> Vec<u8> {
        [&[family, 0, 0, 0][..], &ifindex.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4]].concat()
    }

    #[test]
    fn links_and_addresses_of_one_datagram() {
        let link = message(
            RTM_NEWLINK,
            &ifinfomsg(AF_UNSPEC, 2, 0x1_1043),
            &[
                (IFLA_IFNAME, b"eth0\0"),
                (IFLA_MTU, &1500u32.to_ne_bytes()),
                (IFLA_ADDRESS, &[1, 2, 3, 4, 5, 6]),
                (999, b"new"),
            ],
        );
        let address = message(
            RTM_NEWADDR,
            &[&[AF_INET, 24, 0x80, 0][..], &2u32.to_ne_bytes()].concat(),
            &[(IFA_ADDRESS, &[10, 0, 0, 2]), (IFA_LOCAL, &[10, 0, 0, 1]), (IFA_FLAGS, &0x200u32.to_ne_bytes())],
        );
        let bridge = message(RTM_DELLINK, &ifinfomsg(7, 2, 0), &[]);
        let parsed = parse(&[link, address, bridge].concat());
        assert_eq!(
            parsed,
            [
                RouteMessage::NewLink(LinkMessage {
                    ifindex: 2,
                    flags: 0x1_1043,
                    name: Some("eth0".into()),
                    mtu: Some(1500),
                    mac: Some([1, 2, 3, 4, 5, 6]),
                    is_operational: false,
                }),
                RouteMessage::NewAddress(AddressMessage {
                    ifindex: 2,
                    ip: "10.0.0.1".parse().unwrap(),
                    scope: 0,
                    flags: 0x200,
                }),
            ]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, kind in 16u16..23) {
            let _ = parse(&bytes);
            let _ = parse(&message(kind, &bytes, &[]));
        }
    }
}
