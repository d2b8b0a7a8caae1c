//! Commands to a running manager and their answers: the commands of OpenSM's console, and a few more.

use std::fmt::Write as _;

use super::console::WAIT;
use super::running_manager::RunningManager;
use super::{balance, dump, exposition, metrics};

/// A command of the console.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    answer: fn(&mut RunningManager, &[&str]) -> String,
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
        answer: |sm, words| match words {
            ["--json", ..] => metrics::json(&sm.manager),
            _ => metrics::text(&sm.manager),
        },
    },
    Command {
        name: WAIT,
        arguments: "",
        about: "show the status as soon as the subnet is up",
        answer: |sm, _| metrics::text(&sm.manager),
    },
    Command {
        name: "resweep",
        arguments: "[heavy|light]",
        about: "sweep the subnet now",
        answer: |sm, words| {
            let heavy = words.first() != Some(&"light");
            sm.manager.sweep(heavy);
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
        answer: |sm, _| sm.reload() + "\n",
    },
    Command { name: "reload", arguments: "", about: "same as reroute", answer: |sm, _| sm.reload() + "\n" },
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
        arguments: "[--json]",
        about: "show the routing engine and the quality of its tables",
        answer: |sm, words| match words {
            ["--json", ..] => metrics::routing_json(&sm.manager),
            _ => metrics::routing(&sm.manager),
        },
    },
    Command {
        name: "portstatus",
        arguments: "[ca|switch|router]",
        about: "count ports by state, width and speed",
        answer: |sm, words| metrics::ports(sm.manager.subnet(), words.first().copied()),
    },
    Command {
        name: "querylid",
        arguments: "LID",
        about: "describe the port with a LID",
        answer: |sm, words| metrics::who_has(sm.manager.subnet(), words.first().copied()),
    },
    Command {
        name: "switchbalance",
        arguments: "[verbose] [GUID]",
        about: "list switches that use their ports to other switches unevenly",
        answer: |sm, words| balance::switches(sm.manager.subnet(), words),
    },
    Command {
        name: "lidbalance",
        arguments: "[GUID]",
        about: "list ports whose LIDs share a path while others are free",
        answer: |sm, words| balance::lids_of_ports(sm.manager.subnet(), words),
    },
    Command {
        name: "update_desc",
        arguments: "",
        about: "ask every node for its name again",
        answer: |sm, _| {
            sm.manager.read_names();
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
        answer: |sm, words| {
            let directory = words.first().map_or_else(|| sm.files.dump_dir(), |dir| (*dir).to_owned());
            dump::write(&sm.manager, &directory)
        },
    },
    Command { name: "dump_conf", arguments: "", about: "show the options in force", answer: |sm, _| sm.files.shown() },
    Command {
        name: "metrics",
        arguments: "",
        about: "print SM metrics in Prometheus format",
        answer: |sm, _| exposition::page(&metrics::json(&sm.manager)),
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
        answer: |sm, _| {
            sm.end();
            "ends\n".to_owned()
        },
    },
];

/// Executes a command line and returns the answer.
pub fn answer(sm: &mut RunningManager, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some((name, rest)) = words.split_first() else { return String::new() };
    match COMMANDS.iter().find(|command| command.name == *name) {
        Some(command) => (command.answer)(sm, rest),
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

fn sweep(sm: &mut RunningManager, words: &[&str]) -> String {
    match words {
        ["on"] => sm.manager.set_sweeping(true),
        ["off"] => sm.manager.set_sweeping(false),
        [] => {}
        _ => return "say sweep on, or sweep off\n".to_owned(),
    }
    format!("sweeping is {}\n", if sm.manager.is_sweeping() { "on" } else { "off" })
}

fn modules(sm: &mut RunningManager, _: &[&str]) -> String {
    let mut text = String::new();
    for entry in sm.log.modules() {
        let _ = writeln!(text, "{:<24} 0x{:02x}", entry.module, entry.flags);
    }
    if text.is_empty() { "no module has log flags of its own\n".to_owned() } else { text }
}

fn port_guids(sm: &mut RunningManager, words: &[&str]) -> String {
    let (file, words) = match words {
        ["file", file, rest @ ..] => (Some(*file), rest),
        rest => (None, rest),
    };
    if words.is_empty() {
        return "give a word of the node names to search for\n".to_owned();
    }
    let guids = balance::port_guids(sm.manager.subnet(), words);
    let text: String = guids.iter().map(|guid| format!("0x{guid:016x}\n")).collect();
    match file {
        None => text,
        Some(file) => match std::fs::write(file, text) {
            Ok(()) => format!("{} PortGUIDs are in {file}\n", guids.len()),
            Err(error) => format!("cannot write {file}: {error}\n"),
        },
    }
}

fn priority(sm: &mut RunningManager, words: &[&str]) -> String {
    match words.first().map(|word| word.parse::<u8>()) {
        None => format!("{}\n", sm.manager.setup().sm_priority),
        Some(Ok(priority)) if priority <= 15 => {
            sm.manager.set_priority(priority);
            format!("priority {priority}\n")
        }
        Some(_) => "a priority is a number from 0 to 15\n".to_owned(),
    }
}

fn log_level(sm: &mut RunningManager, words: &[&str]) -> String {
    match words.first().map(|word| weft_sm::options::number(word)) {
        None => format!("0x{:02x}\n", sm.log.flags()),
        Some(Ok(flags)) if flags <= 0xff => {
            sm.log.set_flags(flags as u8);
            format!("0x{flags:02x}\n")
        }
        Some(_) => "flags are a number up to 0xff, such as 0x03\n".to_owned(),
    }
}

fn last_lines(sm: &mut RunningManager, words: &[&str]) -> String {
    let count = words.first().and_then(|word| word.parse().ok()).unwrap_or(40);
    sm.log.last(count)
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
