//! Differences between the fabric and a cache file.

use std::fmt::Write;

use super::text::Writer;
use crate::ibnet::{Kind, Node, Port};

/// The properties to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Cables.
    pub ports: bool,
    /// PortState.
    pub states: bool,
    /// LIDs.
    pub lids: bool,
    /// NodeDescriptions.
    pub descriptions: bool,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { ports: true, states: true, lids: false, descriptions: false }
    }
}

impl Checks {
    const NONE: Checks = Checks { ports: false, states: false, lids: false, descriptions: false };

    /// Reads `port,state,lid,nodedesc`.
    ///
    /// # Errors
    /// The first unknown key.
    pub fn parse(keys: &str) -> Result<Checks, String> {
        let mut checks = Checks::NONE;
        for key in keys.split(',').filter(|key| !key.is_empty()) {
            match key.to_ascii_lowercase().as_str() {
                "port" => checks.ports = true,
                "state" => checks.states = true,
                "lid" => checks.lids = true,
                "nodedesc" => checks.descriptions = true,
                _ => return Err(key.to_owned()),
            }
        }
        Ok(checks)
    }
}

/// The nodes to compare.
#[derive(Clone, Copy)]
pub enum Which {
    /// All nodes, or those of one type.
    All(Option<Kind>),
    /// The node with this GUID.
    One(u64),
}

/// A fabric and the prefix of its lines.
type Side<'a> = (Writer<'a>, &'static str);

/// The lines that differ between `old` and `new`.
pub fn text(old: Writer<'_>, new: Writer<'_>, which: Which, checks: Checks) -> String {
    let (old, new) = ((old, "< "), (new, "> "));
    let mut out = String::new();
    // The first pass compares what is in both fabrics; the second finds nodes that only the new one has.
    for (one, other, checks) in [(old, new, checks), (new, old, Checks::NONE)] {
        match which {
            Which::One(guid) => {
                if let Some(index) = one.0.fabric.find_node(guid) {
                    compare(&mut out, one.0.fabric.node(index), one, other, checks);
                }
            }
            Which::All(kind) => {
                for (_, node) in one.0.fabric.nodes().filter(|(_, node)| kind.is_none_or(|kind| node.kind == kind)) {
                    compare(&mut out, node, one, other, checks);
                }
            }
        }
    }
    out
}

fn compare(out: &mut String, a: &Node, one: Side<'_>, other: Side<'_>, checks: Checks) {
    let Some(index) = other.0.fabric.find_node(a.guid) else { return one.0.node(out, a, one.1) };
    let b = other.0.fabric.node(index);
    if checks == Checks::NONE {
        return;
    }
    let mut headed = false;
    let lids = a.is_switch() && checks.lids && a.sma_lid != b.sma_lid;
    if lids || checks.descriptions && a.description != b.description {
        one.0.head(out, a, &mut false, one.1);
        other.0.head(out, b, &mut false, other.1);
        headed = true;
    }
    if a.num_ports != b.num_ports {
        one.0.head(out, a, &mut headed, "");
        let _ = writeln!(out, "{}numports = {}", one.1, a.num_ports);
        let _ = writeln!(out, "{}numports = {}", other.1, b.num_ports);
        return;
    }
    for num in 1..=a.num_ports {
        let ports = (a.port(num), b.port(num));
        if !differ(ports, one, other, checks) {
            continue;
        }
        for (port, node, side) in [(ports.0, a, one), (ports.1, b, other)] {
            if let Some(port) = port {
                one.0.head(out, a, &mut headed, "");
                side.0.port(out, node, port, side.1);
            }
        }
    }
}

fn differ(ports: (Option<&Port>, Option<&Port>), one: Side<'_>, other: Side<'_>, checks: Checks) -> bool {
    let (a, b) = match ports {
        (None, None) => return false,
        (Some(a), Some(b)) => (a, b),
        _ => return checks.ports,
    };
    if checks.states && a.state() != b.state() {
        return true;
    }
    match (one.0.fabric.remote(a), other.0.fabric.remote(b)) {
        _ if !checks.ports => false,
        (Some((x_node, x)), Some((y_node, y))) => {
            x.guid != y.guid
                || checks.lids && x.lid != y.lid
                || checks.descriptions && x_node.description != y_node.description
        }
        (x, y) => x.is_some() != y.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_choose_what_is_compared() {
        assert_eq!(Checks::parse("LID,state").unwrap(), Checks { lids: true, states: true, ..Checks::NONE });
        assert_eq!(Checks::parse("port,x").unwrap_err(), "x");
    }
}
