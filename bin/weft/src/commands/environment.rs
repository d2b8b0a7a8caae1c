//! `weft environment`, and `weft help environment`: the variables that Weft reads.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::{outln, output};

/// Options of `weft environment`.
#[derive(Args, Debug, Default)]
pub struct EnvironmentArgs {
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

/// The program that reads a variable, its name, and its effect.
const VARIABLES: &[(&str, &str, &str)] = &[
    ("programs", "WEFT_FAULT", "faults in packets, and failing verbs: loss=1%,seed=7;status=RETRY_EXC_ERR,from=9"),
    ("programs", "WEFT_STRICT", "seed of an adapter that promises no more than it must"),
    ("programs", "WEFT_MPA", "wishes for iWARP connections: crc,markers,revision=1,rtr=write|read|fpdu"),
    ("programs", "WEFT_PCAP", "file (pcapng) that gets the packets sent and received"),
    (
        "programs",
        "WEFT_TRACE",
        "stderr, FILE or unix:SOCKET; state,post,cqe,packet,loss,path,copy,share,wake,fault,qp=N",
    ),
    ("programs", "WEFT_RECORD", "directory for records of queue pairs; weft record sets it, weft explain reads it"),
    ("programs", "WEFT_LOOPBACK", "wire: packets even between two programs of one host"),
    ("programs", "WEFT_SHARE", "auto, on or off: whether registered pages become shared ones"),
    ("programs", "WEFT_LOG", "stderr or a file: why a device does not open, a daemon that died; weft run sets stderr"),
    (
        "programs",
        "WEFT_CHECK_REPORT",
        "directory for reports of misuse; weft check sets it, weft check --read prints them",
    ),
    ("programs", "WEFT_CHECK_SNAPSHOT", "longest message in bytes whose buffer is compared; as weft check --snapshot"),
    ("programs", "WEFT_HOST", "host of the fabric that programs and commands run as; weft run --host sets it"),
    ("programs", "WEFT_BIN", "the command that libraries start as daemon or RDS service; weft env sets it"),
    ("commands", "WEFT_QUIET", "1: weft run does not print that it cannot mount, or that it cannot serve the program"),
    ("programs", "WEFT_VIEW", "directory that stands for /sys and /dev; weft run sets it where it cannot mount"),
    ("commands", "WEFT_LIB_DIR", "directory of Weft's libraries [default: the installation's]"),
    ("daemon", "WEFT_DAEMON_LOG", "file to whose end the daemon writes what happens; as weft daemon --log"),
];

/// Runs the command.
pub fn run(args: &EnvironmentArgs) -> ExitCode {
    if args.json {
        let all = VARIABLES.iter().map(|(reader, name, what)| {
            json!({"name": name, "read_by": reader, "about": what, "value": std::env::var(name).ok()})
        });
        outln!("{}", all.collect::<Value>());
    } else {
        output::print(&text());
    }
    ExitCode::SUCCESS
}

fn text() -> String {
    let mut text = "Variables that Weft reads (weft run passes them on to programs):\n".to_owned();
    for (reader, title) in
        [("programs", "Programs"), ("commands", "Commands"), ("daemon", "The daemon, when it starts")]
    {
        text += &format!("\n{title}:\n");
        for (_, name, what) in VARIABLES.iter().filter(|(of, ..)| *of == reader) {
            text += &format!("  {name:<20} {what}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_variable_stands_in_the_text_once() {
        let text = text();
        for (_, name, _) in VARIABLES {
            assert_eq!(text.matches(&format!("  {name} ")).count(), 1, "{name}\n{text}");
        }
    }

    #[test]
    fn the_book_has_the_same_variables() {
        let book = include_str!("../../../../docs/reference.md");
        let in_book: BTreeSet<_> =
            book.lines().filter_map(|line| line.strip_prefix("| `WEFT_")?.split('`').next()).collect();
        let here: BTreeSet<_> = VARIABLES.iter().filter_map(|(_, name, _)| name.strip_prefix("WEFT_")).collect();
        assert_eq!(here, in_book);
    }

    #[test]
    fn lines_fit_a_terminal() {
        for line in text().lines() {
            assert!(line.len() <= 110, "{line}");
        }
    }
}
