//! Linear forwarding tables: the egress port of each LID.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Dump;
use crate::ib::names::NodeNames;
use crate::ib::report::warn;
use crate::ib::smp::{DATA_LEN, LINEAR_FORWARDING};
use crate::ibnet::{Fabric, Node, PortRef};

/// The last unicast LID.
const LID_MAX: u32 = 0xbfff;

/// The LIDs of one port with several consecutive LIDs.
#[derive(Default)]
struct Paths {
    first: u32,
    last: u32,
    guid: u64,
}

impl Dump<'_> {
    /// The table of a switch, as text and as JSON.
    pub(super) fn unicast(&mut self, node: &Node) -> (String, Value) {
        let top = u32::from(node.linear_top());
        let (first, wanted) = self.range;
        let mut last = if wanted == 0 || wanted > top { top } else { wanted };
        if last > LID_MAX {
            warn("dump_unicast_tables", &format!("illegal lft top {last}, truncate to {LID_MAX}"));
            last = LID_MAX;
        }
        let mut text = format!("Unicast lids {}", self.of_switch(node, first, last));
        text += "  Lid  Out   Destination\n       Port     Info \n";
        let (mut routes, mut dumped) = (Vec::new(), 0);
        let mut paths = Paths::default();
        let mut lft = [0; DATA_LEN];
        // As in the original, a block is left out if `last` is the only LID in it.
        let blocks = first / DATA_LEN as u32..last.div_ceil(DATA_LEN as u32);
        for block in blocks {
            // An unreadable block shows the previous block's contents.
            lft = self.block(node, LINEAR_FORWARDING, block).unwrap_or(lft);
            let start = block * DATA_LEN as u32;
            for (lid, port) in (start..).zip(lft).filter(|(lid, _)| (first..=last).contains(lid)) {
                let valid = port <= node.num_ports;
                if !valid && !self.all {
                    continue;
                }
                dumped += 1;
                let destination = self.destination(lid, valid, &mut paths);
                if self.json {
                    let value = self.value(&destination);
                    routes.push(json!({"lid": lid, "port": port, "valid": valid, "destination": value}));
                } else {
                    let _ = write!(text, "0x{lid:04x} {port:03} ");
                    self.write_row(&mut text, lid, destination);
                    text.push('\n');
                }
            }
        }
        let valid = if self.all { "" } else { "valid " };
        let _ = writeln!(text, "{dumped} {valid}lids dumped ");
        let guid = crate::ibnet::json::guid(node.guid);
        (text, json!({"guid": guid, "name": node.called(self.names), "lid": node.sma_lid, "routes": routes}))
    }

    /// The port with this LID. `paths` remembers the last port with several LIDs.
    fn destination(&self, lid: u32, valid: bool, paths: &mut Paths) -> Destination {
        if self.brief {
            return Destination::Untold;
        }
        if lid <= paths.last {
            let (number, of) = (i64::from(lid) - i64::from(paths.first), paths.last - paths.first + 1);
            return Destination::Path { number, of, valid, guid: paths.guid };
        }
        if !valid {
            return Destination::IllegalPort;
        }
        paths.guid = 0;
        let at = u16::try_from(lid).ok().and_then(|lid| self.fabric.find_lid(lid));
        let Some((at, port)) = at.and_then(|at| Some((at, self.fabric.port(at)?))) else {
            return Destination::Unknown;
        };
        paths.guid = port.guid;
        if port.lmc > 0 {
            paths.first = port.lid.into();
            paths.last = u32::from(port.lid) + (1 << port.lmc) - 1;
        }
        Destination::Port(at)
    }

    fn write_row(&mut self, text: &mut String, lid: u32, destination: Destination) {
        let _ = match destination {
            Destination::Untold => Ok(()),
            Destination::IllegalPort => write!(text, ": (illegal port)"),
            Destination::Unknown => write!(text, ": (node info not available fabric scan)"),
            Destination::Path { number, valid: false, .. } => write!(text, ": (path #{number} - illegal port)"),
            Destination::Path { number, of, guid: 0, .. } => write!(text, ": (path #{} out of {of})", number + 1),
            Destination::Path { number, of, guid, .. } => {
                write!(text, ": (path #{} out of {of}: portguid 0x{guid:016x})", number + 1)
            }
            Destination::Port(at) => {
                let (fabric, names) = (self.fabric, self.names);
                text.push_str(self.rows.entry(lid).or_insert_with(|| row_of(fabric, names, at)));
                Ok(())
            }
        };
    }

    fn value(&self, destination: &Destination) -> Value {
        match *destination {
            Destination::Untold => Value::Null,
            Destination::IllegalPort | Destination::Unknown => Value::Null,
            Destination::Path { guid, .. } => json!({"port_guid": crate::ibnet::json::guid(guid)}),
            Destination::Port(at) => {
                let (node, guid) = (self.fabric.node(at.node), self.fabric.port(at).map_or(0, |port| port.guid));
                json!({
                    "type": crate::ibnet::json::kind(node.kind),
                    "port_guid": crate::ibnet::json::guid(guid),
                    "name": node.called(self.names),
                })
            }
        }
    }
}

/// The destination of a LID.
#[derive(Clone, Copy)]
enum Destination {
    /// Not shown (`-n`).
    Untold,
    /// A further LID of the previous row's port; a GUID of 0 means unknown.
    Path { number: i64, of: u32, valid: bool, guid: u64 },
    /// The table names a port that the switch does not have.
    IllegalPort,
    /// No port of the fabric has the LID.
    Unknown,
    /// A port of the fabric.
    Port(PortRef),
}

fn row_of(fabric: &Fabric, names: &NodeNames, at: PortRef) -> String {
    let (node, guid) = (fabric.node(at.node), fabric.port(at).map_or(0, |port| port.guid));
    let (kind, name) = (node.kind.long_name(), node.called(names));
    format!(": ({kind} portguid 0x{guid:016x}: '{name}')")
}
