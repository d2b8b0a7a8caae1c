//! `smpquery`: queries attributes of nodes and ports.

mod operation;
mod query;
mod tables;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::Value;

use self::operation::Query;
use super::Tool;
use crate::ib::names::NodeNames;
use crate::ib::options::{CommandLine, Dest, SMP_CLASSES, Spec, opt, opt_arg};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome};
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "smpquery", about: "query attributes of nodes and ports", run };

/// The letter of `--node-name-map`.
const NODE_NAME_MAP: char = '\u{1}';

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt("combined", 'c', "use Combined route address argument"),
        opt_arg("node-name-map", NODE_NAME_MAP, "<file>", "node name map file"),
        opt("extended", 'x', "use extended speeds"),
    ],
    exclude: "",
    own: "",
    usage: "<op> <dest dr_path|lid|guid> [op params]

Supported ops (and aliases, case insensitive):
  NodeInfo (NI) <addr>
  NodeDesc (ND) <addr>
  PortInfo (PI) <addr> [<portnum>]
  PortInfoExtended (PIE) <addr> [<portnum>]
  SwitchInfo (SI) <addr>
  PKeyTable (PKeys) <addr> [<portnum>]
  SL2VLTable (SL2VL) <addr> [<portnum>]
  VLArbitration (VLArb) <addr> [<portnum>]
  GUIDInfo (GI) <addr>
  MlnxExtPortInfo (MEPI) <addr> [<portnum>]
",
    examples: &[
        "portinfo 3 1\t\t\t\t# portinfo by lid, with port modifier",
        "-G switchinfo 0x2C9000100D051 1\t# switchinfo by guid",
        "-D nodeinfo 0\t\t\t\t# nodeinfo by direct route",
        "-c nodeinfo 6 0,12\t\t\t# nodeinfo by combined route",
    ],
};

/// An operation: its name, its alias, and its function.
type Op = (&'static str, &'static str, fn(&mut Query<'_>) -> Result<(), &'static str>);

const OPS: &[Op] = &[
    ("NodeInfo", "NI", query::node_info),
    ("NodeDesc", "ND", query::node_desc),
    ("PortInfo", "PI", query::port_info),
    ("PortInfoExtended", "PIE", query::port_info_extended),
    ("SwitchInfo", "SI", query::switch_info),
    ("PKeyTable", "PKeys", tables::pkeys),
    ("SL2VLTable", "SL2VL", tables::sl2vl),
    ("VLArbitration", "VLArb", tables::vl_arbitration),
    ("GUIDInfo", "GI", tables::guids),
    ("MlnxExtPortInfo", "MEPI", query::mlnx_ext_port_info),
];

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let [op, address, rest @ ..] = line.operands.as_slice() else { return Err(End::Usage) };
    let known = |(name, alias, _): &&Op| name.eq_ignore_ascii_case(op) || alias.eq_ignore_ascii_case(op);
    let (name, _, ask) =
        OPS.iter().find(known).ok_or_else(|| End::failed(format!("operation '{op}' not supported")))?;
    let mut port = Port::open(&line.common, SMP_CLASSES)?;
    let names = NodeNames::open(line.arg(NODE_NAME_MAP));
    // A combined route takes two words.
    let (address, dest, rest) = match (line.has('c'), rest) {
        (true, [route, rest @ ..]) => (format!("{address} {route}"), Dest::LidPath, rest),
        (true, []) => return Err(End::Usage),
        (false, rest) => (address.clone(), line.common.dest, rest),
    };
    let to = line.common.resolve(&mut port, &address, dest)?;
    let to = to.ok_or_else(|| End::failed(format!("can't resolve destination port {address}")))?;
    let number = rest.first().map_or(0, |text| crate::ib::number::number(text) as u32);
    let mut query = Query { line, port, to, number, names, names_operation: true, json: serde_json::Map::new() };
    query.keep("operation", *name);
    query.keep("address", to.to_string());
    ask(&mut query).map_err(|why| match query.names_operation {
        true => End::failed(format!("operation {op}: {why}")),
        false => End::failed(why),
    })?;
    if line.common.json {
        output::print(&format!("{}\n", Value::from(query.json)));
    }
    Ok(())
}
