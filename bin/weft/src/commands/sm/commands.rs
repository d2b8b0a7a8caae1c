//! What a manager that runs is told, and what it answers: the commands of OpenSM's console, and a few more.

use std::fmt::Write as _;

use super::console::WAIT;
use super::serve::Server;
use super::{balance, dump, figures};

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
        about: "these lines, or one of them",
        answer: |_, words| help(words),
    },
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
        name: "sweep",
        arguments: "[on|off]",
        about: "whether the subnet is looked at; off: not before it is on again",
        answer: sweep,
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
    Command {
        name: "permodlog",
        arguments: "",
        about: "what the log tells by module, where that is something else",
        answer: modules,
    },
    Command {
        name: "logflush",
        arguments: "[on|off]",
        about: "as in opensm; every line is on its way to the disk at once in any case",
        answer: |_, _| "lines are written at once\n".to_owned(),
    },
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
        name: "switchbalance",
        arguments: "[verbose] [GUID]",
        about: "switches whose ports to others are used unevenly",
        answer: |server, words| balance::switches(server.manager.subnet(), words),
    },
    Command {
        name: "lidbalance",
        arguments: "[GUID]",
        about: "ports whose LIDs take one way where others are free",
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
        about: "PortGUIDs of nodes with one of the words in their names",
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
        name: "quit",
        arguments: "",
        about: "leave the console",
        answer: |_, _| "the manager goes on; shutdown ends it\n".to_owned(),
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
    for entry in server.journal.modules() {
        let _ = writeln!(text, "{:<24} 0x{:02x}", entry.module, entry.flags);
    }
    if text.is_empty() { "every module tells what loglevel says\n".to_owned() } else { text }
}

fn port_guids(server: &mut Server, words: &[&str]) -> String {
    let (file, words) = match words {
        ["file", file, rest @ ..] => (Some(*file), rest),
        rest => (None, rest),
    };
    if words.is_empty() {
        return "say a word of the names of the nodes that are meant\n".to_owned();
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
        let help = help(&[]);
        assert!(COMMANDS.iter().all(|command| help.lines().any(|line| line.starts_with(command.name))));
        let mut names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMANDS.len());
    }
}
