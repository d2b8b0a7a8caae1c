//! Clients of a running manager: a command from the command line, or lines as the user types them.

use std::io::{BufRead, IsTerminal, Write as _};
use std::process::ExitCode;

use clap::Args;

use super::control::Conversation;
use crate::output;

/// Selects a manager.
#[derive(Args, Debug, Default)]
pub struct TargetArgs {
    /// Use the manager on the port with this GUID [default: the only one]
    #[arg(short = 'g', long, value_name = "GUID", value_parser = super::run_args::guid)]
    guid: Option<u64>,
}

/// `weft sm status`.
#[derive(Args, Debug, Default)]
pub struct StatusArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weft sm console`.
#[derive(Args, Debug, Default)]
pub struct ConsoleArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Console command [default: lines from standard input]
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs `weft sm status`.
pub fn status(args: &StatusArgs) -> ExitCode {
    ask(&args.target, if args.json { "status --json" } else { "status" })
}

/// Runs `weft sm events`.
pub fn events(args: &TargetArgs) -> ExitCode {
    ask(args, EVENTS)
}

/// Runs `weft sm metrics`.
pub fn metrics(args: &TargetArgs) -> ExitCode {
    ask(args, "metrics")
}

/// The line that subscribes a client to every event.
pub const EVENTS: &str = "events";

/// The line that waits until the subnet is up.
pub const WAIT: &str = "wait";

/// Runs `weft sm console`.
pub fn run(args: &ConsoleArgs) -> ExitCode {
    if !args.command.is_empty() {
        return ask(&args.target, &args.command.join(" "));
    }
    let conversation = match Conversation::open(args.target.guid) {
        Ok(conversation) => conversation,
        Err(error) => return failed(&error),
    };
    let mut out = std::io::stdout();
    let typed = std::io::stdin().is_terminal();
    let mut lines = std::io::stdin().lock().lines();
    loop {
        if typed {
            let _ = out.write_all(b"weft sm> ").and_then(|()| out.flush());
        }
        let Some(Ok(line)) = lines.next() else { break };
        let line = line.trim();
        if matches!(line, "quit" | "exit" | "q") {
            break;
        }
        if line.is_empty() {
            continue;
        }
        let told = conversation.say(line, |piece| {
            let _ = out.write_all(piece).and_then(|()| out.flush());
        });
        if let Err(error) = told {
            return failed(&error);
        }
    }
    ExitCode::SUCCESS
}

fn ask(target: &TargetArgs, line: &str) -> ExitCode {
    let asked = Conversation::open(target.guid)
        .and_then(|conversation| conversation.say(line, |piece| output::print(&String::from_utf8_lossy(piece))));
    match asked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    crate::errln!("weft sm: {error:#}");
    ExitCode::FAILURE
}
