//! `ibqueryerrors`: reports the ports of the fabric with errors, and their counters.

mod check;
pub mod counters;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;

use super::Tool;
use super::ibnetdiscover::{config, discovered, loaded};
use crate::ib::address::PortId;
use crate::ib::mad::{CLASS_PERF, CLASS_SUBN_ADM, CLASS_SUBN_DIRECTED, CLASS_SUBN_LID, GET_TABLE};
use crate::ib::names::NodeNames;
use crate::ib::number::number;
use crate::ib::options::{CommandLine, Dest, Opt, Spec, opt, opt_arg};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome, failed, warn};
use crate::ib::sa::{PATH_DGID, PATH_RECORD, PATH_SGID, Query};
use crate::ib::smp;
use crate::ibnet::{Attribute, Config, Fabric, Kind, Node, discover_from};
use crate::output;
use check::{Check, Options, Summary};
use counters::{THRESHOLD_FILE, Thresholds, suppressed};

/// The tool.
pub const TOOL: Tool = Tool { name: "ibqueryerrors", about: "report the ports of a fabric with errors", run };

const NAME_MAP: char = '\u{1}';
const DATA: char = '\u{2}';
const SWITCH: char = '\u{3}';
const CA: char = '\u{4}';
const ROUTER: char = '\u{5}';
const DETAILS: char = '\u{6}';
const LOAD_CACHE: char = '\u{7}';
const THRESHOLDS: char = '\u{8}';
const COUNTERS: char = '\u{9}';
const SKIP_SL: char = '\u{a}';

const OPTIONS: &[Opt] = &[
    opt_arg("suppress", 's', "<err1,err2,...>", "suppress errors listed"),
    opt("suppress-common", 'c', "suppress some of the common counters"),
    opt_arg("node-name-map", NAME_MAP, "<file>", "node name map file"),
    opt_arg("port-guid", 'G', "<port_guid>", "report the node containing the port specified by <port_guid>"),
    opt_arg("", 'S', "<port_guid>", "Same as \"-G\" for backward compatibility"),
    opt_arg("Direct", 'D', "<dr_path>", "report the node containing the port specified by <dr_path>"),
    opt("skip-sl", SKIP_SL, "don't obtain SL to all destinations"),
    opt("report-port", 'r', "report port link information"),
    opt_arg(
        "threshold-file",
        THRESHOLDS,
        "<val>",
        "specify an alternate threshold file, default: /etc/infiniband-diags/error_thresholds",
    ),
    opt("GNDN", 'R', "(This option is obsolete and does nothing)"),
    opt("data", DATA, "include data counters for ports with errors"),
    opt("switch", SWITCH, "print data for switches only"),
    opt("ca", CA, "print data for CA's only"),
    opt("router", ROUTER, "print data for routers only"),
    opt("details", DETAILS, "include transmit discard details"),
    opt("counters", COUNTERS, "print data counters only"),
    opt("clear-errors", 'k', "Clear error counters after read"),
    opt("clear-counts", 'K', "Clear data counters after read"),
    opt_arg("load-cache", LOAD_CACHE, "<file>", "filename of ibnetdiscover cache to load"),
    opt_arg(
        "outstanding_smps",
        'o',
        "<val>",
        "specify the number of outstanding SMP's which should be issued during the scan",
    ),
];

const SPEC: Spec =
    Spec { program: "ibqueryerrors", options: OPTIONS, exclude: "cDGKLnRrSs", own: "", usage: "", examples: &[] };

const CLASSES: &[u8] = &[CLASS_SUBN_LID, CLASS_SUBN_DIRECTED, CLASS_SUBN_ADM, CLASS_PERF];
/// Timeout of the SA query for half of all paths, in milliseconds; later counter queries use it too.
const PATHS_TIMEOUT_MS: u32 = 3000;
/// Number of unicast LIDs.
const LIDS: usize = 0xc000;

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

/// The nodes to check.
enum Target<'a> {
    All,
    Guid(&'a str),
    Path(&'a str, PortId),
}

fn work(line: &CommandLine) -> Outcome<()> {
    let common = &line.common;
    let mut port = open(line, "open")?;
    let guid = line.own.iter().rev().find(|(letter, _)| matches!(letter, 'G' | 'S'));
    if line.has('D') && line.has(LOAD_CACHE) {
        crate::errln!("Cannot specify cache and direct route path");
        return Err(End::Code(255));
    }
    let Some(own) = common.own_port()? else { return failed("can't resolve self port (null)") };
    let names = NodeNames::open(line.arg(NAME_MAP));
    let mut service_levels = vec![0; LIDS];
    let (target, start) = if let Some(path) = line.arg('D') {
        let start = common.resolve(&mut port, path, Dest::Path)?;
        (Target::Path(path, start.unwrap_or_default()), start.ok_or(path))
    } else if let Some((_, guid)) = guid {
        let start = common.resolve(&mut port, guid, Dest::Guid)?;
        if let Some(sl) = start.and_then(|s| Some((service_levels.get_mut(usize::from(s.lid))?, s.sl))) {
            *sl.0 = sl.1;
        }
        (Target::Guid(guid), start.ok_or(&**guid))
    } else {
        (Target::All, Err(""))
    };
    if let Err(text) = start
        && !text.is_empty()
    {
        warn("main", &format!("Failed to resolve {text}; attempting full scan"));
    }
    drop(port);
    let fabric = walked(line, start.ok())?;
    let thresholds = Thresholds::open(line.arg(THRESHOLDS).unwrap_or(THRESHOLD_FILE));
    let mut check = Check {
        port: &mut open(line, "reopen")?,
        fabric: &fabric,
        names: &names,
        service_levels,
        timeout_ms: common.timeout_ms.unwrap_or(0),
        options: options(line, thresholds),
        summary: Summary::default(),
        text: String::new(),
        json: Vec::new(),
    };
    if !checked(line, &mut check, &target, own.gid())? {
        return Ok(());
    }
    report(line, &check);
    if check.summary.bad_ports > 0 { Err(End::Code(1)) } else { Ok(()) }
}

fn open(line: &CommandLine, what: &str) -> Outcome<Port> {
    Port::open(&line.common, CLASSES).map_err(|_| {
        let ca = line.common.ca.as_deref().unwrap_or("(null)");
        let text = if what == "open" { "Failed to open port; " } else { "Failed to reopen port: " };
        End::failed(format!("{text}{ca}:{}\n", line.common.port))
    })
}

fn options(line: &CommandLine, thresholds: Thresholds) -> Options {
    let mut quiet = Vec::new();
    for (letter, value) in &line.own {
        match letter {
            's' => quiet.extend(suppressed(value)),
            'c' => quiet.extend(suppressed("PortRcvSwitchRelayErrors")),
            _ => {}
        }
    }
    Options {
        thresholds,
        suppressed: quiet,
        data: line.has(DATA),
        data_only: line.has(COUNTERS),
        details: line.has(DETAILS),
        links: line.has('r'),
        clear_errors: line.has('k'),
        clear_data: line.has('K'),
    }
}

fn walked(line: &CommandLine, start: Option<PortId>) -> Outcome<Fabric> {
    if let Some(path) = line.arg(LOAD_CACHE) {
        return loaded(path).ok_or_else(|| {
            crate::errln!("loading cached fabric failed");
            End::Code(255)
        });
    }
    let mut config = config(line);
    if let Some(from) = start {
        config = Config { max_hops: 1, ..config };
        match discover_from(&line.common, from, config)? {
            Ok(fabric) => return Ok(fabric),
            Err(_) => warn("main", "Single node discover failed; attempting full scan"),
        }
    }
    discovered(&line.common, config).ok_or_else(|| {
        crate::errln!("discover failed");
        End::Code(255)
    })
}

/// Runs the check; returns whether there is something to report.
fn checked(line: &CommandLine, check: &mut Check<'_>, target: &Target<'_>, own: [u8; 16]) -> Outcome<bool> {
    let with_paths = !line.has(SKIP_SL);
    match target {
        Target::All => {
            if with_paths && !service_levels(line, check, own, None)? {
                return Ok(false);
            }
            for (_, node) in check.fabric.nodes().filter(|(_, node)| is_wanted(line, node)) {
                check.node(node);
            }
        }
        Target::Guid(text) => match check.fabric.find_port(number(text)) {
            Some(at) => one(line, check, at.node),
            None => crate::errln!("Failed to find node: {text}"),
        },
        Target::Path(text, at) => {
            let Ok(info) = check.port.smp_get_within(at, smp::NODE_INFO, 0, check.timeout_ms) else {
                crate::errln!("Failed to query local Node Info");
                return Ok(false);
            };
            let guid = Node::new(Attribute(info)).info_port_guid();
            match check.fabric.find_port(guid) {
                Some(at) => {
                    if with_paths && !service_levels(line, check, own, Some(guid))? {
                        return Ok(false);
                    }
                    one(line, check, at.node);
                }
                None => crate::errln!("Failed to find node: {text}"),
            }
        }
    }
    Ok(true)
}

fn one(line: &CommandLine, check: &mut Check<'_>, index: usize) {
    let node = check.fabric.node(index);
    if is_wanted(line, node) {
        check.node(node);
    }
}

/// Whether to check nodes of this type: all, unless options name types.
fn is_wanted(line: &CommandLine, node: &Node) -> bool {
    let kinds = [(SWITCH, Kind::SWITCH), (CA, Kind::CA), (ROUTER, Kind::ROUTER)];
    let mut named = kinds.iter().filter(|(letter, _)| line.has(*letter)).peekable();
    named.peek().is_none() || named.any(|(_, kind)| *kind == node.kind)
}

/// Gets the service levels to all ports, or to one; prints the error and returns `false` if the SA does not answer.
fn service_levels(line: &CommandLine, check: &mut Check<'_>, own: [u8; 16], to: Option<u64>) -> Outcome<bool> {
    /// Component mask: reversible paths, one for each pair.
    const REVERSIBLE: u64 = 1 << 11;
    const NUMB_PATH: u64 = 1 << 12;
    let sm = line.common.own_sm()?.unwrap_or_default();
    if sm.lid == 0 {
        let name = if line.common.ca.is_some() { "" } else { "(null)" };
        warn("sa_get_handle", &format!("No SM/SA found on port {name}:{}", line.common.port));
        return Ok(false);
    }
    check.timeout_ms = PATHS_TIMEOUT_MS;
    let mut data = [0u8; 64];
    data[24..40].copy_from_slice(&own);
    let mut component_mask = PATH_SGID | NUMB_PATH | REVERSIBLE;
    if let Some(guid) = to {
        data[8..16].copy_from_slice(&own[..8]);
        data[16..24].copy_from_slice(&guid.to_be_bytes());
        component_mask |= PATH_DGID;
    }
    data[49] = 0x81;
    let sm_key = line.common.sa_key;
    let query = Query { method: GET_TABLE, attribute: PATH_RECORD, component_mask, sm_key, data: &data, modifier: 0 };
    let answer = match check.port.sa_query(&sm, &query, PATHS_TIMEOUT_MS) {
        Ok(answer) => answer,
        Err(error) => {
            use crate::ib::sa::SaError::{Recv, Send, Status};
            let error = match error {
                Send(error) | Recv(error) => error,
                Status(status) => std::io::Error::from_raw_os_error(status),
            };
            crate::errln!("Query SA failed: {}; sa call path_query failed", crate::errno::text(&error));
            return Ok(false);
        }
    };
    if answer.status != 0 {
        super::saquery::report_status(answer.status);
        return Ok(false);
    }
    for record in answer.records() {
        let byte = |at: usize| record.get(at).copied().unwrap_or(0);
        let lid = u16::from_be_bytes([byte(40), byte(41)]);
        if let Some(level) = check.service_levels.get_mut(usize::from(lid)) {
            *level = byte(53) & 15;
        }
    }
    Ok(true)
}

fn report(line: &CommandLine, check: &Check<'_>) {
    let Summary { nodes, bad_nodes, ports, bad_ports, failures } = check.summary;
    let quiet = &check.options.suppressed;
    if line.common.json {
        let summary = json!({
            "nodes_checked": nodes,
            "bad_nodes": bad_nodes,
            "ports_checked": ports,
            "bad_ports": bad_ports,
            "query_failures": failures,
        });
        crate::outln!("{:#}", json!({"nodes": check.json, "summary": summary, "suppressed": quiet}));
        return;
    }
    let mut text = check.text.clone();
    text += &format!("\n## Summary: {nodes} nodes checked, {bad_nodes} bad nodes found\n");
    text += &format!("##          {ports} ports checked, {bad_ports} ports have errors beyond threshold\n");
    text += &format!("## {}\n", check.options.thresholds.text());
    if failures > 0 {
        text += &format!("##          {failures} PMA query failures\n");
    }
    text += "## Suppressed:";
    quiet.iter().for_each(|name| text += &format!(" {name}"));
    output::print(&(text + "\n"));
}
