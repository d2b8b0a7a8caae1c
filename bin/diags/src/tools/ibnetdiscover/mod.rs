//! `ibnetdiscover`: walks the fabric and prints it as a topology file, as lists, or as differences to a cache file.

mod diff;
mod local_time;
mod ports;
pub mod topology;

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::Tool;
use crate::ib::address::PortId;
use crate::ib::names::NodeNames;
use crate::ib::number::number;
use crate::ib::options::{CommandLine, Common, Opt, Spec, opt, opt_arg};
use crate::ib::report::{End, Outcome, failed};
use crate::ibnet::{Config, Fabric, Kind, cache, discover_from, json as ibnet_json};
use crate::output;
use diff::Checks;
use topology::Writer;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibnetdiscover", about: "discover an InfiniBand fabric's topology", run };

const NAME_MAP: char = '\u{1}';
const CACHE: char = '\u{2}';
const LOAD_CACHE: char = '\u{3}';
const DIFF: char = '\u{4}';
const DIFFCHECK: char = '\u{5}';

const OPTIONS: &[Opt] = &[
    opt("full", 'f', "show full information (ports' speed and width, vlcap)"),
    opt("show", 's', "show more information"),
    opt("list", 'l', "list of connected nodes"),
    opt("grouping", 'g', "show grouping"),
    opt("Hca_list", 'H', "list of connected CAs"),
    opt("Switch_list", 'S', "list of connected switches"),
    opt("Router_list", 'R', "list of connected routers"),
    opt_arg("node-name-map", NAME_MAP, "<file>", "node name map file"),
    opt_arg("cache", CACHE, "<file>", "filename to cache ibnetdiscover data to"),
    opt_arg("load-cache", LOAD_CACHE, "<file>", "filename of ibnetdiscover cache to load"),
    opt_arg("diff", DIFF, "<file>", "filename of ibnetdiscover cache to diff"),
    opt_arg("diffcheck", DIFFCHECK, "<key(s)>", "specify checks to execute for --diff"),
    opt("ports", 'p', "obtain a ports report"),
    opt("max_hops", 'm', "report max hops discovered by the library"),
    opt_arg(
        "outstanding_smps",
        'o',
        "<val>",
        "specify the number of outstanding SMP's which should be issued during the scan",
    ),
];

const SPEC: Spec = Spec {
    program: "ibnetdiscover",
    options: OPTIONS,
    exclude: "DGKLs",
    own: "",
    usage: "[topology-file]",
    examples: &[],
};

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

/// Parameters of the walk, from options common to several tools.
pub fn config(line: &CommandLine) -> Config {
    let outstanding = line.arg('o').map_or(0, |value| u32::try_from(number(value)).unwrap_or(u32::MAX));
    let usual = Config::default();
    Config {
        in_flight: if outstanding == 0 { usual.in_flight } else { outstanding },
        mlnx_ext_port_info: line.common.mlx_epi,
        ..usual
    }
}

/// Walks the fabric from the local port; prints the error and returns `None` on failure.
pub fn discovered(common: &Common, config: Config) -> Option<Fabric> {
    match discover_from(common, PortId::default(), config) {
        Ok(Ok(fabric)) => Some(fabric),
        Ok(Err(why)) => {
            crate::errln!("discovery; {why}");
            None
        }
        Err(End::Failed { text, .. }) => {
            crate::errln!("discovery; {text}");
            None
        }
        Err(_) => None,
    }
}

/// Loads a fabric from a cache file; prints the error and returns `None` on failure.
pub fn loaded(path: &str) -> Option<Fabric> {
    cache::load(path).inspect_err(|why| crate::errln!("cache; {why}")).ok()
}

/// The differences between two fabrics, with all checks of `diff`.
pub fn changes(old: &Fabric, new: &Fabric, names: &NodeNames) -> String {
    diff::text(old, new, names, false, Checks { lids: true, descriptions: true, ..Checks::default() })
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
    let out = line.operands.first();
    if let Some(path) = out {
        fs::File::create(path).or_else(|_| failed(format!("can't open file {path} for writing")))?;
    }
    let names = NodeNames::open(line.arg(NAME_MAP));
    let old = match line.arg(DIFF) {
        Some(path) => Some(loaded(path).ok_or_else(|| End::failed("loading cached fabric for diff failed\n"))?),
        None => None,
    };
    let fabric = match line.arg(LOAD_CACHE) {
        Some(path) => loaded(path).ok_or_else(|| End::failed("loading cached fabric failed\n"))?,
        None => {
            let config = Config { show_progress: line.has('s') && !line.common.json, ..config(line) };
            discovered(&line.common, config).ok_or_else(|| End::failed("discover failed\n"))?
        }
    };
    let text = if line.common.json {
        format!("{:#}\n", report_json(line, &fabric, old.as_ref(), &names, checks))
    } else {
        report(line, &fabric, old.as_ref(), &names, checks)
    };
    // The port report always goes to standard output.
    match out.filter(|_| !line.has('p')) {
        Some(path) => {
            fs::write(path, text).or_else(|_| failed(format!("can't write file {path}")))?;
        }
        None => output::print(&text),
    }
    if let Some(path) = line.arg(CACHE) {
        cache::store(&fabric, path).or_else(|_| failed("caching ibnetdiscover data failed\n"))?;
    }
    Ok(())
}

/// The node types to list; the last option counts.
fn listed(line: &CommandLine) -> Option<&'static [Kind]> {
    line.own.iter().rev().find_map(|(letter, _)| match letter {
        'l' => Some(&[Kind::CA, Kind::SWITCH, Kind::ROUTER][..]),
        'S' => Some(&[Kind::SWITCH][..]),
        'H' => Some(&[Kind::CA][..]),
        'R' => Some(&[Kind::ROUTER][..]),
        _ => None,
    })
}

fn report(line: &CommandLine, fabric: &Fabric, old: Option<&Fabric>, names: &NodeNames, checks: Checks) -> String {
    let full = line.has('f');
    if line.has('p') {
        ports::ports(fabric, names)
    } else if let Some(kinds) = listed(line) {
        ports::nodes(fabric, names, kinds)
    } else if let Some(old) = old {
        diff::text(old, fabric, names, full, checks)
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
        topology::text(&Writer { fabric, names, group: line.has('g'), full }, now, line.has('m'))
    }
}

fn report_json(line: &CommandLine, fabric: &Fabric, old: Option<&Fabric>, names: &NodeNames, checks: Checks) -> Value {
    if let (Some(kinds), false) = (listed(line), line.has('p')) {
        let nodes = kinds.iter().flat_map(|&kind| fabric.nodes_of(kind));
        return nodes.map(|(_, node)| ibnet_json::node(fabric, names, node)).collect();
    }
    if let (Some(old), false) = (old, line.has('p')) {
        return ibnet_json::difference(&diff::text(old, fabric, names, line.has('f'), checks));
    }
    let wired = |port: &crate::ibnet::Port| line.has('p') || port.remote.is_some();
    let nodes: Vec<Value> =
        fabric.nodes().map(|(_, node)| ibnet_json::node_with_ports(fabric, names, node, wired)).collect();
    let from = fabric.from.map(|from| ibnet_json::guid(fabric.node(from.node).guid));
    json!({"from": from, "max_hops": fabric.max_hops, "mads": fabric.mads, "nodes": nodes})
}
