//! `weft replay`: posts the requests of one side of a recorded queue pair again, to a live peer, and compares the
//! completions. `weft-replay` decides which request is due; this module opens the device, connects and polls.

mod args;
mod drive;
mod exchange;
mod manager;
mod objects;
mod peer;

pub use args::ReplayArgs;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use weft_explain::{QpStory, Recording, archive, merged, names, stories};
use weft_replay::{Connection, Plan, RemoteMemory, Report};

use crate::{errln, outln, output};
use drive::Driver;
use peer::Peer;

/// Runs the command. It succeeds if no completion differs.
pub fn run(args: &ReplayArgs) -> ExitCode {
    match replay(args) {
        Ok(report) => {
            match args.json {
                true => outln!("{}", serde_json::to_string_pretty(&report).unwrap_or_default()),
                false => output::print(&report.text()),
            }
            if report.is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            errln!("weft replay: {message}");
            ExitCode::FAILURE
        }
    }
}

fn replay(args: &ReplayArgs) -> Result<Report, String> {
    let recordings = read(&args.file)?;
    let stories = stories(&recordings);
    let named = |refusal: weft_replay::Refusal| format!("{}: {refusal}", args.file.display());
    let story = Plan::choose(&stories, args.qp).map_err(named)?;
    let recording = recordings.get(story.id.recording).ok_or("no recording")?;
    let remote = args.remote_addr.zip(args.remote_key).map(|(addr, rkey)| RemoteMemory { addr, rkey });
    let plan = Plan::new(story, recording, remote).map_err(named)?;
    let peer = Peer::of(args)?;
    peer.suits(plan.connection)?;
    announce(story, recording, args.seed);
    let driver =
        Driver { plan: &plan, speed: args.speed, patience: Duration::from_secs(args.timeout), seed: args.seed };
    match plan.connection {
        Connection::Manager(role) => manager::replay(&driver, role, &peer, args),
        Connection::Exchange => exchange::replay(&driver, &peer, args),
    }
}

/// Reads a file of weft record.
fn read(file: &Path) -> Result<Vec<Recording>, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let bytes = std::fs::read(file).map_err(|error| named(&error))?;
    let contents = archive::read(&bytes).map_err(|error| named(&error))?;
    match contents.damage.first() {
        // A part of a record has no beginning or no end.
        Some(damage) => Err(named(damage)),
        None => Ok(merged(contents.recordings)),
    }
}

fn announce(story: &QpStory, recording: &Recording, seed: u64) {
    let kind = names::qp_type(story.qp_type.unwrap_or_default());
    let (qpn, pid, program) = (story.id.qpn, recording.pid, recording.program_in_short());
    errln!("weft replay: {kind} 0x{qpn:06x} of process {pid} on {}: {program}", recording.host);
    errln!("weft replay: payload is not recorded: requests carry a pattern (seed {seed}), atomics the operands 0");
}
