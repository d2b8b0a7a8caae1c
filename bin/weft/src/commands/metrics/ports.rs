//! Metrics of a fabric: its ports, and its size.

use weft_fabric::topology::LinkState;
use weft_ipc::fabric::FabricPort;
use weft_ipc::stat::PortCounters;
use weft_metrics::{Exposition, Kind, Sample};

use super::names::metric;
use crate::commands::report::Report;

/// Bytes per second of a tenth of a Gb/s.
const BYTES_PER_TENTH: u64 = 100_000_000 / 8;

/// Adds them.
pub fn add(page: &mut Exposition, report: &Report) {
    fabric(page, report);
    let ports: Vec<(&FabricPort, String)> = report.ports.iter().map(|port| (port, port.port.to_string())).collect();
    for (place, (name, meaning)) in PortCounters::MEANINGS.iter().enumerate() {
        let samples = ports.iter().filter_map(|(port, number)| {
            let (_, value) = port.counters.values().nth(place)?;
            Some(Sample::integer(labels(port, number), value))
        });
        page.family(&metric("port", name), Kind::Counter, meaning, samples);
    }
    let states = ports.iter().map(|(port, number)| Sample::integer(labels(port, number), port.state.into()));
    page.family("weft_port_state", Kind::Gauge, "State of the port: 1 down, 2 init, 3 armed, 4 active.", states);
    let rates = ports.iter().map(|(port, number)| {
        Sample::integer(labels(port, number), u64::from(port.rate_tenths).saturating_mul(BYTES_PER_TENTH))
    });
    let help = "Data rate of the port's link, 0 without a link.";
    page.family("weft_port_rate_bytes_per_second", Kind::Gauge, help, rates);
    let texts: Vec<[String; 2]> = report.ports.iter().map(|port| [port.lid.to_string(), peer(port)]).collect();
    let info = ports.iter().zip(&texts).map(|((port, number), [lid, peer])| {
        let mut all = labels(port, number).to_vec();
        all.extend([("lid", lid.as_str()), ("peer", peer.as_str())]);
        Sample::integer(all, 1)
    });
    page.family("weft_port_info", Kind::Gauge, "LID of the port, and the port at the other end of its cable.", info);
}

fn labels<'a>(port: &'a FabricPort, number: &'a str) -> [(&'a str, &'a str); 2] {
    [("node", port.node.as_str()), ("port", number)]
}

fn peer(port: &FabricPort) -> String {
    port.peer.as_ref().map(|peer| format!("{}:{}", peer.node, peer.port)).unwrap_or_default()
}

fn fabric(page: &mut Exposition, report: &Report) {
    let Some(fabric) = &report.fabric else { return };
    let rows = [
        ("weft_fabric_hosts", "Virtual hosts of the fabric.", fabric.hosts),
        ("weft_fabric_adapters", "Adapters of the fabric's hosts.", fabric.adapters),
        ("weft_fabric_switches", "Switches of the fabric.", fabric.switches),
        ("weft_fabric_powered_off_nodes", "Nodes of the fabric without power.", fabric.powered_off),
        ("weft_fabric_subnet_managers", "Ports with a running subnet manager.", fabric.managers.len() as u32),
        ("weft_fabric_hosts_with_programs", "Hosts that programs run as.", fabric.hosts_with_programs),
    ];
    for (name, help, value) in rows {
        page.family(name, Kind::Gauge, help, [Sample::plain(value.into())]);
    }
    let links = LinkState::ALL.iter().zip(fabric.links);
    let links = links.map(|(state, count)| Sample::integer([("state", state.word())], count.into()));
    page.family("weft_fabric_links", Kind::Gauge, "Links of the fabric by state.", links);
    let up = [Sample::plain(fabric.uptime_s)];
    page.family("weft_fabric_uptime_seconds", Kind::Gauge, "Time since the fabric came up.", up);
}
