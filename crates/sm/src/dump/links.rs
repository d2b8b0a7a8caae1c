//! Every link from both of its ends: `opensm-subnet.lst`, which ibdiagnet and administrators' scripts read.

use std::fmt::Write as _;

use weft_wire::mad::Speed;
use weft_wire::mad::subn::{CapabilityMask, NodeType, PortState};

use crate::subnet::{Node, NodeIx, Port, Subnet};

/// Returns a line for each port with a neighbor: the manager's own node first, then by GUID.
pub fn subnet_list(subnet: &Subnet) -> String {
    let own = subnet.own.map(|port| port.node);
    let others = subnet.by_guid.values().copied().filter(|at| Some(*at) != own);
    let mut out = String::new();
    for at in own.into_iter().chain(others) {
        let Some(node) = subnet.node(at) else { continue };
        for (number, port) in node.ports.iter().enumerate().skip(1) {
            let Some(to) = port.neighbor else { continue };
            let Some(other) = subnet.node(to.node) else { continue };
            let here = end(subnet, at, node, number, false);
            let there = end(subnet, to.node, other, usize::from(to.port), true);
            let _ = writeln!(out, "{here} {there} {}", link(port));
        }
    }
    out
}

/// Formats one end. OpenSM writes the vendor and device ID of the far end as it found them in the words of NodeInfo.
fn end(subnet: &Subnet, at: NodeIx, node: &Node, number: usize, far: bool) -> String {
    let info = &node.info;
    let kind = match info.node_type {
        NodeType::CA => "CA",
        NodeType::SWITCH => "SW",
        _ => "RT",
    };
    // A switch has one LID, that of its port 0.
    let port = node.ports.get(if node.switch.is_some() { 0 } else { number });
    let (guid, lid) = port.map_or((0, 0), |port| (port.guid, port.info.lid));
    let manages = port.is_some_and(|port| port.info.capability_mask.contains(CapabilityMask::SM))
        || subnet.own.is_some_and(|own| own.node == at);
    let manager = if manages { "-SM" } else { "" };
    let (vendor, device) = match far {
        false => (format!("{:06X}", info.vendor_id), format!("{:04X}", info.device_id)),
        true => (format!("{:08X}", info.vendor_id), format!("{:08X}", u32::from(info.device_id) << 16)),
    };
    format!(
        "{{ {kind}{manager} Ports:{:02X} SystemGUID:{:016x} NodeGUID:{:016x} PortGUID:{guid:016x} VenID:{vendor} \
         DevID:{device} Rev:{:08X} {{{}}} LID:{lid:04X} PN:{number:02X} }}",
        info.num_ports,
        info.system_image_guid,
        info.node_guid,
        info.revision,
        node.description.text()
    )
}

fn link(port: &Port) -> String {
    let info = &port.info;
    let width = info.link_width_active.name().unwrap_or("??").to_lowercase();
    let state = match info.port_state {
        PortState::DOWN => "DWN",
        PortState::INIT => "INI",
        PortState::ARMED => "ARM",
        PortState::ACTIVE => "ACT",
        _ => "???",
    };
    let speed = match Speed::active(info) {
        Some(Speed::Sdr) => "2.5",
        Some(Speed::Ddr) => "5",
        Some(Speed::Qdr) => "10",
        Some(Speed::Fdr10) => "FDR10",
        Some(Speed::Fdr) => "14",
        Some(Speed::Edr) => "25",
        Some(Speed::Hdr) => "50",
        Some(Speed::Ndr) => "100",
        Some(Speed::Xdr) => "200",
        None => "??",
    };
    format!("PHY={width} LOG={state} SPD={speed}")
}
