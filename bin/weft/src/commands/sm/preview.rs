//! `weft sm preview`: what tables a fabric would get that is described, and how good they would be. No fabric is touched.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use weft_sm::manager::Event;
use weft_sm::routing;

use super::args::RunArgs;
use super::files::Files;
use super::{dump, figures, rehearsal};
use crate::commands::topology_source::SourceArgs;
use crate::{outln, output};

/// Options of `weft sm preview`.
#[derive(Args, Debug)]
pub struct PreviewArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Routing engines in the order in which they are tried, or all of them, one after another
    #[arg(short = 'R', long = "routing_engine", alias = "routing-engine", value_name = "NAMES|all")]
    routing_engine: Option<String>,
    /// A configuration file
    #[arg(short = 'F', long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Any option of the file
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Write OpenSM's dump files to this directory
    #[arg(long, value_name = "DIRECTORY")]
    dump: Option<String>,
}

/// Runs the command.
pub fn run(args: &PreviewArgs) -> ExitCode {
    crate::commands::up::finish("weft sm preview", preview(args))
}

fn preview(args: &PreviewArgs) -> Result<(), String> {
    let topology = args.source.load()?;
    outln!("{}: {} nodes, {} cables", topology.title, topology.nodes.len(), topology.cables.len());
    let engines: Vec<Option<String>> = match args.routing_engine.as_deref() {
        Some("all") => routing::ENGINES.iter().map(|engine| Some(format!("{},no_fallback", engine.name))).collect(),
        other => vec![other.map(str::to_owned)],
    };
    let mut failed = None;
    for engine in &engines {
        let run = RunArgs::for_preview(args.config.clone(), engine.clone(), args.set.clone());
        let files = Files::load(&run).map_err(|error| format!("{error:#}"))?;
        for remark in files.remarks() {
            crate::errln!("weft sm preview: {remark}");
        }
        let began = Instant::now();
        let done = rehearsal::rehearse(&topology, |guid| {
            let (setup, remarks) = files.setup(guid, None);
            remarks.iter().for_each(|remark| crate::errln!("weft sm preview: {remark}"));
            setup
        })?;
        outln!("");
        for event in &done.events {
            if matches!(event, Event::EngineFailed { .. } | Event::NoRouting | Event::Incomplete { .. }) {
                outln!("{event}");
            }
        }
        if !done.is_up {
            let name = engine.as_deref().unwrap_or("auto");
            failed = Some(format!("the subnet would not come up with {name}"));
            continue;
        }
        output::print(&figures::quality_text(&done.manager));
        let took = began.elapsed().as_secs_f64();
        outln!("subnet up          after {} SMPs; {took:.2} s of this machine for all of it", done.smps);
        if let Some(directory) = &args.dump {
            output::print(&dump::write(&done.manager, directory));
        }
    }
    failed.filter(|_| engines.len() == 1).map_or(Ok(()), Err)
}
