//! Differences between the fabric and a cache file.

use std::fmt::Write;

use super::topology::Writer;
use crate::ib::names::NodeNames;
use crate::ibnet::{Fabric, Kind, Node, Port};

/// The properties to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Switches.
    pub switches: bool,
    /// Channel adapters.
    pub cas: bool,
    /// Routers.
    pub routers: bool,
    /// Cables.
    pub ports: bool,
    /// LIDs.
    pub lids: bool,
    /// NodeDescriptions.
    pub descriptions: bool,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { switches: true, cas: true, routers: true, ports: true, lids: false, descriptions: false }
    }
}

impl Checks {
    /// Reads `sw,ca,router,port,lid,nodedesc`.
    ///
    /// # Errors
    /// The first unknown key.
    pub fn parse(keys: &str) -> Result<Checks, String> {
        let mut checks =
            Checks { switches: false, cas: false, routers: false, ports: false, lids: false, descriptions: false };
        for key in keys.split(',').filter(|key| !key.is_empty()) {
            match key.to_ascii_lowercase().as_str() {
                "sw" => checks.switches = true,
                "ca" => checks.cas = true,
                "router" => checks.routers = true,
                "port" => checks.ports = true,
                "lid" => checks.lids = true,
                "nodedesc" => checks.descriptions = true,
                _ => return Err(key.to_owned()),
            }
        }
        Ok(checks)
    }

    fn only_existence(self) -> Checks {
        Checks { ports: false, lids: false, descriptions: false, ..self }
    }
}

/// Two fabrics and the prefixes of their lines.
struct Pair<'a> {
    one: Side<'a>,
    other: Side<'a>,
    checks: Checks,
}

#[derive(Clone, Copy)]
struct Side<'a> {
    fabric: &'a Fabric,
    prefix: &'static str,
    names: &'a NodeNames,
    full: bool,
}

impl<'a> Side<'a> {
    fn writer(&self) -> Writer<'a> {
        Writer { fabric: self.fabric, names: self.names, group: false, full: self.full }
    }
}

/// The lines that differ between `old` and `new`.
pub fn text(old: &Fabric, new: &Fabric, names: &NodeNames, full: bool, checks: Checks) -> String {
    let old = Side { fabric: old, prefix: "< ", names, full };
    let new = Side { fabric: new, prefix: "> ", names, full };
    let mut out = String::new();
    for (kind, wanted) in [(Kind::SWITCH, checks.switches), (Kind::CA, checks.cas), (Kind::ROUTER, checks.routers)] {
        if wanted {
            Pair { one: old, other: new, checks }.compare(&mut out, kind);
            // The first pass compared what is in both fabrics; this one finds nodes that only the other has.
            Pair { one: new, other: old, checks: checks.only_existence() }.compare(&mut out, kind);
        }
    }
    out
}

impl Pair<'_> {
    fn compare(&self, out: &mut String, kind: Kind) {
        for (_, node) in self.one.fabric.nodes_of(kind) {
            match self.other.fabric.find_node(node.guid) {
                Some(index) => self.compare_node(out, node, self.other.fabric.node(index)),
                None => self.missing(out, node),
            }
        }
    }

    fn missing(&self, out: &mut String, node: &Node) {
        let (writer, prefix) = (self.one.writer(), self.one.prefix);
        writer.node(out, node, None, prefix, prefix);
        for port in node.external_ports() {
            writer.port(out, node, port, prefix);
        }
    }

    fn compare_node(&self, out: &mut String, a: &Node, b: &Node) {
        let Checks { ports, lids, descriptions, .. } = self.checks;
        if !ports && !lids && !descriptions {
            return;
        }
        let mut headed = false;
        if lids && a.sma_lid != b.sma_lid || descriptions && a.description != b.description {
            self.one.writer().node(out, a, None, "", self.one.prefix);
            self.other.writer().head(out, b, self.other.prefix);
            out.push('\n');
            headed = true;
        }
        if a.num_ports != b.num_ports {
            self.head(out, a, &mut headed);
            let _ = writeln!(out, "{}numports = {}", self.one.prefix, a.num_ports);
            let _ = writeln!(out, "{}numports = {}", self.other.prefix, b.num_ports);
        } else if ports || lids {
            self.compare_ports(out, a, b, headed);
        }
    }

    fn head(&self, out: &mut String, node: &Node, headed: &mut bool) {
        if !*headed {
            self.one.writer().node(out, node, None, "", "");
            *headed = true;
        }
    }

    fn compare_ports(&self, out: &mut String, a: &Node, b: &Node, mut headed: bool) {
        for num in 1..=a.num_ports {
            let (one, other) = (a.port(num), b.port(num));
            let (show_one, show_other) = self.differ(one, other);
            if let Some(port) = one.filter(|_| show_one) {
                self.head(out, a, &mut headed);
                self.one.writer().port(out, a, port, self.one.prefix);
            }
            if let Some(port) = other.filter(|_| show_other) {
                self.head(out, a, &mut headed);
                self.other.writer().port(out, b, port, self.other.prefix);
            }
        }
    }

    /// Whether to show each of the two ports.
    fn differ(&self, one: Option<&Port>, other: Option<&Port>) -> (bool, bool) {
        let (Some(a), Some(b)) = (one, other) else {
            let ports = self.checks.ports;
            return (ports && one.is_some(), ports && other.is_some());
        };
        let remotes = (self.one.fabric.remote(a), self.other.fabric.remote(b));
        let mut show = match remotes {
            _ if !self.checks.ports => (false, false),
            (Some(_), None) => (true, false),
            (None, Some(_)) => (false, true),
            (x, y) if a.guid != b.guid || x.map(|r| r.1.guid) != y.map(|r| r.1.guid) => (true, true),
            _ => (false, false),
        };
        if self.checks.lids && a.lid != b.lid {
            show = (true, true);
        }
        if let (true, Some((x_node, x)), Some((y_node, y))) = (self.checks.ports, remotes.0, remotes.1) {
            let renamed = self.checks.descriptions && x_node.description != y_node.description;
            if renamed || self.checks.lids && x.lid != y.lid {
                show = (true, true);
            }
        }
        show
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_choose_what_is_compared() {
        let checks = Checks::parse("SW,lid").unwrap();
        assert!(checks.switches && checks.lids && !checks.ports && !checks.cas);
        assert_eq!(Checks::parse("sw,cable").unwrap_err(), "cable");
    }
}
