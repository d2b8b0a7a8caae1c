//! `ibidsverify`: finds LIDs and GUIDs that are zero or duplicate.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;

use super::Tool;
use super::ibnetdiscover::discovered;
use crate::getopt::{self, Opt, flag, value};
use crate::ib::config;
use crate::ib::number::number;
use crate::ib::options::Common;
use crate::ibnet::{Config, Fabric, Kind, Node, chassis};
use crate::output;
use weft_client::Which;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibidsverify", about: "check LIDs and GUIDs for zeros and duplicates", run };

const OPTIONS: &[Opt] = &[
    flag('h', "\0h"),
    flag('R', "\0R"),
    value('C', "\0C"),
    value('P', "\0P"),
    flag('\0', "json"),
    flag('\0', "system"),
];

const USAGE: &str = "Usage: ibidsverify [-Rh]
   Validate LIDs and GUIDs (check for zero and duplicates) in the local subnet
   -h This help message
   -R Recalculate ibnetdiscover information (Default is to reuse ibnetdiscover output)
   -C <ca_name> use selected Channel Adaptor name for queries
   -P <ca_port> use selected channel adaptor port for queries
";

fn run(args: &[OsString]) -> ExitCode {
    let mut common = Common::default();
    config::read(config::PATH, &mut common);
    let parsed = getopt::parse(args, OPTIONS);
    let options = parsed.as_ref().map_or(&[][..], |p| &p.options);
    if parsed.is_err() || options.iter().any(|(name, _)| *name == "\0h") {
        output::print(USAGE);
        if let Err(mistake) = &parsed {
            let letter = mistake.strip_prefix("invalid option -- ").map(|letter| letter.trim_matches('\''));
            crate::errln!("{}", letter.map_or(mistake.clone(), |letter| format!("Unknown option: {letter}")));
        }
        return ExitCode::from(2);
    }
    for (name, value) in options {
        match *name {
            "\0C" => common.ca = Some(value.clone()),
            "\0P" => common.port = number(value) as i32,
            "json" => common.json = true,
            "system" => common.which = Which::System,
            // -R has no effect: the tool always discovers the fabric anew, as a cache may be outdated.
            _ => {}
        }
    }
    let config = Config { mlnx_ext_port_info: common.mlx_epi, ..Config::default() };
    let Some(fabric) = discovered(&common, config) else { return ExitCode::FAILURE };
    let found = verify(&fabric);
    if common.json {
        crate::outln!("{:#}", json!({"problems": found}));
    } else {
        output::print(&found.iter().map(|line| format!("{line}\n")).collect::<String>());
    }
    ExitCode::from(u8::from(!found.is_empty()))
}

/// The problems found, one line each.
pub fn verify(fabric: &Fabric) -> Vec<String> {
    let mut ids = Ids::default();
    for node in chassis::in_order(fabric).into_iter().map(|index| fabric.node(index)) {
        match node.kind {
            Kind::SWITCH => {
                ids.lid(node.sma_lid, node.guid, "switch");
                ids.node(node.sma_lid, node.guid, "switch");
                ids.port(node.sma_lid, node.info_port_guid(), node.guid, "switch");
            }
            Kind::CA => ids.adapter(node, "ca"),
            _ => ids.adapter(node, "router"),
        }
    }
    ids.problems
}

/// The LIDs and GUIDs found so far.
#[derive(Default)]
struct Ids {
    lids: HashMap<u16, u64>,
    nodes: HashMap<u64, u16>,
    ports: HashMap<u64, u16>,
    problems: Vec<String>,
}

impl Ids {
    fn adapter(&mut self, node: &Node, kind: &str) {
        for (i, port) in node.external_ports().filter(|port| port.remote.is_some()).enumerate() {
            self.lid(port.lid, node.guid, kind);
            if i == 0 {
                self.node(port.lid, node.guid, kind);
            }
            self.port(port.lid, port.guid, node.guid, kind);
        }
    }

    fn lid(&mut self, lid: u16, node: u64, kind: &str) {
        if lid == 0 {
            self.problems.push(format!("LID 0 found for {kind} NodeGUID {node:#x}"));
        } else if let Some(first) = self.lids.get(&lid) {
            self.problems.push(format!("LID {lid} already defined for NodeGUID {first:#x}"));
        } else {
            self.lids.insert(lid, node);
        }
    }

    fn node(&mut self, lid: u16, guid: u64, kind: &str) {
        if guid == 0 {
            self.problems.push(format!("{kind} GUID 0x0 found with LID {lid}"));
        } else if let Some(first) = self.nodes.get(&guid) {
            self.problems.push(format!("NodeGUID {guid:#x} already defined for LID {first}"));
        } else {
            self.nodes.insert(guid, lid);
        }
    }

    fn port(&mut self, lid: u16, guid: u64, node: u64, kind: &str) {
        if guid == 0 {
            self.problems.push(format!("{kind} GUID 0x0 found with LID {lid}"));
        } else if let Some(first) = self.ports.get(&guid) {
            self.problems.push(format!("PortGUID {guid:#x} already defined for LID {first}"));
        } else {
            self.ports.insert(guid, lid);
            if guid != node && self.nodes.contains_key(&guid) {
                self.problems.push(format!("PortGUID {guid:#x} is an invalid duplicate of a NodeGUID"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_duplicates_are_told() {
        let mut ids = Ids::default();
        ids.lid(1, 0x10, "switch");
        ids.node(1, 0x10, "switch");
        ids.port(1, 0x10, 0x10, "switch");
        assert!(ids.problems.is_empty());
        ids.lid(0, 0x11, "ca");
        ids.lid(1, 0x12, "ca");
        ids.node(3, 0, "ca");
        ids.node(4, 0x10, "ca");
        ids.port(5, 0x10, 0x10, "ca");
        ids.node(6, 0x20, "ca");
        ids.port(7, 0x20, 0x21, "ca");
        assert_eq!(
            ids.problems,
            [
                "LID 0 found for ca NodeGUID 0x11",
                "LID 1 already defined for NodeGUID 0x10",
                "ca GUID 0x0 found with LID 3",
                "NodeGUID 0x10 already defined for LID 1",
                "PortGUID 0x10 already defined for LID 1",
                "PortGUID 0x20 is an invalid duplicate of a NodeGUID",
            ]
        );
    }
}
