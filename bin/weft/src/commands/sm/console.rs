//! What people say to a manager that runs, and what it answers: OpenSM's console in words, without its terminal.

use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::process::ExitCode;

use clap::Args;

use super::control::Conversation;
use super::serve::Server;
use super::{dump, figures};
use crate::output;

/// Which manager.
#[derive(Args, Debug, Default)]
pub struct TargetArgs {
    /// The one on the port with this GUID [default: the only one]
    #[arg(short = 'g', long, value_name = "GUID", value_parser = super::args::guid)]
    guid: Option<u64>,
}

/// `weft sm status`.
#[derive(Args, Debug, Default)]
pub struct StatusArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// `weft sm console`.
#[derive(Args, Debug, Default)]
pub struct ConsoleArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// A command of the console [default: lines from standard input]
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

/// What a program says that wants every event.
pub const EVENTS: &str = "events";

/// What a program says that waits until the subnet is up.
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
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let line = line.trim();
        if matches!(line, "quit" | "exit" | "q") {
            break;
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
    eprintln!("weft sm: {error:#}");
    ExitCode::FAILURE
}

/// A command of the console.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    answer: fn(&mut Server, &[&str]) -> String,
}

const COMMANDS: &[Command] = &[
    Command { name: "help", arguments: "", about: "these lines", answer: |_, _| help() },
    Command {
        name: "status",
        arguments: "[--json]",
        about: "state, master, sweeps, datagrams, routing",
        answer: |server, words| match words {
            ["--json", ..] => figures::json(&server.manager),
            _ => figures::text(&server.manager),
        },
    },
    Command {
        name: WAIT,
        arguments: "",
        about: "the same, as soon as the subnet is up",
        answer: |server, _| figures::text(&server.manager),
    },
    Command {
        name: "resweep",
        arguments: "[heavy|light]",
        about: "look at the subnet now",
        answer: |server, words| {
            let heavy = words.first() != Some(&"light");
            server.manager.sweep(heavy);
            format!("{} sweep\n", if heavy { "heavy" } else { "light" })
        },
    },
    Command {
        name: "reroute",
        arguments: "",
        about: "read the configuration anew, compute and write all tables",
        answer: |server, _| server.reload() + "\n",
    },
    Command { name: "reload", arguments: "", about: "the same", answer: |server, _| server.reload() + "\n" },
    Command { name: "priority", arguments: "[0-15]", about: "show it, or have another", answer: priority },
    Command { name: "loglevel", arguments: "[FLAGS]", about: "show or set what the log tells", answer: log_level },
    Command { name: "log", arguments: "[LINES]", about: "what was told last", answer: last_lines },
    Command {
        name: "routing",
        arguments: "",
        about: "the engine, and how good its tables are",
        answer: |server, _| figures::routing(&server.manager),
    },
    Command {
        name: "portstatus",
        arguments: "[ca|switch|router]",
        about: "ports by state, width and speed",
        answer: |server, words| figures::ports(server.manager.subnet(), words.first().copied()),
    },
    Command {
        name: "querylid",
        arguments: "LID",
        about: "who has a LID",
        answer: |server, words| figures::who_has(server.manager.subnet(), words.first().copied()),
    },
    Command {
        name: "dump",
        arguments: "[DIRECTORY]",
        about: "write OpenSM's dump files",
        answer: |server, words| {
            let directory = words.first().map_or_else(|| server.files.dump_dir(), |dir| (*dir).to_owned());
            dump::write(&server.manager, &directory)
        },
    },
    Command {
        name: "dump_conf",
        arguments: "",
        about: "the options that are in force",
        answer: |server, _| server.files.shown(),
    },
    Command {
        name: "metrics",
        arguments: "",
        about: "figures in Prometheus's form",
        answer: |server, _| figures::metrics(&server.manager),
    },
    Command {
        name: "version",
        arguments: "",
        about: "of this manager",
        answer: |_, _| format!("weft sm {}\n", env!("CARGO_PKG_VERSION")),
    },
    Command {
        name: "shutdown",
        arguments: "",
        about: "hand the subnet over, if somebody stands by, and end",
        answer: |server, _| {
            server.end();
            "ends\n".to_owned()
        },
    },
];

/// What is answered to a line.
pub fn answer(server: &mut Server, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some((name, rest)) = words.split_first() else { return String::new() };
    match COMMANDS.iter().find(|command| command.name == *name) {
        Some(command) => (command.answer)(server, rest),
        None => format!("no command is called {name}; these are:\n{}", help()),
    }
}

fn help() -> String {
    let mut text = String::new();
    for command in COMMANDS {
        let words = format!("{} {}", command.name, command.arguments);
        let _ = writeln!(text, "{words:<32} {}", command.about);
    }
    let _ = writeln!(text, "{:<32} leave the console", "quit");
    text
}

fn priority(server: &mut Server, words: &[&str]) -> String {
    match words.first().map(|word| word.parse::<u8>()) {
        None => format!("{}\n", server.manager.setup().sm_priority),
        Some(Ok(priority)) if priority <= 15 => {
            server.manager.set_priority(priority);
            format!("priority {priority}\n")
        }
        Some(_) => "a priority is a number from 0 to 15\n".to_owned(),
    }
}

fn log_level(server: &mut Server, words: &[&str]) -> String {
    match words.first().map(|word| weft_sm::options::number(word)) {
        None => format!("0x{:02x}\n", server.journal.flags()),
        Some(Ok(flags)) if flags <= 0xff => {
            server.journal.set_flags(flags as u8);
            format!("0x{flags:02x}\n")
        }
        Some(_) => "flags are a number up to 0xff, such as 0x03\n".to_owned(),
    }
}

fn last_lines(server: &mut Server, words: &[&str]) -> String {
    let count = words.first().and_then(|word| word.parse().ok()).unwrap_or(40);
    server.journal.last(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_told_of() {
        let help = help();
        assert!(COMMANDS.iter().all(|command| help.lines().any(|line| line.starts_with(command.name))));
        let mut names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMANDS.len());
    }
}
