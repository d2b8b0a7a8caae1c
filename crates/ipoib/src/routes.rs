//! Routes of an interface: the kernel hands over bare packets, without the neighbour that its routing chose.

use std::net::IpAddr;

use crate::limits::ROUTES_MAX;

/// Destination of packets that take a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NextHop {
    /// Their own destination: it is on the link.
    OnLink,
    /// A router on the link. It may have an IPv6 address for IPv4 packets.
    Gateway(IpAddr),
    /// All nodes of the link.
    Broadcast,
}

/// A route of the kernel over an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Route {
    /// First address of the destinations.
    pub network: IpAddr,
    /// Length of their prefix in bits.
    pub prefix: u8,
    /// The route with the lowest metric is taken among equal destinations.
    pub metric: u32,
    /// Where packets go.
    pub next: NextHop,
}

impl Route {
    /// Whether packets to this address may take the route.
    fn leads_to(&self, destination: IpAddr) -> bool {
        let equal_bits = match (self.network, destination) {
            (IpAddr::V4(network), IpAddr::V4(destination)) => {
                (network.to_bits() ^ destination.to_bits()).leading_zeros()
            }
            (IpAddr::V6(network), IpAddr::V6(destination)) => {
                (network.to_bits() ^ destination.to_bits()).leading_zeros()
            }
            _ => return false,
        };
        equal_bits >= u32::from(self.prefix)
    }
}

/// The routes of an interface, the most specific first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes(Vec<Route>);

impl Routes {
    /// Replaces all routes. The least specific ones are dropped beyond [`ROUTES_MAX`].
    pub fn set(&mut self, routes: impl IntoIterator<Item = Route>) {
        self.0 = routes.into_iter().collect();
        self.0.sort_by_key(|route| (std::cmp::Reverse(route.prefix), route.metric));
        self.0.truncate(ROUTES_MAX);
    }

    /// Returns the address that receives packets to a destination on the link: the destination itself without a route,
    /// as the kernel has it for sockets that are bound to the interface.
    pub fn next_hop(&self, destination: IpAddr) -> NextHop {
        if destination.is_multicast() {
            return NextHop::OnLink;
        }
        self.0.iter().find(|route| route.leads_to(destination)).map_or(NextHop::OnLink, |route| route.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(network: &str, prefix: u8, metric: u32, next: NextHop) -> Route {
        Route { network: network.parse().expect("an address"), prefix, metric, next }
    }

    fn gateway(ip: &str) -> NextHop {
        NextHop::Gateway(ip.parse().expect("an address"))
    }

    #[test]
    fn the_longest_prefix_decides_and_then_the_metric() {
        let mut routes = Routes::default();
        let of = |routes: &Routes, ip: &str| routes.next_hop(ip.parse().expect("an address"));
        assert_eq!(of(&routes, "192.168.9.1"), NextHop::OnLink);
        routes.set([
            route("0.0.0.0", 0, 0, gateway("10.0.0.9")),
            route("10.0.0.0", 8, 0, NextHop::OnLink),
            route("10.255.255.255", 32, 0, NextHop::Broadcast),
            route("192.168.9.0", 24, 50, gateway("10.0.0.4")),
            route("192.168.9.0", 24, 20, gateway("10.0.0.3")),
            route("192.168.0.0", 16, 0, gateway("fe80::1")),
            route("fd00::", 8, 0, gateway("fe80::2")),
        ]);
        assert_eq!(of(&routes, "10.1.2.3"), NextHop::OnLink);
        assert_eq!(of(&routes, "10.255.255.255"), NextHop::Broadcast);
        assert_eq!(of(&routes, "192.168.9.77"), gateway("10.0.0.3"));
        assert_eq!(of(&routes, "192.168.8.1"), gateway("fe80::1"));
        assert_eq!(of(&routes, "8.8.8.8"), gateway("10.0.0.9"));
        assert_eq!(of(&routes, "fd00::1"), gateway("fe80::2"));
        assert_eq!((of(&routes, "fe80::7"), of(&routes, "239.1.2.3")), (NextHop::OnLink, NextHop::OnLink));
    }

    #[test]
    fn too_many_routes_leave_the_most_specific_ones() {
        let mut routes = Routes::default();
        let many = (0..2 * ROUTES_MAX as u32).map(|number| Route {
            network: IpAddr::from(number.to_be_bytes()),
            prefix: if number.is_multiple_of(2) { 32 } else { 31 },
            metric: 0,
            next: NextHop::OnLink,
        });
        routes.set(many);
        assert_eq!(routes.0.len(), ROUTES_MAX);
        assert!(routes.0.iter().all(|route| route.prefix == 32));
    }
}
