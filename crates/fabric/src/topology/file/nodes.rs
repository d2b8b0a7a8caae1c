//! Converts the tables of switches, hosts and routers to nodes.

use toml::Spanned;

use super::super::builder::{DEFAULT_ADAPTER, adapter_name};
use super::super::{Builder, Node, NodeKind, Port, Result, Speed, Width, limits};
use super::place::{Place, speed, width};
use super::schema;
use crate::topology::generate::{ADAPTER_ID, SWITCH_ID, VENDOR_ID};

/// The link of a port that is not part of the fabric.
pub(super) const ETHERNET: &str = "Ethernet";

/// Adds all nodes.
pub fn read(place: Place<'_>, file: &schema::File, defaults: (Width, Speed), builder: &mut Builder) -> Result<()> {
    let sections = [(NodeKind::Switch, &file.switch), (NodeKind::Ca, &file.host), (NodeKind::Router, &file.router)];
    for (kind, tables) in sections {
        for table in tables {
            let pattern = place.at(table, pattern(place, kind, table, defaults))?;
            for node in copies(&pattern, table.get_ref()) {
                place.at(&table.get_ref().name, builder.node(node))?;
            }
        }
    }
    Ok(())
}

/// Returns the node that a table describes, before it is multiplied.
fn pattern(place: Place<'_>, kind: NodeKind, table: &Spanned<schema::Node>, defaults: (Width, Speed)) -> Result<Node> {
    let node = table.get_ref();
    judge(place, kind, table)?;
    let port = Port::infiniband(
        0,
        node.width.as_ref().map_or(Ok(defaults.0), |text| width(place, text))?,
        node.speed.as_ref().map_or(Ok(defaults.1), |text| speed(place, text))?,
    );
    let Some(count) = node.ports.or((kind == NodeKind::Ca).then_some(1)) else {
        let what = format!("{} {:?} without its number of ports", kind.word(), node.name.get_ref());
        return Err(place.error(&node.name, what, "add ports = 36, or how many it has"));
    };
    let mut ports = vec![port; usize::from(count)];
    for list in [&node.links, &node.port_guids] {
        if !list.is_empty() && list.len() != ports.len() {
            let what = format!("{} entries for {} ports", list.len(), ports.len());
            return Err(place.error(table, what, "links and port-guids have one entry for each port, in order"));
        }
    }
    for (port, text) in ports.iter_mut().zip(&node.links) {
        *port = link(place, kind, text)?;
    }
    for (port, text) in ports.iter_mut().zip(&node.port_guids) {
        port.guid = guid(place, text)?;
    }
    let own = node.guid.as_ref().map_or(Ok(0), |text| guid(place, text))?;
    let name = node.name.get_ref().clone();
    Ok(Node {
        kind,
        host: node.host.clone().unwrap_or_else(|| if kind == NodeKind::Ca { name.clone() } else { String::new() }),
        adapter: String::new(),
        description: String::new(),
        name,
        guid: own,
        system_image_guid: node.system_image_guid.as_ref().map_or(Ok(0), |text| guid(place, text))?,
        vendor_id: node.vendor.unwrap_or(VENDOR_ID),
        device_id: node.device.unwrap_or(if kind == NodeKind::Switch { SWITCH_ID } else { ADAPTER_ID }),
        enhanced_port0: node.enhanced_port0.unwrap_or(kind == NodeKind::Switch),
        lmc_max: node.lmc_max.unwrap_or(7),
        ports,
    })
}

/// Refuses keys that a table of this kind may not have.
fn judge(place: Place<'_>, kind: NodeKind, table: &Spanned<schema::Node>) -> Result<()> {
    let node = table.get_ref();
    let adapters = node.adapters.as_ref().map(schema::Adapters::count);
    let several = node.count.is_some() || adapters.is_some_and(|adapters| adapters != 1);
    let refuse = |what: &str, mend: &str| Err(place.error(&node.name, what, mend));
    if kind != NodeKind::Ca && (node.host.is_some() || node.adapters.is_some()) {
        return refuse("host and adapters are a host's", "remove them here");
    }
    if kind != NodeKind::Switch && node.enhanced_port0.is_some() {
        return refuse("enhanced-port0 is a switch's", "remove it here");
    }
    if several && (node.guid.is_some() || !node.port_guids.is_empty() || node.host.is_some()) {
        return refuse("one GUID or host for several nodes", "give each its own table, or leave GUIDs out");
    }
    if node.count == Some(0) || node.count.is_some_and(|count| count as usize > limits::NODES_MAX) {
        let mend = format!("count is 1 to {}", limits::NODES_MAX);
        return Err(place.error(&node.name, "a count that cannot be", mend));
    }
    if adapters == Some(0) {
        return refuse("a host without adapters", "adapters is at least 1");
    }
    Ok(())
}

/// Returns the nodes of a table, with names and descriptions.
fn copies<'a>(pattern: &'a Node, table: &'a schema::Node) -> impl Iterator<Item = Node> + 'a {
    let adapters = table.adapters.as_ref().map_or(1, schema::Adapters::count);
    let numbers = 1..=table.count.unwrap_or(1);
    numbers.flat_map(move |number| {
        let name = if table.count.is_some() { format!("{}{number}", pattern.name) } else { pattern.name.clone() };
        (0..adapters).map(move |adapter| {
            let mut node = pattern.clone();
            node.name.clone_from(&name);
            if node.kind == NodeKind::Ca && table.host.is_none() {
                node.host.clone_from(&name);
            }
            if node.kind == NodeKind::Ca {
                let given = table.adapters.as_ref().and_then(|adapters| adapters.name(adapter));
                // An adapter of a host that other tables describe, too, is named by its place there.
                let own = given.map(str::to_owned).or_else(|| table.host.is_none().then(|| default_name(adapter)));
                node.adapter = own.unwrap_or_default();
            }
            if adapters > 1 {
                node.name = format!("{name}/{}", node.adapter);
            }
            node.description = match (&table.description, node.kind) {
                (Some(text), _) => text.clone(),
                (None, NodeKind::Ca) if node.adapter.is_empty() => format!("{} {}", node.host, default_name(adapter)),
                (None, NodeKind::Ca) => format!("{} {}", node.host, node.adapter),
                (None, _) => name.clone(),
            };
            node
        })
    })
}

fn default_name(adapter: usize) -> String {
    adapter_name(DEFAULT_ADAPTER, adapter)
}

/// Parses `4xEDR`; or, for a port of an adapter that is not part of the fabric, `Ethernet`, or `40GbE` with a cable.
fn link(place: Place<'_>, kind: NodeKind, text: &Spanned<String>) -> Result<Port> {
    let unplugged = || text.get_ref().eq_ignore_ascii_case(ETHERNET).then(|| Port::ethernet(0));
    if let Some(port) = Port::on_ethernet(0, text.get_ref()).or_else(unplugged) {
        let mend = "only adapters have Ethernet ports; write 4xEDR";
        return match kind {
            NodeKind::Ca => Ok(port),
            _ => Err(place.error(text, format!("an Ethernet port of a {}", kind.word()), mend)),
        };
    }
    let parts =
        text.get_ref().split_once('x').and_then(|(lanes, speed)| Some((Width::parse(lanes)?, Speed::parse(speed)?)));
    let what = || format!("{:?} is no width and speed", text.get_ref());
    let (width, speed) = parts
        .ok_or_else(|| place.error(text, what(), "write 4xEDR, or 40GbE, or Ethernet for a port without a cable"))?;
    Ok(Port::infiniband(0, width, speed))
}

fn guid(place: Place<'_>, text: &Spanned<String>) -> Result<u64> {
    let word = text.get_ref();
    let value = word.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let mend = "write it as \"0x0002c90300100000\", not 0";
    value.filter(|guid| *guid != 0).ok_or_else(|| place.error(text, format!("{word:?} is no GUID"), mend))
}
