//! Messages of rtnetlink(7) about the routes of a virtual host's network.
//!
//! ```text
//! rtmsg:     family u8 | dst_len u8 | src_len u8 | tos u8 | table u8 | protocol u8 | scope u8 | type u8 | flags u32 | rtattr ...
//! rtnexthop: length u16 | flags u8 | hops u8 | ifindex i32                                                       | rtattr ...
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_ipoib::{NextHop, Route};

use crate::rtnl::{AF_INET, AF_INET6, HEADER_BYTES, NLMSG_DONE, attributes, dump, ip, u16_at, u32_at};

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
/// Flag of the messages of a dump, which a report of a change does not have.
const NLM_F_MULTI: u16 = 2;
/// Flag of the report of a route that replaces another one.
const NLM_F_REPLACE: u16 = 0x100;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;

const RTN_UNICAST: u8 = 1;
const RTN_BROADCAST: u8 = 3;
/// Flag of an entry of the route cache.
const RTM_F_CLONED: u32 = 0x200;

const BODY_BYTES: usize = 12;
const NEXT_HOP_BYTES: usize = 8;

/// Groups to listen to: RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE.
pub const GROUPS: u32 = 0x40 | 0x400;

/// A message about routes: each over an interface, by its index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteChange {
    /// Routes are new or, in a dump, there.
    New {
        /// They are part of a dump.
        dumped: bool,
        /// Another route went, without a report.
        replaces: bool,
        /// The routes; one of several next hops is as many routes.
        routes: Vec<(u32, Route)>,
    },
    /// Routes are gone.
    Gone(Vec<(u32, Route)>),
    /// The end of a dump.
    Done,
}

/// Makes a request for all routes.
pub fn dump_routes(sequence: u32) -> Vec<u8> {
    dump(RTM_GETROUTE, sequence)
}

/// Parses the messages of one datagram. Stops at a malformed one; skips irrelevant ones.
pub fn parse(datagram: &[u8]) -> Vec<RouteChange> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while let Some((header, _)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let length = u32_at(header, 0).unwrap_or(0) as usize;
        let Some(body) = rest.get(HEADER_BYTES..length) else { break };
        let flags = u16_at(header, 6).unwrap_or(0);
        let (dumped, replaces) = (flags & NLM_F_MULTI != 0, flags & NLM_F_REPLACE != 0);
        match u16_at(header, 4).unwrap_or(0) {
            RTM_NEWROUTE => found.extend(parse_route(body).map(|routes| RouteChange::New { dumped, replaces, routes })),
            RTM_DELROUTE => found.extend(parse_route(body).map(RouteChange::Gone)),
            NLMSG_DONE => found.push(RouteChange::Done),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn parse_route(body: &[u8]) -> Option<Vec<(u32, Route)>> {
    let &[family, prefix, _, _, _, _, _, kind] = body.first_chunk()?;
    if u32_at(body, 8)? & RTM_F_CLONED != 0 || !matches!(kind, RTN_UNICAST | RTN_BROADCAST) {
        return None;
    }
    let mut network = match family {
        AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AF_INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let (mut metric, mut hops) = (0, Vec::new());
    let rest = body.get(BODY_BYTES..)?;
    for (attribute, value) in attributes(rest) {
        match attribute {
            RTA_DST => network = ip(family, value)?,
            RTA_PRIORITY => metric = u32_at(value, 0)?,
            RTA_OIF => hops.push((u32_at(value, 0)?, gateway(family, rest))),
            RTA_MULTIPATH => hops.extend(next_hops(family, value)),
            _ => {}
        }
    }
    let next = |gateway: Option<IpAddr>| match gateway {
        _ if kind == RTN_BROADCAST => NextHop::Broadcast,
        Some(gateway) => NextHop::Gateway(gateway),
        None => NextHop::OnLink,
    };
    Some(hops.into_iter().map(|(index, via)| (index, Route { network, prefix, metric, next: next(via) })).collect())
}

/// The router among the attributes of a route or of one of its next hops.
fn gateway(family: u8, from: &[u8]) -> Option<IpAddr> {
    attributes(from).find_map(|(attribute, value)| match attribute {
        RTA_GATEWAY => ip(family, value),
        RTA_VIA => ip(u8::try_from(u16_at(value, 0)?).ok()?, value.get(2..)?),
        _ => None,
    })
}

fn next_hops(family: u8, mut rest: &[u8]) -> Vec<(u32, Option<IpAddr>)> {
    let mut found = Vec::new();
    while let Some(length) = u16_at(rest, 0).map(usize::from)
        && let Some(attributes) = rest.get(NEXT_HOP_BYTES..length)
        && let Some(index) = u32_at(rest, 4)
    {
        found.push((index, gateway(family, attributes)));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = (value.len() as u16 + 4).to_ne_bytes().to_vec();
        out.extend(kind.to_ne_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut out = ((body.len() + HEADER_BYTES) as u32).to_ne_bytes().to_vec();
        out.extend(kind.to_ne_bytes());
        out.extend(flags.to_ne_bytes());
        out.extend([0; 8]);
        out.extend(body);
        out
    }

    fn rtmsg(family: u8, prefix: u8, kind: u8) -> Vec<u8> {
        vec![family, prefix, 0, 0, 254, 4, 0, kind, 0, 0, 0, 0]
    }

    #[test]
    fn routes_are_read_with_their_next_hops() {
        let via = [
            rtmsg(AF_INET, 24, RTN_UNICAST),
            attribute(RTA_DST, &[192, 168, 9, 0]),
            attribute(RTA_GATEWAY, &[10, 0, 0, 3]),
            attribute(RTA_OIF, &2u32.to_ne_bytes()),
            attribute(RTA_PRIORITY, &7u32.to_ne_bytes()),
        ]
        .concat();
        let next = NextHop::Gateway("10.0.0.3".parse().unwrap());
        let route = Route { network: "192.168.9.0".parse().unwrap(), prefix: 24, metric: 7, next };
        let broadcast = [
            rtmsg(AF_INET, 32, RTN_BROADCAST),
            attribute(RTA_OIF, &2u32.to_ne_bytes()),
            attribute(RTA_DST, &[10, 255, 255, 255]),
        ]
        .concat();
        let local = [rtmsg(AF_INET, 32, 2), attribute(RTA_OIF, &2u32.to_ne_bytes())].concat();
        let datagram = [
            message(RTM_NEWROUTE, NLM_F_MULTI, &via),
            message(RTM_NEWROUTE, 0, &local),
            message(RTM_DELROUTE, 0, &broadcast),
            message(NLMSG_DONE, NLM_F_MULTI, &[0; 4]),
        ]
        .concat();
        let all = Route { network: "10.255.255.255".parse().unwrap(), prefix: 32, metric: 0, next: NextHop::Broadcast };
        assert_eq!(
            parse(&datagram),
            [
                RouteChange::New { dumped: true, replaces: false, routes: vec![(2, route)] },
                RouteChange::Gone(vec![(2, all)]),
                RouteChange::Done
            ]
        );
    }

    #[test]
    fn several_next_hops_are_several_routes_and_ipv4_may_go_by_ipv6() {
        let fe80_1: Ipv6Addr = "fe80::1".parse().unwrap();
        let via = [&10u16.to_ne_bytes()[..], &fe80_1.octets()].concat();
        let hop = |index: u32, attributes: &[u8]| {
            let length = (NEXT_HOP_BYTES + attributes.len()) as u16;
            [&length.to_ne_bytes()[..], &[0, 0], &index.to_ne_bytes(), attributes].concat()
        };
        let hops = [hop(2, &attribute(RTA_GATEWAY, &[10, 0, 0, 3])), hop(3, &attribute(RTA_VIA, &via))].concat();
        let body = [rtmsg(AF_INET, 0, RTN_UNICAST), attribute(RTA_MULTIPATH, &hops)].concat();
        let parsed = parse(&message(RTM_NEWROUTE, 0, &body));
        let [RouteChange::New { dumped: false, routes, .. }] = &parsed[..] else { panic!("{parsed:?}") };
        let next: Vec<_> = routes.iter().map(|(index, route)| (*index, route.next)).collect();
        let gateway = |ip: &str| NextHop::Gateway(ip.parse().unwrap());
        assert_eq!(next, [(2, gateway("10.0.0.3")), (3, gateway("fe80::1"))]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, multipath: Vec<u8>, kind in 24u16..26) {
            let _ = parse(&bytes);
            let _ = parse(&message(kind, 0, &bytes));
            let body = [rtmsg(AF_INET6, 0, RTN_UNICAST), attribute(RTA_MULTIPATH, &multipath)].concat();
            let _ = parse(&message(kind, 0, &body));
        }
    }
}
