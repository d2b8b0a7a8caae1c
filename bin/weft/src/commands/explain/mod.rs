//! `weft explain`: tells the story of each recorded queue pair, and why a connection broke. The analysis is
//! `crates/explain`'s; this command reads the files, chooses queue pairs, and prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use weft_explain::{Life, QpStory, Recording, archive, diagnose, merged, pcapng, perfetto, render, stories};
use weft_record::PathKind;

use crate::{errln, outln, output};

/// Options of `weft explain`.
#[derive(Args, Debug, Default)]
pub struct ExplainArgs {
    /// Files of weft record, of one side or of both; also ring files, and directories of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only queue pairs with this number
    #[arg(long, value_name = "QPN", value_parser = parse_qpn)]
    qp: Option<u32>,
    /// Print the story of every queue pair [default: of those that failed]
    #[arg(short, long)]
    all: bool,
    /// List every post, packet and completion
    #[arg(short, long)]
    packets: bool,
    /// Also write a trace for Perfetto (ui.perfetto.dev) to FILE
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Also write the recorded packets to FILE, for Wireshark
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

fn parse_qpn(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "a queue pair's number, such as 17 or 0x11".to_owned())
}

/// Runs the command.
pub fn run(args: &ExplainArgs) -> ExitCode {
    match explain(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("weft explain: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn explain(args: &ExplainArgs) -> Result<()> {
    let mut recordings = Vec::new();
    for file in &args.files {
        recordings.extend(read(file)?);
    }
    let recordings = merged(recordings);
    let stories = stories(&recordings);
    let chosen: Vec<&QpStory> = stories.iter().filter(|story| args.qp.is_none_or(|qpn| qpn == story.id.qpn)).collect();
    if let Some(qpn) = args.qp.filter(|_| chosen.is_empty()) {
        let known: Vec<String> = stories.iter().map(|story| format!("0x{:06x}", story.id.qpn)).collect();
        bail!("no queue pair 0x{qpn:06x}; there are {}", known.join(", "));
    }
    if let Some(file) = &args.perfetto {
        let trace = perfetto::trace(&stories, &recordings).to_string();
        fs::write(file, trace).with_context(|| format!("--perfetto {}", file.display()))?;
    }
    if let Some(file) = &args.pcapng {
        write_packets(file, &chosen, &recordings)?;
    }
    match args.json {
        true => outln!("{}", json_of(&chosen, &stories, &recordings)),
        false => output::print(&text_of(args, &chosen, &stories, &recordings)),
    }
    Ok(())
}

/// Writes the packets of queue pairs, and says of which it has none.
fn write_packets(file: &Path, chosen: &[&QpStory], recordings: &[Recording]) -> Result<()> {
    let capture = pcapng::capture(chosen, recordings);
    fs::write(file, &capture.bytes).with_context(|| format!("--pcapng {}", file.display()))?;
    let say = |count: usize, one: &str, many: &str, why: &str| {
        if count > 0 {
            errln!("weft explain: --pcapng: without {count} {}: {why}", if count == 1 { one } else { many });
        }
    };
    say(capture.left_out, "packet", "packets", "the record lacks the addresses");
    let without = chosen.iter().filter(|story| story.path != PathKind::Wire).count();
    say(without, "queue pair", "queue pairs", "data passed through memory of the host, or by TCP (iWARP)");
    Ok(())
}

/// Reads a file, or all ring files of a directory.
fn read(path: &Path) -> Result<Vec<Recording>> {
    if path.is_dir() {
        let found = super::record::ring_files(path);
        if found.is_empty() {
            bail!("{}: no ring files", path.display());
        }
        let mut recordings = Vec::new();
        for (file, _) in found {
            recordings.extend(read_file(&file)?);
        }
        return Ok(recordings);
    }
    read_file(path)
}

/// Adds whether the process of a ring file lives, if it would be on this host, since this boot. An archive says it.
fn observe_life(recording: &mut Recording) {
    let is_here = recording.boot == weft_recorder::boot_id() && recording.host == weft_recorder::host_name();
    if recording.life == Life::Unknown && recording.boot != 0 && is_here {
        recording.life = match super::record::is_running(recording.pid) {
            true => Life::Running,
            false => Life::Ended,
        };
    }
}

fn read_file(path: &Path) -> Result<Vec<Recording>> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let contents = archive::read(&bytes).with_context(|| path.display().to_string())?;
    for damage in contents.damage {
        errln!("weft explain: {}: a part of it cannot be read: {damage}", path.display());
    }
    let mut recordings = contents.recordings;
    if archive::is_ring(&bytes) {
        recordings.iter_mut().for_each(observe_life);
    }
    Ok(recordings)
}

fn text_of(args: &ExplainArgs, chosen: &[&QpStory], stories: &[QpStory], recordings: &[Recording]) -> String {
    let mut text = String::new();
    if recordings.is_empty() {
        return "no process opened a device\n".to_owned();
    }
    if args.qp.is_none() {
        for recording in recordings {
            text += &render::process_text(recording);
        }
    }
    let mut hidden = 0;
    for story in chosen {
        let findings = diagnose(story, stories, recordings);
        let is_printed = args.all || args.packets || args.qp.is_some() || findings.is_some();
        match recordings.get(story.id.recording) {
            Some(process) if is_printed => {
                text += "\n";
                text += &render::text(story, process, findings.as_deref(), args.packets);
            }
            _ => hidden += 1,
        }
    }
    if hidden > 0 {
        let (noun, verb, pronoun) =
            if hidden == 1 { ("queue pair", "has", "it") } else { ("queue pairs", "have", "them") };
        text += &format!("\n{hidden} other {noun} {verb} not failed; --all prints {pronoun}, too\n");
    }
    text
}

fn json_of(chosen: &[&QpStory], stories: &[QpStory], recordings: &[Recording]) -> Value {
    let queue_pairs: Vec<Value> = chosen
        .iter()
        .filter_map(|story| {
            let findings = diagnose(story, stories, recordings);
            Some(render::json(story, recordings.get(story.id.recording)?, findings.as_deref()))
        })
        .collect();
    let processes: Vec<Value> = recordings.iter().map(render::process_json).collect();
    json!({"processes": processes, "queue_pairs": queue_pairs})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!((parse_qpn("17"), parse_qpn("0x11")), (Ok(17), Ok(17)));
        assert!(parse_qpn("x").is_err());
    }

    #[test]
    fn only_a_process_of_this_host_and_boot_is_looked_for() {
        let (host, boot, pid) = (weft_recorder::host_name(), weft_recorder::boot_id(), std::process::id());
        let own = Recording { host, boot, pid, ..Recording::default() };
        let life = |mut recording: Recording| {
            observe_life(&mut recording);
            recording.life
        };
        assert_eq!(life(own.clone()), Life::Running);
        assert_eq!(life(Recording { pid: i32::MAX as u32, ..own.clone() }), Life::Ended);
        assert_eq!(life(Recording { boot: boot ^ 1, ..own.clone() }), Life::Unknown);
        assert_eq!(life(Recording { host: "elsewhere".to_owned(), ..own }), Life::Unknown);
    }

    #[test]
    fn files_that_are_no_records_are_named() {
        let error = format!("{:#}", read(Path::new("/proc/self/comm")).unwrap_err());
        assert_eq!(error, "/proc/self/comm: it does not begin as a record of weft record");
    }
}
