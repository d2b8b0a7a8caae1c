//! `dump_fts`: dumps the forwarding tables of all switches. `dump_lfts` and `dump_mfts` are its old names for unicast
//! and multicast.

mod multicast;
mod unicast;

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::Value;

use super::Tool;
use super::ibnetdiscover::{config, discovered};
use crate::ib::address::PortId;
use crate::ib::names::NodeNames;
use crate::ib::options::{CommandLine, Opt, SMP_CLASSES, Spec, opt, opt_arg};
use crate::ib::port::{MadError, Port};
use crate::ib::report::{End, Outcome};
use crate::ib::smp;
use crate::ibnet::{Fabric, Kind, Node};
use crate::output;

/// The tool.
pub const FTS: Tool = Tool { name: "dump_fts", about: "dump the forwarding tables of all switches", run };
/// The tool under its old unicast name.
pub const LFTS: Tool =
    Tool { name: "dump_lfts", about: "dump the linear forwarding tables of all switches", run: lfts };
/// The tool under its old multicast name.
pub const MFTS: Tool = Tool { name: "dump_mfts", about: "dump the multicast tables of all switches", run: mfts };

const NAME_MAP: char = '\u{1}';

const OPTIONS: &[Opt] = &[
    opt("all", 'a', "show all lids, even invalid entries"),
    opt("no_dests", 'n', "do not try to resolve destinations"),
    opt("Multicast", 'M', "show multicast forwarding tables"),
    opt_arg("node-name-map", NAME_MAP, "<file>", "node name map file"),
];

const SPEC: Spec = Spec {
    program: "dump_fts",
    options: OPTIONS,
    exclude: "KGDLs",
    own: "",
    usage: "[<dest dr_path|lid|guid> [<startlid> [<endlid>]]]",
    examples: &[
        " -- Unicast examples:",
        "-a\t# same, but dump all lids, even with invalid out ports",
        "-n\t# simple dump format - no destination resolving",
        "10\t# dump lids starting from 10",
        "0x10 0x20\t# dump lid range",
        " -- Multicast examples:",
        "-M\t# dump all non empty mlids of switch with lid 4",
        "-M 0xc010 0xc020\t# same, but with range",
        "-M -n\t# simple dump format",
    ],
};

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn lfts(args: &[OsString]) -> ExitCode {
    old_name(args.to_vec(), "dump_fts")
}

fn mfts(args: &[OsString]) -> ExitCode {
    old_name([&[OsString::from("-M")], args].concat(), "dump_fts -M")
}

/// Runs the tool under an old name. Like the originals' scripts, it always exits with success.
fn old_name(args: Vec<OsString>, new_name: &str) -> ExitCode {
    run(&args);
    if !args.iter().any(|arg| arg == "--json") {
        output::print(&format!("\n*** WARNING ***: this command has been replaced by {new_name}\n\n\n"));
    }
    ExitCode::SUCCESS
}

/// State and settings of a dump.
struct Dump<'a> {
    port: Port,
    fabric: &'a Fabric,
    names: &'a NodeNames,
    brief: bool,
    /// Whether to output JSON instead of text.
    json: bool,
    /// Text of a destination by LID, for the first LID of each port: the same for every switch.
    rows: HashMap<u32, String>,
    all: bool,
    verbose: bool,
    /// First and last LID as given, or 0.
    range: (u32, u32),
}

fn work(line: &CommandLine) -> Outcome<()> {
    let names = NodeNames::open(line.arg(NAME_MAP));
    let Some(fabric) = discovered(&line.common, config(line)) else {
        crate::errln!("Failed to discover fabric");
        return Err(End::Code(255));
    };
    let port = Port::open(&line.common, SMP_CLASSES).map_err(|_| {
        let ca = line.common.ca.as_deref().unwrap_or("(null)");
        crate::errln!("Failed to open '{ca}' port '{}'", line.common.port);
        End::Code(255)
    })?;
    let mut dump = Dump {
        port,
        fabric: &fabric,
        names: &names,
        brief: line.has('n'),
        json: line.common.json,
        rows: HashMap::new(),
        all: line.has('a'),
        verbose: line.common.verbose > 0,
        range: (line.number(0) as u32, line.number(1) as u32),
    };
    let multicast = line.has('M');
    let mut values = Vec::new();
    for (_, node) in fabric.nodes_of(Kind::SWITCH) {
        let (text, value) = if multicast { dump.multicast(node) } else { dump.unicast(node) };
        match line.common.json {
            true => values.push(value),
            false => output::print(&text),
        }
    }
    if line.common.json {
        crate::outln!("{:#}", Value::from(values));
    }
    Ok(())
}

impl Dump<'_> {
    /// `MIN-MAX of switch ...`, as in the heading of both kinds of table.
    fn of_switch(&self, node: &Node, first: u32, last: u32) -> String {
        let (path, guid, name) = (path(node), node.guid, node.called(self.names));
        format!("[0x{first:x}-0x{last:x}] of switch {path} guid 0x{guid:016x} ({name}):\n")
    }

    /// Gets a block of a table; prints the error if the switch does not return it.
    fn block(&mut self, node: &Node, attribute: u16, modifier: u32) -> Option<smp::Data> {
        let kind = if attribute == smp::LINEAR_FORWARDING { "LFT" } else { "MFT" };
        self.port.smp_get(&path(node), attribute, modifier).map_err(|e| self.refused(node, kind, modifier, &e)).ok()
    }

    fn refused(&self, node: &Node, kind: &str, modifier: u32, error: &MadError) {
        let (name, path, lid) = (node.called(self.names), path(node), node.sma_lid);
        crate::errln!(
            "SubnGet({kind}) failed on switch '{name}' {path} Node GUID {:#x} SMA LID {lid}; MAD status 0x{:x} \
             AM 0x{modifier:x}",
            node.guid,
            error.status
        );
    }
}

fn path(node: &Node) -> PortId {
    node.path.unwrap_or_default()
}
