//! The kernel's state of a host's interfaces, as the system's `ip` reports it: addresses, and routes that a person or a
//! program set.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::address::{Cidr, Family, Route};
use crate::commands::ip::query;

/// The addresses and static routes of an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelState {
    /// Addresses.
    pub addresses: Vec<Cidr>,
    /// Routes of protocol `static`, each with its metric.
    pub routes: Vec<Route>,
}

/// Reads the state of all interfaces, by name.
pub fn read() -> BTreeMap<String, KernelState> {
    let mut all = addresses(&query(&["-j", "address", "show"]));
    for (family, option) in [(Family::V4, "-4"), (Family::V6, "-6")] {
        add_routes(&mut all, family, &query(&[option, "-j", "route", "show", "proto", "static"]));
    }
    all
}

/// Returns the network of a family's default route.
pub fn anywhere(family: Family) -> Cidr {
    let ip = match family {
        Family::V4 => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    Cidr { ip, prefix: 0 }
}

fn addresses(links: &Value) -> BTreeMap<String, KernelState> {
    let address = |one: &Value| {
        let ip = one.get("local")?.as_str()?.parse().ok()?;
        Some(Cidr { ip, prefix: u8::try_from(one.get("prefixlen")?.as_u64()?).ok()? })
    };
    let link = |link: &Value| {
        let all = link.get("addr_info")?.as_array()?.iter().filter_map(address).collect();
        Some((link.get("ifname")?.as_str()?.to_owned(), KernelState { addresses: all, routes: Vec::new() }))
    };
    links.as_array().into_iter().flatten().filter_map(link).collect()
}

fn add_routes(all: &mut BTreeMap<String, KernelState>, family: Family, routes: &Value) {
    let route = |one: &Value| {
        let to = match one.get("dst")?.as_str()? {
            "default" => anywhere(family),
            network => family.cidr(network).ok()?,
        };
        let via = one.get("gateway").and_then(Value::as_str).and_then(|via| via.parse().ok());
        let metric = one.get("metric").and_then(Value::as_u64).and_then(|metric| u32::try_from(metric).ok());
        Some((one.get("dev")?.as_str()?.to_owned(), Route { to, via, metric: metric.or(Some(0)) }))
    };
    for (interface, route) in routes.as_array().into_iter().flatten().filter_map(route) {
        all.entry(interface).or_default().routes.push(route);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_ip_are_read() {
        let links = serde_json::json!([
            {"ifname": "lo", "addr_info": []},
            {"ifname": "ib0", "addr_info": [
                {"family": "inet", "local": "10.0.0.1", "prefixlen": 8},
                {"family": "inet6", "local": "fe80::1", "prefixlen": 64}, {}
            ]}, 7
        ]);
        let mut all = addresses(&links);
        let routes = serde_json::json!([
            {"dst": "default", "gateway": "10.0.0.9", "dev": "ib0", "protocol": "static", "metric": 150},
            {"dst": "192.0.2.0/24", "dev": "ib0"}, {"dst": "192.0.2.7", "dev": "ib1"}, {"dst": "unreachable"}
        ]);
        add_routes(&mut all, Family::V4, &routes);
        let texts = |state: &KernelState| {
            let routes = state.routes.iter().map(Route::to_string);
            state.addresses.iter().map(Cidr::to_string).chain(routes).collect::<Vec<_>>()
        };
        let expected = ["10.0.0.1/8", "fe80::1/64", "0.0.0.0/0 10.0.0.9 150", "192.0.2.0/24 0"];
        assert_eq!(texts(&all["ib0"]), expected);
        assert_eq!((texts(&all["lo"]).len(), texts(&all["ib1"])), (0, vec!["192.0.2.7/32 0".to_owned()]));
        assert!(addresses(&Value::Null).is_empty());
    }
}
