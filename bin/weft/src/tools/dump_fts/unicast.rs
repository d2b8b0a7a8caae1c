//! Linear forwarding tables: out of which port each LID leaves.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Dump;
use crate::ib::report::warn;
use crate::ib::smp::{DATA_LEN, LINEAR_FORWARDING};
use crate::ibnet::Node;

/// The last LID of ports.
const LID_MAX: u32 = 0xbfff;

/// LIDs of one port that stand in a row.
#[derive(Default)]
struct Paths {
    first: u32,
    last: u32,
    guid: u64,
}

impl Dump<'_> {
    /// The table of a switch, as text and for programs.
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
        let mut routes = Vec::new();
        let mut paths = Paths::default();
        let mut lft = [0; DATA_LEN];
        // The original counts blocks without looking into one that only `last` is in.
        let blocks = first / DATA_LEN as u32..last.div_ceil(DATA_LEN as u32);
        for block in blocks {
            // What could not be read is shown as the block before.
            lft = self.block(node, LINEAR_FORWARDING, block).unwrap_or(lft);
            let start = block * DATA_LEN as u32;
            for (lid, port) in (start..).zip(lft).filter(|(lid, _)| (first..=last).contains(lid)) {
                let valid = port <= node.num_ports;
                if valid || self.all {
                    let (info, value) = self.destination(lid, valid, &mut paths);
                    let _ = writeln!(text, "0x{lid:04x} {port:03} {info}");
                    routes.push(json!({"lid": lid, "port": port, "valid": valid, "destination": value}));
                }
            }
        }
        let valid = if self.all { "" } else { "valid " };
        let _ = writeln!(text, "{} {valid}lids dumped ", routes.len());
        let guid = crate::ibnet::json::guid(node.guid);
        (text, json!({"guid": guid, "name": node.called(self.names), "lid": node.sma_lid, "routes": routes}))
    }

    /// Whose LID it is.
    fn destination(&self, lid: u32, valid: bool, paths: &mut Paths) -> (String, Value) {
        if self.brief {
            return Default::default();
        }
        if lid <= paths.last {
            let (number, of) = (i64::from(lid) - i64::from(paths.first), paths.last - paths.first + 1);
            let text = match (valid, paths.guid) {
                (false, _) => format!(": (path #{number} - illegal port)"),
                (true, 0) => format!(": (path #{} out of {of})", number + 1),
                (true, guid) => format!(": (path #{} out of {of}: portguid 0x{guid:016x})", number + 1),
            };
            return (text, json!({"port_guid": crate::ibnet::json::guid(paths.guid)}));
        }
        if !valid {
            return (": (illegal port)".to_owned(), Value::Null);
        }
        paths.guid = 0;
        let at = u16::try_from(lid).ok().and_then(|lid| self.fabric.find_lid(lid));
        let Some((node, port)) = at.and_then(|at| Some((self.fabric.node(at.node), self.fabric.port(at)?))) else {
            return (": (node info not available fabric scan)".to_owned(), Value::Null);
        };
        paths.guid = port.guid;
        if port.lmc > 0 {
            paths.first = port.lid.into();
            paths.last = u32::from(port.lid) + (1 << port.lmc) - 1;
        }
        let (kind, guid, name) = (node.kind.long_name(), port.guid, node.called(self.names));
        let value = json!({
            "type": crate::ibnet::json::kind(node.kind),
            "port_guid": crate::ibnet::json::guid(guid),
            "name": name,
        });
        (format!(": ({kind} portguid 0x{guid:016x}: '{name}')"), value)
    }
}
