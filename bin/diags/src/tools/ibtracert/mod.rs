//! `ibtracert`: traces the path of packets from one port to another through the forwarding tables.

mod multicast;
mod node;
mod session;
mod unicast;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::Value;

use self::session::{Detail, NoWay, Session};
use super::Tool;
use crate::ib::address::PortId;
use crate::ib::names::NodeNames;
use crate::ib::number;
use crate::ib::options::{CommandLine, SMP_CLASSES, Spec, opt, opt_arg};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome, warn};
use crate::named_file;
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibtracert", about: "trace the path from one port to another", run };

/// The letter of `--node-name-map`.
const NODE_NAME_MAP: char = '\u{1}';
/// The letter of `--ports-file`.
const PORTS_FILE: char = '\u{2}';

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt("force", 'f', "force"),
        opt("no_info", 'n', "simple format"),
        opt_arg("mlid", 'm', "<mlid>", "multicast trace of the mlid"),
        opt_arg("node-name-map", NODE_NAME_MAP, "<file>", "node name map file"),
        opt_arg("ports-file", PORTS_FILE, "<file>", "port pairs file"),
    ],
    exclude: "DK",
    own: "",
    usage: "<src-addr> <dest-addr>",
    examples: &[
        "- Unicast examples:",
        "4 16\t\t\t# show path between lids 4 and 16",
        "-n 4 16\t\t# same, but using simple output format",
        "-G 0x8f1040396522d 0x002c9000100d051\t# use guid addresses",
        " - Multicast examples:",
        "-m 0xc000 4 16\t# show multicast path of mlid 0xc000 between lids 4 and 16",
    ],
};

/// The first multicast LID.
const MLID_MIN: u32 = 0xc000;
/// Maximum characters of an address in a file of pairs.
const ADDRESS_LEN_MAX: usize = 20;

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let file = line.arg(PORTS_FILE);
    if line.operands.len() < 2 && file.is_none() {
        return Err(End::Usage);
    }
    let port = Port::open(&line.common, SMP_CLASSES)?;
    let names = NodeNames::open(line.arg(NODE_NAME_MAP));
    let detail = if line.has('n') { Detail::Brief } else { Detail::Full };
    // JSON output always has full detail.
    let detail = if line.common.json { Detail::Full } else { detail };
    let mut session = Session { line, port, names, detail, json: Vec::new() };
    match file {
        None => {
            let told = route(&mut session, &line.operands[0], &line.operands[1])?;
            told.map_err(|NoWay| End::failed("Failed to get route information"))?;
        }
        Some(path) => pairs(&mut session, path)?,
    }
    if line.common.json {
        output::print(&format!("{}\n", Value::from(session.json)));
    }
    Ok(())
}

/// Traces each pair of a file.
fn pairs(session: &mut Session<'_>, path: &str) -> Outcome<()> {
    let text = named_file::read(path).map_err(|_| End::failed(format!("cannot open ports-file {path}")))?;
    let mut count = 0;
    for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace().filter(|word| word.len() <= ADDRESS_LEN_MAX);
        let (Some(from), Some(to)) = (words.next(), words.next()) else {
            return Err(End::failed(format!("ports-file, {path}, at line {at} contains bad data")));
        };
        count += 1;
        let told = route(session, from, to)?;
        told.map_err(|NoWay| End::failed(format!("Failed to get route information at line {at}")))?;
    }
    session.print(&format!("{count} lid/guid pairs processed from {path}\n"));
    Ok(())
}

/// Traces one pair.
fn route(session: &mut Session<'_>, from: &str, to: &str) -> Outcome<Result<(), NoWay>> {
    const FUNCTION: &str = "get_route";
    let common = &session.line.common;
    let mut ends = [PortId::default(); 2];
    for (end, (text, what)) in ends.iter_mut().zip([(from, "source"), (to, "destination")]) {
        let Some(found) = common.destination(&mut session.port, text)? else {
            warn(FUNCTION, &format!("can't resolve {what} port {text}"));
            return Ok(Err(NoWay));
        };
        *end = found;
    }
    let [source, target] = ends;
    if source.lid == 0 || target.lid == 0 {
        warn(FUNCTION, "bad src/dest lid");
        return Err(End::Usage);
    }
    // First, trace the directed route from the local port to the start of the path.
    let mut start = PortId::default();
    let detail = session.detail;
    if unicast::trace(session, &mut start, &source, Detail::Nothing).is_err() {
        warn(FUNCTION, "can't find a route to the src port");
        return Ok(Err(NoWay));
    }
    let Some(mlid) = session.line.arg('m').map(|text| number::number(text) as u32) else {
        let told = unicast::trace(session, &mut start, &target, detail);
        return Ok(told.inspect_err(|NoWay| warn(FUNCTION, "can't find a route from src to dest")));
    };
    if mlid < MLID_MIN {
        warn(FUNCTION, "invalid MLID; must be 0xc000 or larger");
    }
    Ok(multicast::trace(session, start, &target, mlid))
}
