//! `weft sm preview`: computes the tables for a fabric description and rates them. No real fabric is touched.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use weft_fabric::topology::counted;
use weft_sm::manager::Event;
use weft_sm::routing;
use weft_tool::fabric::finish;
use weft_tool::topology_source::SourceArgs;

use super::files::Files;
use super::run_args::RunArgs;
use super::{dump, metrics, simulate};
use crate::{outln, output};

/// Options of `weft sm preview`.
#[derive(Args, Debug)]
pub struct PreviewArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Routing engines, in order of preference, or `all` of them, one after another
    #[arg(short = 'R', long = "routing_engine", alias = "routing-engine", value_name = "NAMES|all")]
    routing_engine: Option<String>,
    /// Configuration file
    #[arg(short = 'F', long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Set any option of the configuration file
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Write OpenSM's dump files to this directory
    #[arg(long, value_name = "DIRECTORY")]
    dump: Option<String>,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &PreviewArgs) -> ExitCode {
    finish("weft sm preview", preview(args))
}

/// Refuses unknown engine names. The manager itself falls back to the next engine, as OpenSM does; a preview would then
/// show another engine's tables under the wrong name.
fn known_engines(names: &str) -> Result<(), String> {
    let names = names.split([',', ' ']).filter(|name| !name.is_empty());
    let unknown: Vec<&str> = names.filter(|name| !is_engine(name)).collect();
    match unknown.first() {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = routing::ENGINES.iter().map(|engine| engine.name).collect();
            Err(format!("unknown routing engine {name}: engines are {}, or all", known.join(", ")))
        }
    }
}

/// Whether the option `routing_engine` accepts this name.
fn is_engine(name: &str) -> bool {
    matches!(name, "all" | "no_fallback") || routing::engine(name).is_some()
}

fn preview(args: &PreviewArgs) -> Result<(), String> {
    let topology = args.source.load()?;
    args.routing_engine.as_deref().map_or(Ok(()), known_engines)?;
    let (nodes, cables) = (topology.nodes.len(), topology.cables.len());
    let mut previews = Vec::new();
    if !args.json {
        outln!("{}: {}, {}", topology.title, counted(nodes, "node"), counted(cables, "cable"));
    }
    let engines: Vec<Option<String>> = match args.routing_engine.as_deref() {
        Some("all") => routing::ENGINES.iter().map(|engine| Some(format!("{},no_fallback", engine.name))).collect(),
        other => vec![other.map(str::to_owned)],
    };
    let mut failed = None;
    for engine in &engines {
        let run = RunArgs::for_preview(args.config.clone(), engine.clone(), args.set.clone());
        let files = Files::load(&run).map_err(|error| format!("{error:#}"))?;
        for diagnostic in files.diagnostics() {
            crate::errln!("weft sm preview: {diagnostic}");
        }
        let began = Instant::now();
        let done = simulate::rehearse(&topology, |guid| {
            let (setup, diagnostics) = files.setup(guid, None);
            diagnostics.iter().for_each(|diagnostic| crate::errln!("weft sm preview: {diagnostic}"));
            setup
        })?;
        let told =
            |event: &&Event| matches!(event, Event::EngineFailed { .. } | Event::NoRouting | Event::Incomplete { .. });
        let told: Vec<String> = done.events.iter().filter(told).map(Event::to_string).collect();
        if !args.json {
            outln!("");
            told.iter().for_each(|line| outln!("{line}"));
        }
        let name = engine.as_deref().unwrap_or("auto");
        if !done.is_up {
            failed = Some(format!("the subnet would not come up with {name}"));
            previews.push(json!({"wanted": name, "is_up": false, "events": told}));
            continue;
        }
        let took = began.elapsed().as_secs_f64();
        if args.json {
            let quality = metrics::quality_json(&done.manager);
            previews.push(json!({
                "wanted": name, "is_up": true, "events": told, "quality": quality, "smps": done.smps, "seconds": took,
            }));
        } else {
            output::print(&metrics::quality_text(&done.manager));
            outln!("subnet up          after {} SMPs; {took:.2} s of this machine for all of it", done.smps);
        }
        if let Some(directory) = &args.dump {
            let written = dump::write(&done.manager, directory);
            if args.json { output::complain_text(&written) } else { output::print(&written) }
        }
    }
    if args.json {
        outln!("{}", json!({"title": topology.title, "nodes": nodes, "cables": cables, "previews": previews}));
    }
    failed.filter(|_| engines.len() == 1).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_does_not_exist_is_refused() {
        for names in ["all", "auto", "updn,no_fallback", "ftree, minhop"] {
            assert_eq!(known_engines(names), Ok(()), "{names}");
        }
        let error = known_engines("updn,fancy").unwrap_err();
        assert!(error.starts_with("unknown routing engine fancy: engines are ") && error.contains("dfsssp"), "{error}");
    }
}
