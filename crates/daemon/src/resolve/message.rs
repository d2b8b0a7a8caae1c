//! The messages of rtnetlink(7) that query a route and a neighbour, and their answers.
//!
//! ```text
//! rtmsg: family u8 | dst_len u8 | src_len u8 | tos u8 | table u8 | protocol u8 | scope u8 | type u8 | flags u32 | rtattr ...
//! ndmsg: family u8 | pad u8, u16 | ifindex i32 | state u16 | flags u8 | type u8                     | rtattr ...
//! ```

use std::net::IpAddr;

use crate::rtnl::{AF_INET, AF_INET6, HEADER_BYTES, NLM_F_REQUEST, NLMSG_ERROR, attributes, ip, u16_at, u32_at};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTAX_HOPLIMIT: u16 = 10;
const NDA_DST: u16 = 1;

/// Length of rtmsg and of ndmsg.
const BODY_BYTES: usize = 12;

/// Target of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteKind {
    /// A host on a local network, or behind a router.
    Unicast,
    /// This host.
    Local,
    /// A group, or all hosts of a network: no link address is needed.
    Group,
    /// No destination: RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT and others.
    Nowhere(u8),
}

/// A route, as the kernel chose it for one destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Target.
    pub kind: RouteKind,
    /// Outgoing interface.
    pub ifindex: u32,
    /// Source address, if the route names one.
    pub src: Option<IpAddr>,
    /// Router on the way, if there is one.
    pub gateway: Option<IpAddr>,
    /// Hop limit, 0 if the route names none.
    pub hop_limit: u8,
}

/// An answer of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A route.
    Route(Route),
    /// A neighbour in this state (NUD_*).
    Neighbour(u16),
    /// The request failed with this errno.
    Failed(i32),
}

/// Requests the route to an address, from a local address and over an interface if those are given.
pub fn get_route(sequence: u32, dst: IpAddr, src: Option<IpAddr>, ifindex: u32, tos: u8) -> Vec<u8> {
    let mut out = begin(RTM_GETROUTE, sequence);
    let bits = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
    out.extend([family(dst), bits(dst), src.map_or(0, bits), tos, 0, 0, 0, 0, 0, 0, 0, 0]);
    put_ip(&mut out, RTA_DST, dst);
    if let Some(src) = src {
        put_ip(&mut out, RTA_SRC, src);
    }
    if ifindex != 0 {
        put(&mut out, RTA_OIF, &ifindex.to_ne_bytes());
    }
    end(out)
}

/// Requests the entry of a neighbour on an interface (Linux 5.0).
pub fn get_neighbour(sequence: u32, ifindex: u32, neighbour: IpAddr) -> Vec<u8> {
    let mut out = begin(RTM_GETNEIGH, sequence);
    out.extend([family(neighbour), 0, 0, 0]);
    out.extend(ifindex.to_ne_bytes());
    out.extend([0; 4]);
    put_ip(&mut out, NDA_DST, neighbour);
    end(out)
}

/// Returns the answer to the request with this number, if it is in the datagram.
pub fn parse(datagram: &[u8], sequence: u32) -> Option<Answer> {
    let mut rest = datagram;
    while let Some((header, _)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let length = u32_at(header, 0)? as usize;
        let body = rest.get(HEADER_BYTES..length)?;
        if u32_at(header, 8) == Some(sequence)
            && let Some(answer) = parse_one(u16_at(header, 4)?, body)
        {
            return Some(answer);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn parse_one(message_type: u16, body: &[u8]) -> Option<Answer> {
    match message_type {
        RTM_NEWROUTE => parse_route(body).map(Answer::Route),
        RTM_NEWNEIGH => Some(Answer::Neighbour(u16_at(body, 8)?)),
        NLMSG_ERROR => Some(Answer::Failed((u32_at(body, 0)? as i32).saturating_neg())),
        _ => None,
    }
}

fn parse_route(body: &[u8]) -> Option<Route> {
    let &[family, _, _, _, _, _, _, kind, ..] = body.first_chunk::<BODY_BYTES>()?;
    let kind = match kind {
        1 => RouteKind::Unicast,
        // RTN_LOCAL, RTN_ANYCAST.
        2 | 4 => RouteKind::Local,
        // RTN_BROADCAST, RTN_MULTICAST.
        3 | 5 => RouteKind::Group,
        other => RouteKind::Nowhere(other),
    };
    let mut route = Route { kind, ifindex: 0, src: None, gateway: None, hop_limit: 0 };
    for (attribute, value) in attributes(body.get(BODY_BYTES..)?) {
        match attribute {
            RTA_OIF => route.ifindex = u32_at(value, 0).unwrap_or(0),
            RTA_PREFSRC => route.src = ip(family, value),
            RTA_GATEWAY => route.gateway = ip(family, value),
            RTA_VIA => route.gateway = ip(u16_at(value, 0)? as u8, value.get(2..)?),
            RTA_METRICS => {
                let hops = attributes(value).find(|(metric, _)| *metric == RTAX_HOPLIMIT);
                route.hop_limit = hops.and_then(|(_, value)| u32_at(value, 0)?.try_into().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }
    Some(route)
}

fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn begin(message_type: u16, sequence: u32) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(message_type.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend(sequence.to_ne_bytes());
    out.extend([0; 4]);
    out
}

fn put_ip(out: &mut Vec<u8>, attribute: u16, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => put(out, attribute, &ip.octets()),
        IpAddr::V6(ip) => put(out, attribute, &ip.octets()),
    }
}

/// All values here have lengths that are multiples of four.
fn put(out: &mut Vec<u8>, attribute: u16, value: &[u8]) {
    out.extend((value.len() as u16 + 4).to_ne_bytes());
    out.extend(attribute.to_ne_bytes());
    out.extend(value);
}

fn end(mut out: Vec<u8>) -> Vec<u8> {
    let length = (out.len() as u32).to_ne_bytes();
    for (byte, value) in out.iter_mut().zip(length) {
        *byte = value;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(message_type: u16, sequence: u32, body: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut out = begin(message_type, sequence);
        out.extend(body);
        for (attribute, value) in attributes {
            put(&mut out, *attribute, value);
        }
        end(out)
    }

    #[test]
    fn a_route_behind_a_router_is_understood() {
        let body = [AF_INET, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        let hops = [&8u16.to_ne_bytes()[..], &RTAX_HOPLIMIT.to_ne_bytes(), &63u32.to_ne_bytes()].concat();
        let attributes: [(u16, &[u8]); 5] = [
            (RTA_DST, &[192, 0, 2, 9]),
            (RTA_OIF, &7u32.to_ne_bytes()),
            (RTA_PREFSRC, &[10, 0, 0, 1]),
            (RTA_GATEWAY, &[10, 0, 0, 254]),
            (RTA_METRICS, &hops),
        ];
        let answer = message(RTM_NEWROUTE, 5, &body, &attributes);
        let route = Route {
            kind: RouteKind::Unicast,
            ifindex: 7,
            src: Some("10.0.0.1".parse().unwrap()),
            gateway: Some("10.0.0.254".parse().unwrap()),
            hop_limit: 63,
        };
        assert_eq!(parse(&answer, 5), Some(Answer::Route(route)));
        assert_eq!(parse(&answer, 6), None);
    }

    #[test]
    fn failures_and_neighbours_are_understood() {
        let error = message(NLMSG_ERROR, 3, &[&(-101i32).to_ne_bytes()[..], &[0; 16]].concat(), &[]);
        assert_eq!(parse(&error, 3), Some(Answer::Failed(101)));
        let neighbour = message(RTM_NEWNEIGH, 3, &[2, 0, 0, 0, 7, 0, 0, 0, 0x20, 0, 0, 1], &[]);
        let stale = message(RTM_NEWNEIGH, 4, &[2, 0, 0, 0, 7, 0, 0, 0, 0x04, 0, 0, 1], &[]);
        assert_eq!(parse(&[neighbour, stale].concat(), 4), Some(Answer::Neighbour(4)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, kind in 24u16..31) {
            let _ = parse(&bytes, 0);
            let _ = parse(&message(kind, 1, &bytes, &[]), 1);
        }
    }
}
