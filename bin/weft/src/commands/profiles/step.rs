//! Steps that change a host's interfaces. Each is a command of `ip`: so a plan reads, and so an error names its step.

use std::fmt;
use std::net::IpAddr;

use super::address::{Cidr, Family, Route};
use super::profile::Transport;

/// Metric of routes that profiles make: NetworkManager's for an InfiniBand device.
pub(super) const METRIC: u32 = 150;

/// A step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Give an interface another name.
    Rename { from: String, to: String },
    /// Make the interface of another partition.
    AddChild { parent: String, p_key: u16, name: String },
    /// Remove it.
    DeleteChild { parent: String, p_key: u16, name: String },
    /// Set the transport mode.
    SetMode { interface: String, mode: Transport },
    /// Set the MTU.
    SetMtu { interface: String, mtu: u32 },
    /// Switch the interface on.
    SetUp { interface: String },
    /// Switch it off.
    SetDown { interface: String },
    /// Add an address without the route to its network.
    AddAddress { interface: String, address: Cidr },
    /// Remove an address.
    DeleteAddress { interface: String, address: Cidr },
    /// Add the route to an address's network.
    AddLinkRoute { interface: String, address: Cidr },
    /// Add the default route.
    AddDefaultRoute { interface: String, via: IpAddr },
    /// Remove it.
    DeleteDefaultRoute { interface: String, via: IpAddr },
    /// Add a static route.
    AddRoute { interface: String, route: Route },
    /// Remove it.
    DeleteRoute { interface: String, route: Route },
}

impl Step {
    /// Returns the words of the command after `ip`.
    pub fn words(&self) -> Vec<String> {
        match self {
            Step::Rename { from, to } => words(&format!("link set dev {from} name {to}")),
            Step::AddChild { parent, p_key, name } => {
                words(&format!("link add link {parent} name {name} type ipoib pkey {p_key:#06x}"))
            }
            Step::DeleteChild { name, .. } => words(&format!("link delete dev {name}")),
            Step::SetMode { interface, mode } => {
                words(&format!("link set dev {interface} type ipoib mode {}", mode.name()))
            }
            Step::SetMtu { interface, mtu } => words(&format!("link set dev {interface} mtu {mtu}")),
            Step::SetUp { interface } => words(&format!("link set dev {interface} up")),
            Step::SetDown { interface } => words(&format!("link set dev {interface} down")),
            Step::AddAddress { interface, address } => {
                let has_broadcast = address.ip.is_ipv4() && address.prefix < 31;
                let broadcast = if has_broadcast { " broadcast +" } else { "" };
                words(&format!("address replace {address}{broadcast} dev {interface} noprefixroute"))
            }
            Step::DeleteAddress { interface, address } => words(&format!("address delete {address} dev {interface}")),
            Step::AddLinkRoute { interface, address } => {
                // IPv6 chooses source addresses itself.
                let source =
                    if address.ip.is_ipv4() { format!(" scope link src {}", address.ip) } else { String::new() };
                let (family, network) = (option(address.ip), address.network());
                words(&format!("{family} route replace {network} dev {interface} proto kernel{source} metric {METRIC}"))
            }
            Step::AddDefaultRoute { interface, via } => words(&format!(
                "{} route replace default via {via} dev {interface} proto static metric {METRIC}",
                option(*via)
            )),
            Step::DeleteDefaultRoute { interface, via } => words(&format!(
                "{} route delete default via {via} dev {interface} proto static metric {METRIC}",
                option(*via)
            )),
            Step::AddRoute { interface, route } => route_words("replace", interface, route),
            Step::DeleteRoute { interface, route } => route_words("delete", interface, route),
        }
    }
}

fn route_words(verb: &str, interface: &str, route: &Route) -> Vec<String> {
    let via = route.via.map(|via| format!(" via {via}")).unwrap_or_default();
    let (family, metric) = (option(route.to.ip), route.metric.unwrap_or(METRIC));
    words(&format!("{family} route {verb} {}{via} dev {interface} proto static metric {metric}", route.to))
}

/// Returns the option of `ip` for a family.
fn option(ip: IpAddr) -> &'static str {
    match Family::of(ip) {
        Family::V4 => "-4",
        Family::V6 => "-6",
    }
}

/// Splits a command line; no part of a step holds a blank.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip {}", self.words().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_commands_of_ip() {
        let interface = || "ib0".to_owned();
        let address = Family::V4.cidr("192.0.2.1/24").unwrap();
        for (step, expected) in [
            (
                Step::SetMode { interface: interface(), mode: Transport::Connected },
                "ip link set dev ib0 type ipoib mode connected",
            ),
            (
                Step::AddAddress { interface: interface(), address },
                "ip address replace 192.0.2.1/24 broadcast + dev ib0 noprefixroute",
            ),
            (
                Step::AddLinkRoute { interface: interface(), address },
                "ip -4 route replace 192.0.2.0/24 dev ib0 proto kernel scope link src 192.0.2.1 metric 150",
            ),
            (
                Step::AddDefaultRoute { interface: interface(), via: "2001:db8::1".parse().unwrap() },
                "ip -6 route replace default via 2001:db8::1 dev ib0 proto static metric 150",
            ),
            (
                Step::AddRoute {
                    interface: interface(),
                    route: Route::parse(Family::V4, "10.0.0.0/8 192.0.2.3 7").unwrap(),
                },
                "ip -4 route replace 10.0.0.0/8 via 192.0.2.3 dev ib0 proto static metric 7",
            ),
        ] {
            assert_eq!(step.to_string(), expected);
        }
    }
}
