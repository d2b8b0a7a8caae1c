//! A fabric as JSON.

use serde_json::{Value, json};

use super::link::{Rate, could_be, short_width};
use super::port::STATE_DOWN;
use super::{Fabric, Kind, Node, Port};
use crate::ib::format::Format;
use crate::ib::names::NodeNames;

/// Width of PortInfo's state fields in bits.
const STATE_BITS: u16 = 4;

/// A GUID in hexadecimal.
pub fn guid(guid: u64) -> String {
    format!("0x{guid:016x}")
}

/// The name of a node type.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::CA => "ca",
        Kind::SWITCH => "switch",
        Kind::ROUTER => "router",
        _ => "unknown",
    }
}

/// A node without its ports.
pub fn node(fabric: &Fabric, names: &NodeNames, node: &Node) -> Value {
    let mut value = json!({
        "type": kind(node.kind),
        "guid": guid(node.guid),
        "name": node.called(names),
        "system_guid": guid(node.system_guid()),
        "ports": node.num_ports,
        "vendor_id": format!("{:#x}", node.vendor_id()),
        "device_id": format!("{:#x}", node.device_id()),
    });
    if node.is_switch() {
        value["lid"] = node.sma_lid.into();
        value["lmc"] = node.sma_lmc.into();
        value["port_guid"] = guid(node.info_port_guid()).into();
        value["enhanced_port0"] = node.enhanced_port0.into();
    }
    if let Some(num) = node.chassis_num(fabric) {
        value["chassis"] = json!({"number": num, "model": node.chassis_model(), "slot": node.chassis_slot()});
    }
    value
}

/// A port and its link.
pub fn port(fabric: &Fabric, names: &NodeNames, node: &Node, port: &Port) -> Value {
    let mut value = json!({
        "port": port.num,
        "guid": guid(port.guid),
        "lid": Fabric::lid_of(node, port),
        "lmc": port.lmc,
        "state": Format::PortState.text(port.state().into(), STATE_BITS),
        "phys_state": Format::PhysState.text(port.phys_state().into(), STATE_BITS),
    });
    if port.external != 0 {
        value["external_port"] = port.external.into();
    }
    if port.state() != STATE_DOWN {
        let rate = Rate::of(node, port);
        value["width"] = short_width(rate.width).into();
        value["speed"] = rate.short_speed().into();
    }
    if let Some((remote_node, remote)) = fabric.remote(port) {
        value["remote"] = json!({
            "type": kind(remote_node.kind),
            "node_guid": guid(remote_node.guid),
            "name": remote_node.called(names),
            "port": remote.num,
            "guid": guid(remote.guid),
            "lid": Fabric::lid_of(remote_node, remote),
        });
        let (width, speed) = could_be(fabric, node, port);
        for (what, lack) in [("width_could_be", width), ("speed_could_be", speed)] {
            if let Some(lack) = lack.strip_prefix("Could be ") {
                value[what] = lack.into();
            }
        }
    }
    value
}

/// A node with the ports selected by `wanted`.
pub fn node_with_ports(fabric: &Fabric, names: &NodeNames, of: &Node, wanted: impl Fn(&Port) -> bool) -> Value {
    let mut value = node(fabric, names, of);
    let ports = of.external_ports().filter(|p| wanted(p));
    value["links"] = ports.map(|p| port(fabric, names, of, p)).collect();
    value
}

/// The lines of a comparison: each begins with `<` or `>` for the side that has it.
pub fn difference(text: &str) -> Value {
    let line = |line: &str| match (line.strip_prefix("< "), line.strip_prefix("> ")) {
        (Some(text), _) => json!({"in": "old", "text": text}),
        (_, Some(text)) => json!({"in": "new", "text": text}),
        _ => json!({"in": "both", "text": line}),
    };
    text.lines().filter(|l| !l.is_empty()).map(line).collect()
}
