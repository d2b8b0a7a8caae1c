//! `ibroute`: prints the forwarding tables of a switch.

mod multicast;
mod session;
mod unicast;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::Value;

use self::session::Session;
use super::Tool;
use crate::ib::names::NodeNames;
use crate::ib::options::{CommandLine, SMP_CLASSES, Spec, opt, opt_arg};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome};
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibroute", about: "print the forwarding tables of a switch", run };

/// The letter of `--node-name-map`.
const NODE_NAME_MAP: char = '\u{1}';

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt("all", 'a', "show all lids, even invalid entries"),
        opt("no_dests", 'n', "do not try to resolve destinations"),
        opt("Multicast", 'M', "show multicast forwarding tables"),
        opt_arg("node-name-map", NODE_NAME_MAP, "<file>", "node name map file"),
    ],
    exclude: "K",
    own: "",
    usage: "[<dest dr_path|lid|guid> [<startlid> [<endlid>]]]",
    examples: &[
        " -- Unicast examples:",
        "4\t# dump all lids with valid out ports of switch with lid 4",
        "-a 4\t# same, but dump all lids, even with invalid out ports",
        "-n 4\t# simple dump format - no destination resolving",
        "4 10\t# dump lids starting from 10",
        "4 0x10 0x20\t# dump lid range",
        "-G 0x08f1040023\t# resolve switch by GUID",
        "-D 0,1\t# resolve switch by direct path",
        " -- Multicast examples:",
        "-M 4\t# dump all non empty mlids of switch with lid 4",
        "-M 4 0xc010 0xc020\t# same, but with range",
        "-M -n 4\t# simple dump format",
    ],
};

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let Some(address) = line.operands.first() else { return Err(End::Usage) };
    let names = NodeNames::open(line.arg(NODE_NAME_MAP));
    let mut port = Port::open(&line.common, SMP_CLASSES)?;
    let to = line.common.destination(&mut port, address)?;
    let to = to.ok_or_else(|| End::failed(format!("can't resolve destination port {address}")))?;
    let (first, last) = (line.number(1) as u32, line.number(2) as u32);
    let mut session = Session { line, port, to, names, first, last, json: serde_json::Map::new() };
    let told = if line.has('M') { multicast::dump(&mut session) } else { unicast::dump(&mut session) };
    told.map_err(|why| End::failed(format!("dump tables: {why}")))?;
    if line.common.json {
        output::print(&format!("{}\n", Value::from(session.json)));
    }
    Ok(())
}
