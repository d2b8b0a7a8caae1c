//! `iblinkinfo`: prints a line for every link of the fabric, and whether it could be wider or faster.

mod diff;
pub mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::Value;

use super::Tool;
use super::ibnetdiscover::{config, discovered, loaded};
use crate::ib::address::PortId;
use crate::ib::names::NodeNames;
use crate::ib::number::number;
use crate::ib::options::{CommandLine, Dest, Opt, SMP_CLASSES, Spec, opt, opt_arg};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome, failed, warn};
use crate::ib::smp;
use crate::ibnet::port::STATE_DOWN;
use crate::ibnet::{Attribute, Config, Fabric, Kind, Node, discover_from, json as ibnet_json};
use crate::output;
use diff::{Checks, Which};
use text::Writer;

/// The tool.
pub const TOOL: Tool = Tool { name: "iblinkinfo", about: "report the links of an InfiniBand fabric", run };

const NAME_MAP: char = '\u{1}';
const LOAD_CACHE: char = '\u{2}';
const DIFF: char = '\u{3}';
const DIFFCHECK: char = '\u{4}';
const FILTER_DOWN: char = '\u{5}';
const SWITCHES_ONLY: char = '\u{6}';
const CAS_ONLY: char = '\u{7}';

const OPTIONS: &[Opt] = &[
    opt_arg("node-name-map", NAME_MAP, "<file>", "node name map file"),
    opt_arg("switch", 'S', "<port_guid>", "start partial scan at the port specified by <port_guid> (hex format)"),
    opt_arg("port-guid", 'G', "<port_guid>", "(same as -S)"),
    opt_arg("Direct", 'D', "<dr_path>", "start partial scan at the port specified by <dr_path>"),
    opt("all", 'a', "print all nodes found in a partial fabric scan"),
    opt_arg("hops", 'n', "<hops>", "Number of hops to include away from specified node"),
    opt("down", 'd', "print only down links"),
    opt("line", 'l', "(line mode) print all information for each link on a single line"),
    opt("additional", 'p', "print additional port settings (PktLifeTime, HoqLife, VLStallCount)"),
    opt_arg("load-cache", LOAD_CACHE, "<file>", "filename of ibnetdiscover cache to load"),
    opt_arg("diff", DIFF, "<file>", "filename of ibnetdiscover cache to diff"),
    opt_arg("diffcheck", DIFFCHECK, "<key(s)>", "specify checks to execute for --diff"),
    opt_arg("filterdownports", FILTER_DOWN, "<file>", "filename of ibnetdiscover cache to filter downports"),
    opt_arg(
        "outstanding_smps",
        'o',
        "<val>",
        "specify the number of outstanding SMP's which should be issued during the scan",
    ),
    opt("switches-only", SWITCHES_ONLY, "Output only switches"),
    opt("cas-only", CAS_ONLY, "Output only CAs"),
];

const SPEC: Spec =
    Spec { program: "iblinkinfo", options: OPTIONS, exclude: "aDdGgKLlnpRS", own: "", usage: "", examples: &[] };

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

/// The selected node.
struct Target {
    /// Its name on the command line.
    text: String,
    /// One of its ports.
    port_guid: u64,
}

/// The start and target of the walk.
struct Start {
    from: Option<PortId>,
    target: Option<Target>,
}

fn work(line: &CommandLine) -> Outcome<()> {
    let checks = match line.arg(DIFFCHECK).map(Checks::parse) {
        None => Checks::default(),
        Some(Ok(checks)) => checks,
        Some(Err(key)) => {
            crate::errln!("invalid diff check key: {key}");
            return Err(End::Usage);
        }
    };
    let start = start(line)?;
    let names = NodeNames::open(line.arg(NAME_MAP));
    let kept = |option: char, what: &str| match line.arg(option) {
        None => Ok(None),
        Some(path) => match loaded(path) {
            Some(fabric) => Ok(Some(fabric)),
            None => failed(format!("loading cached fabric for {what} failed\n")),
        },
    };
    let (old, known_down) = (kept(DIFF, "diff")?, kept(FILTER_DOWN, "filterdownports")?);
    let fabric = walked(line, &start)?;
    let writer = Writer {
        fabric: &fabric,
        names: &names,
        down_only: line.has('d'),
        lines: line.has('l'),
        switch_settings: line.has('p'),
        known_down: known_down.as_ref(),
    };
    let node = match &start.target {
        None => None,
        Some(target) => match wanted_node(line, &fabric, target) {
            Some(node) => Some(node),
            None => {
                crate::errln!("Failed to find port: {}", target.text);
                return Ok(());
            }
        },
    };
    let old = old.as_ref().map(|old| Writer { fabric: old, ..writer });
    output::print(&report(line, writer, old, node, checks));
    Ok(())
}

/// Resolves the argument of `-D`, `-S` or `-G`.
fn start(line: &CommandLine) -> Outcome<Start> {
    let common = &line.common;
    let mut port = Port::open(common, SMP_CLASSES).map_err(|_| {
        crate::errln!("Failed to open {} port {}", common.ca.as_deref().unwrap_or("(null)"), common.port);
        End::Code(1)
    })?;
    let (path, guid) = (line.arg('D'), line.own.iter().rev().find(|(l, _)| matches!(l, 'S' | 'G')));
    if path.is_some() && line.arg(LOAD_CACHE).is_some() {
        crate::errln!("Cannot specify cache and direct route path");
        return Err(End::Code(1));
    }
    let (text, from, port_guid) = if let Some(path) = path {
        let from = common.resolve(&mut port, path, Dest::Path)?;
        if from.is_none() {
            warn("main", &format!("Failed to resolve {path}; attempting full scan"));
        }
        let guid = match line.has('a') {
            true => 0,
            false => port_guid_at(&mut port, from.unwrap_or_default())?,
        };
        (path, from, guid)
    } else if let Some((_, guid)) = guid {
        let from = common.resolve(&mut port, guid, Dest::Guid)?;
        if from.is_none() {
            warn("main", &format!("Failed to resolve {guid}; attempting full scan\n"));
        }
        (&**guid, from, number(guid))
    } else {
        return Ok(Start { from: None, target: None });
    };
    let target = (!line.has('a')).then(|| Target { text: text.to_owned(), port_guid });
    Ok(Start { from, target })
}

fn port_guid_at(port: &mut Port, at: PortId) -> Outcome<u64> {
    match port.smp_get(&at, smp::NODE_INFO, 0) {
        Ok(info) => Ok(Node::new(Attribute(info)).info_port_guid()),
        Err(_) => {
            crate::errln!("Failed to get local Node Info");
            Err(End::Code(1))
        }
    }
}

fn walked(line: &CommandLine, start: &Start) -> Outcome<Fabric> {
    if let Some(path) = line.arg(LOAD_CACHE) {
        return loaded(path).ok_or_else(|| {
            crate::errln!("loading cached fabric failed");
            End::Code(1)
        });
    }
    let mut config = config(line);
    config.max_hops = line.arg('n').map_or(0, |hops| number(hops) as u32);
    if let Some(from) = start.from {
        let near = Config { max_hops: config.max_hops.max(1), ..config };
        match discover_from(&line.common, from, near)? {
            Ok(fabric) => return Ok(fabric),
            Err(_) => warn("main", "Partial fabric scan failed; attempting full scan\n"),
        }
        config = near;
    }
    discovered(&line.common, config).ok_or_else(|| {
        crate::errln!("discover failed");
        End::Code(1)
    })
}

fn only(line: &CommandLine) -> Option<Kind> {
    line.own.iter().rev().find_map(|(letter, _)| match *letter {
        SWITCHES_ONLY => Some(Kind::SWITCH),
        CAS_ONLY => Some(Kind::CA),
        _ => None,
    })
}

fn wanted_node<'a>(line: &CommandLine, fabric: &'a Fabric, target: &Target) -> Option<&'a Node> {
    let node = fabric.node(fabric.find_port(target.port_guid)?.node);
    only(line).is_none_or(|kind| node.kind == kind).then_some(node)
}

fn report(
    line: &CommandLine,
    writer: Writer<'_>,
    old: Option<Writer<'_>>,
    node: Option<&Node>,
    checks: Checks,
) -> String {
    let kind = only(line);
    if let Some(old) = old {
        let which = node.map_or(Which::All(kind), |node| Which::One(node.guid));
        let text = diff::text(old, writer, which, checks);
        return if line.common.json { format!("{:#}\n", ibnet_json::difference(&text)) } else { text };
    }
    let nodes: Vec<&Node> = match node {
        Some(node) => vec![node],
        None => writer.fabric.nodes().map(|(_, n)| n).filter(|n| kind.is_none_or(|k| n.kind == k)).collect(),
    };
    if !line.common.json {
        let mut out = String::new();
        nodes.iter().for_each(|node| writer.node(&mut out, node, ""));
        return out;
    }
    let wanted = |port: &crate::ibnet::Port| !writer.down_only || port.state() == STATE_DOWN;
    let json = |node: &&Node| ibnet_json::node_with_ports(writer.fabric, writer.names, node, wanted);
    format!("{:#}\n", nodes.iter().map(json).collect::<Value>())
}
