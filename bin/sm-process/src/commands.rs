//! Commands to a running manager and their answers: the commands of OpenSM's console, and a few more.

use std::fmt::Write as _;

use super::console::WAIT;
use super::serve::Server;
use super::{balance, dump, metrics};

/// A command of the console.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    answer: fn(&mut Server, &[&str]) -> String,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "help",
        arguments: "[COMMAND]",
        about: "list all commands, or describe one",
        answer: |_, words| help(words),
    },
    Command {
        name: "status",
        arguments: "[--json]",
        about: "show state, master, sweeps, datagrams, routing",
        answer: |server, words| match words {
            ["--json", ..] => metrics::json(&server.manager),
            _ => metrics::text(&server.manager),
        },
    },
    Command {
        name: WAIT,
        arguments: "",
        about: "show the status as soon as the subnet is up",
        answer: |server, _| metrics::text(&server.manager),
    },
    Command {
        name: "resweep",
        arguments: "[heavy|light]",
        about: "sweep the subnet now",
        answer: |server, words| {
            let heavy = words.first() != Some(&"light");
            server.manager.sweep(heavy);
            format!("{} sweep\n", if heavy { "heavy" } else { "light" })
        },
    },
    Command {
        name: "sweep",
        arguments: "[on|off]",
        about: "show whether the manager sweeps, suspend (off) or resume (on) sweeps",
        answer: sweep,
    },
    Command {
        name: "reroute",
        arguments: "",
        about: "read the configuration again, compute and write all tables",
        answer: |server, _| server.reload() + "\n",
    },
    Command { name: "reload", arguments: "", about: "same as reroute", answer: |server, _| server.reload() + "\n" },
    Command { name: "priority", arguments: "[0-15]", about: "show or set the SM priority", answer: priority },
    Command { name: "loglevel", arguments: "[FLAGS]", about: "show or set the log flags", answer: log_level },
    Command {
        name: "permodlog",
        arguments: "",
        about: "show the log flags of modules that differ from loglevel",
        answer: modules,
    },
    Command {
        name: "logflush",
        arguments: "[on|off]",
        about: "accepted for opensm's sake; every line is written at once",
        answer: |_, _| "lines are written at once\n".to_owned(),
    },
    Command { name: "log", arguments: "[LINES]", about: "show the last lines of the log", answer: last_lines },
    Command {
        name: "routing",
        arguments: "",
        about: "show the routing engine and the quality of its tables",
        answer: |server, _| metrics::routing(&server.manager),
    },
    Command {
        name: "portstatus",
        arguments: "[ca|switch|router]",
        about: "count ports by state, width and speed",
        answer: |server, words| metrics::ports(server.manager.subnet(), words.first().copied()),
    },
    Command {
        name: "querylid",
        arguments: "LID",
        about: "describe the port with a LID",
        answer: |server, words| metrics::who_has(server.manager.subnet(), words.first().copied()),
    },
    Command {
        name: "switchbalance",
        arguments: "[verbose] [GUID]",
        about: "list switches that use their ports to other switches unevenly",
        answer: |server, words| balance::switches(server.manager.subnet(), words),
    },
    Command {
        name: "lidbalance",
        arguments: "[GUID]",
        about: "list ports whose LIDs share a path while others are free",
        answer: |server, words| balance::lids_of_ports(server.manager.subnet(), words),
    },
    Command {
        name: "update_desc",
        arguments: "",
        about: "ask every node for its name again",
        answer: |server, _| {
            server.manager.read_names();
            "every node is asked for its name\n".to_owned()
        },
    },
    Command {
        name: "dump_portguid",
        arguments: "[file FILE] WORD...",
        about: "list PortGUIDs of nodes with one of the words in their names",
        answer: port_guids,
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
        about: "show the options in force",
        answer: |server, _| server.files.shown(),
    },
    Command {
        name: "metrics",
        arguments: "",
        about: "print SM metrics in Prometheus format",
        answer: |server, _| metrics::prometheus(&server.manager),
    },
    Command {
        name: "version",
        arguments: "",
        about: "show the version of this manager",
        answer: |_, _| format!("weft sm {}\n", env!("CARGO_PKG_VERSION")),
    },
    Command {
        name: "quit",
        arguments: "",
        about: "leave the console",
        answer: |_, _| "the manager goes on; shutdown ends it\n".to_owned(),
    },
    Command {
        name: "shutdown",
        arguments: "",
        about: "hand the subnet over to a standby manager, if there is one, and exit",
        answer: |server, _| {
            server.end();
            "ends\n".to_owned()
        },
    },
];

/// Executes a command line and returns the answer.
pub fn answer(server: &mut Server, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some((name, rest)) = words.split_first() else { return String::new() };
    match COMMANDS.iter().find(|command| command.name == *name) {
        Some(command) => (command.answer)(server, rest),
        None => format!("no command is called {name}; these are:\n{}", help(&[])),
    }
}

fn help(words: &[&str]) -> String {
    let mut text = String::new();
    let wanted = |command: &&Command| words.first().is_none_or(|word| *word == command.name);
    for command in COMMANDS.iter().filter(wanted) {
        let words = format!("{} {}", command.name, command.arguments);
        let _ = writeln!(text, "{words:<32} {}", command.about);
    }
    if text.is_empty() {
        return format!("no command is called {}\n", words.join(" "));
    }
    text
}

fn sweep(server: &mut Server, words: &[&str]) -> String {
    match words {
        ["on"] => server.manager.set_sweeping(true),
        ["off"] => server.manager.set_sweeping(false),
        [] => {}
        _ => return "say sweep on, or sweep off\n".to_owned(),
    }
    format!("sweeping is {}\n", if server.manager.is_sweeping() { "on" } else { "off" })
}

fn modules(server: &mut Server, _: &[&str]) -> String {
    let mut text = String::new();
    for entry in server.log.modules() {
        let _ = writeln!(text, "{:<24} 0x{:02x}", entry.module, entry.flags);
    }
    if text.is_empty() { "no module has log flags of its own\n".to_owned() } else { text }
}

fn port_guids(server: &mut Server, words: &[&str]) -> String {
    let (file, words) = match words {
        ["file", file, rest @ ..] => (Some(*file), rest),
        rest => (None, rest),
    };
    if words.is_empty() {
        return "give a word of the node names to search for\n".to_owned();
    }
    let guids = balance::port_guids(server.manager.subnet(), words);
    let text: String = guids.iter().map(|guid| format!("0x{guid:016x}\n")).collect();
    match file {
        None => text,
        Some(file) => match std::fs::write(file, text) {
            Ok(()) => format!("{} PortGUIDs are in {file}\n", guids.len()),
            Err(error) => format!("cannot write {file}: {error}\n"),
        },
    }
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
        None => format!("0x{:02x}\n", server.log.flags()),
        Some(Ok(flags)) if flags <= 0xff => {
            server.log.set_flags(flags as u8);
            format!("0x{flags:02x}\n")
        }
        Some(_) => "flags are a number up to 0xff, such as 0x03\n".to_owned(),
    }
}

fn last_lines(server: &mut Server, words: &[&str]) -> String {
    let count = words.first().and_then(|word| word.parse().ok()).unwrap_or(40);
    server.log.last(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_told_of() {
        let help = help(&[]);
        assert!(COMMANDS.iter().all(|command| help.lines().any(|line| line.starts_with(command.name))));
        let mut names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMANDS.len());
    }
}
