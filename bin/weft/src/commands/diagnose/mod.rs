//! `weft diagnose`: one readable report on a whole InfiniBand fabric, with an exit code: identities, links, cables,
//! managers, partitions, routes, credit loops, multicast, and changes since a saved report.

mod args;
mod ask;
mod balance;
mod counters;
mod credits;
mod finding;
#[cfg(test)]
mod generated;
mod host;
mod identity;
mod levels;
mod links;
mod managers;
mod net;
mod routing;
mod survey;
#[cfg(test)]
mod tests;

pub use args::Args;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use weft_client::Which;
use weft_diags::ib::address::PortId;
use weft_diags::ib::mad::{CLASS_PERF, CLASS_SUBN_ADM, CLASS_SUBN_DIRECTED, CLASS_SUBN_LID};
use weft_diags::ib::names::NodeNames;
use weft_diags::ib::number;
use weft_diags::ib::options::Common;
use weft_diags::ib::port::Port;
use weft_diags::ib::report::End;
use weft_diags::ibnet::link::Rate;
use weft_diags::ibnet::{Config, Fabric, Kind, PortRef, cache, discover_from};
use weft_diags::tools::ibnetdiscover;
use weft_fabric::topology::counted;

use crate::output;
use finding::{Section, Severity};
use levels::Levels;
use net::Net;
use survey::Survey;

/// Maximum number of requests in flight.
const IN_FLIGHT: u32 = 32;
/// Exit codes: the checks found something; nothing could be checked.
const FOUND: u8 = 1;
const FAILED: u8 = 2;

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    match host::enter(args).and_then(|()| report(args)).map_err(host::explained) {
        Ok(code) => code,
        Err(why) if args.json => {
            crate::outln!("{}", json!({"error": why}));
            ExitCode::from(FAILED)
        }
        Err(why) => {
            crate::errln!("weft diagnose: {why}");
            ExitCode::from(FAILED)
        }
    }
}

fn common(args: &Args) -> Common {
    let mut common = Common::default();
    weft_diags::ib::config::read(weft_diags::ib::config::PATH, &mut common);
    common.ca = args.ca.clone().or(common.ca);
    common.port = if args.port == 0 { common.port } else { args.port };
    common.m_key = args.m_key.as_deref().map_or(common.m_key, number::number);
    common.which = if args.system { Which::System } else { Which::Ours };
    common
}

fn said(end: End) -> String {
    match end {
        End::Failed { text, .. } | End::Panic { text, .. } => text,
        _ => "the port cannot be used".to_owned(),
    }
}

fn lost(error: std::io::Error) -> String {
    format!("the port cannot be read any more: {}", crate::errno::text(&error))
}

fn report(args: &Args) -> Result<ExitCode, String> {
    let old = args.baseline.as_deref().map(cache::load).transpose()?;
    let common = common(args);
    let config = Config { in_flight: IN_FLIGHT, mlnx_ext_port_info: common.mlx_epi, ..Config::default() };
    let fabric = discover_from(&common, PortId::default(), config).map_err(said)??;
    let names = NodeNames::open(args.node_name_map.as_deref());
    let mut survey = Survey { fabric, names, ..Survey::default() };
    let mut port =
        Port::open(&common, &[CLASS_SUBN_LID, CLASS_SUBN_DIRECTED, CLASS_PERF, CLASS_SUBN_ADM]).map_err(said)?;
    survey.ask_tables(&mut port).map_err(lost)?;
    if let Some(path) = &args.save {
        cache::store(&survey.fabric, path).map_err(|e| format!("{path}: {}", crate::errno::text(&e)))?;
    }
    if let Some(ends) = &args.path {
        return path(args, &survey, ends);
    }
    let seconds = if args.seconds.is_nan() { 0.0 } else { args.seconds.clamp(0.0, 3600.0) };
    survey.ask_errors(&mut port, false).map_err(lost)?;
    thread::sleep(Duration::from_secs_f64(seconds));
    survey.ask_errors(&mut port, true).map_err(lost)?;
    let levels = levels_of(args, &common, &mut survey, &mut port)?;
    let net = Net::new(&survey);
    let mut sections = vec![
        identity::check(&survey),
        links::rates(&survey),
        links::errors(&survey, seconds),
        managers::managers(&survey),
        managers::partitions(&survey),
        routing::reach(&survey, &net),
        balance::check(&survey, &net),
        credits::check(&survey, &net, levels.as_ref()),
        managers::groups(&survey),
        silence(&survey),
    ];
    if let Some(old) = &old {
        sections.push(changes(&survey, old));
    }
    show(args, &survey, &sections);
    let bad = finding::worst(&sections).is_some_and(|worst| worst > Severity::Note);
    Ok(if bad { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
}

/// The service levels of paths, and with them the SLtoVL maps, if they matter for credit loops.
fn levels_of(args: &Args, common: &Common, survey: &mut Survey, port: &mut Port) -> Result<Option<Levels>, String> {
    if args.sl.is_none() && !credits::lanes_matter(survey, &Net::new(survey)) {
        return Ok(None);
    }
    survey.ask_lanes(port).map_err(lost)?;
    let sm = common.sm().map_err(said)?;
    Ok(Some(args.sl.map_or_else(|| Levels::ask(survey, port, sm), Levels::Given)))
}

fn silence(survey: &Survey) -> Section {
    let mut section = Section::new("answers");
    section.looked_at = format!("{} questions of discovery", survey.fabric.mads);
    for what in &survey.silent {
        section.warning(format!("{what}: no answer"));
    }
    section
}

/// Differences from the saved fabric.
fn changes(survey: &Survey, old: &Fabric) -> Section {
    let mut section = Section::new("changes");
    section.looked_at = format!("{} nodes then, {} now", old.node_count(), survey.fabric.node_count());
    let text = ibnetdiscover::changes(old, &survey.fabric, &survey.names);
    for line in text.lines() {
        if let Some(gone) = line.strip_prefix("< ") {
            section.warning(format!("gone: {gone}"));
        } else if let Some(new) = line.strip_prefix("> ") {
            section.warning(format!("new: {new}"));
        }
    }
    section
}

fn show(args: &Args, survey: &Survey, sections: &[Section]) {
    let count = |kind| survey.fabric.nodes_of(kind).count();
    let (cas, switches, routers) = (count(Kind::CA), count(Kind::SWITCH), count(Kind::ROUTER));
    if args.json {
        let fabric = json!({"cas": cas, "switches": switches, "routers": routers});
        crate::outln!("{:#}", json!({"fabric": fabric, "checks": finding::json(sections)}));
        return;
    }
    let from = survey.fabric.from.map_or_else(String::new, |from| format!(" from {}", survey.label(from)));
    let sizes = [counted(cas, "adapter"), counted(switches, "switch"), counted(routers, "router")];
    let mut text = format!("Fabric{from}: {}\n\n", sizes.join(", "));
    text += &finding::text(sections, args.all);
    output::print(&text);
}

/// Finds the port that the user names.
fn end_of(survey: &Survey, name: &str) -> Result<(u16, PortRef), String> {
    let ends = survey.ends();
    let value = number::whole(name).filter(|_| !name.is_empty());
    let found = ends.iter().find(|(lid, at)| {
        let guids = survey.fabric.port(*at).map(|port| port.guid);
        let node = survey.fabric.node(at.node);
        Some(u64::from(*lid)) == value
            || value.is_some() && (guids == value || Some(node.guid) == value)
            || node.called(&survey.names) == name
    });
    // `node3` is host node3, whose adapter's NodeDescription is `node3 weft0`.
    let of_host =
        |(_, at): &&(u16, PortRef)| survey.fabric.node(at.node).called(&survey.names).split(' ').next() == Some(name);
    let found = found.or_else(|| ends.iter().find(of_host).filter(|_| !name.is_empty()));
    found.copied().ok_or_else(|| {
        format!("no port has the LID, GUID or name {name:?}: a host's name will do, too; `weft iblinkinfo` lists all")
    })
}

/// Prints the path between two ports, with the speed of each link.
fn path(args: &Args, survey: &Survey, ends: &[String]) -> Result<ExitCode, String> {
    let [from, to] = ends else { return Err("a path has two ends".to_owned()) };
    let ((_, from), (lid, to)) = (end_of(survey, from)?, end_of(survey, to)?);
    let (hops, end) = routing::path(survey, from, lid, to);
    let rate = |at: PortRef| {
        let node = survey.fabric.node(at.node);
        let rate = node.port(at.port).map(|port| Rate::of(node, port));
        rate.map_or_else(String::new, |rate| format!("{} {}", rate.width_text(), rate.short_speed()))
    };
    if args.json {
        let hops = hops
            .iter()
            .map(|&(out, into)| json!({"from": survey.label(out), "to": survey.label(into), "rate": rate(out)}));
        let hops: Value = hops.collect();
        crate::outln!("{:#}", json!({"lid": lid, "hops": hops, "error": end.as_ref().err()}));
    } else {
        let mut text = format!("From {} to {} (LID {lid})\n", survey.label(from), survey.label(to));
        for (out, into) in hops {
            text += &format!("  {:<40} -> {:<40} {}\n", survey.label(out), survey.label(into), rate(out));
        }
        text +=
            &end.as_ref().map_or_else(|why| format!("It does not arrive: {why}\n"), |()| "It arrives.\n".to_owned());
        output::print(&text);
    }
    Ok(if end.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}
