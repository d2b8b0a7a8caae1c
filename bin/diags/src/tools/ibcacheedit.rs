//! `ibcacheedit`: edits GUIDs in a fabric's cache file, so that a replaced part does not show as a difference.

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;

use super::Tool;
use super::ibnetdiscover::loaded;
use crate::ib::number::number;
use crate::ib::options::{CommandLine, Opt, Spec, opt_arg};
use crate::ib::report::{End, Outcome, failed};
use crate::ibnet::{Fabric, Kind, Node, cache};

/// The tool.
pub const TOOL: Tool = Tool { name: "ibcacheedit", about: "edit GUIDs in a cache file of ibnetdiscover", run };

const SWITCH: char = '\u{1}';
const CA: char = '\u{2}';
const SYSTEM: char = '\u{3}';
const PORT: char = '\u{4}';

const OPTIONS: &[Opt] = &[
    opt_arg("switchguid", SWITCH, "BEFOREGUID:AFTERGUID", "Specify before and after switchguid to edit"),
    opt_arg("caguid", CA, "BEFOREGUID:AFTERGUID", "Specify before and after caguid to edit"),
    opt_arg("sysimgguid", SYSTEM, "BEFOREGUID:AFTERGUID", "Specify before and after sysimgguid to edit"),
    opt_arg("portguid", PORT, "NODEGUID:BEFOREGUID:AFTERGUID", "Specify before and after port guid to edit"),
];

const SPEC: Spec = Spec {
    program: "ibcacheedit",
    options: OPTIONS,
    exclude: "CDdeGKLPstvy",
    own: "",
    usage: "<orig.cache> <new.cache>",
    examples: &[],
};

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

/// Parses `N` numbers separated by colons.
fn guids<const N: usize>(line: &CommandLine, option: char) -> Outcome<Option<[u64; N]>> {
    let Some(text) = line.arg(option) else { return Ok(None) };
    let parts: Vec<&str> = text.splitn(N, ':').collect();
    let whole = parts.len() == N && parts.last().is_some_and(|last| !last.is_empty());
    if !whole {
        crate::errln!("invalid input '{text}'");
        return Err(End::Usage);
    }
    let mut guids = [0; N];
    for (guid, part) in guids.iter_mut().zip(parts) {
        *guid = number(part);
    }
    Ok(Some(guids))
}

fn work(line: &CommandLine) -> Outcome<()> {
    let (switch, ca) = (guids::<2>(line, SWITCH)?, guids::<2>(line, CA)?);
    let (system, port) = (guids::<2>(line, SYSTEM)?, guids::<3>(line, PORT)?);
    let Some(from) = line.operands.first() else { return failed("original cache file not specified") };
    let Some(to) = line.operands.get(1) else { return failed("new cache file not specified") };
    let Some(mut fabric) = loaded(from) else { return failed("loading original cached fabric failed") };
    if let Some([before, after]) = switch {
        found(replace_node(&mut fabric, Kind::SWITCH, before, after), "switchguid", before)?;
    }
    if let Some([before, after]) = ca {
        found(replace_node(&mut fabric, Kind::CA, before, after), "caguid", before)?;
    }
    if let Some([before, after]) = system {
        found(replace_system(&mut fabric, before, after), "sysimgguid", before)?;
    }
    if let Some([node, before, after]) = port {
        found(fabric.find_node(node).is_some(), "nodeguid", node)?;
        found(replace_port(&mut fabric, node, before, after), "portguid", before)?;
    }
    cache::store(&fabric, to).or_else(|_| failed("caching new cache data failed"))?;
    if line.common.json {
        crate::outln!("{}", json!({"written": to}));
    }
    Ok(())
}

fn found(found: bool, what: &str, guid: u64) -> Outcome<()> {
    if found { Ok(()) } else { failed(format!("{what} = {guid:x} not found")) }
}

/// Sets a node's GUID; a switch's ports share it.
fn set_guid(node: &mut Node, guid: u64) {
    node.guid = guid;
    if node.is_switch() {
        node.ports_mut().for_each(|port| port.guid = guid);
    }
}

fn replace_node(fabric: &mut Fabric, kind: Kind, before: u64, after: u64) -> bool {
    let mut found = false;
    for node in fabric.nodes_mut().filter(|node| node.kind == kind && node.guid == before) {
        set_guid(node, after);
        found = true;
    }
    found
}

fn replace_system(fabric: &mut Fabric, before: u64, after: u64) -> bool {
    let mut found = false;
    for node in fabric.nodes_mut().filter(|node| node.system_guid() == before) {
        node.info.set_u64(4, after);
        found = true;
    }
    found
}

fn replace_port(fabric: &mut Fabric, guid: u64, before: u64, after: u64) -> bool {
    let mut found = false;
    for node in fabric.nodes_mut().filter(|node| node.guid == guid) {
        if node.is_switch() {
            if guid == before {
                set_guid(node, after);
                found = true;
            }
        } else if let Some(port) = node.ports_mut().find(|port| port.num != 0 && port.guid == before) {
            port.guid = after;
            found = true;
        }
    }
    found
}
