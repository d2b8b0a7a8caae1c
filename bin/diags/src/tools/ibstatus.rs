//! `ibstatus`: shows the host's ports as in sysfs.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::Tool;
use crate::ib::{sysfs, view};
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibstatus", about: "print the state of ports from sysfs", run };

const USAGE: &str = "Usage:  ibstatus  [-h] [devname[:portnum]]
	-h:	this help screen
	Examples:
		ibstatus mthca1		# shows status of all ports of 'mthca1'
		ibstatus mthca0:2	# shows status port number 2 of 'mthca0'
		ibstatus		# default: shows status of all 'mthca0' ports
";

/// A line: the label, the JSON name, the sysfs file, and the placeholder if the file is missing.
const LINES: &[(&str, &str, &str, &str)] = &[
    ("default gid:\t", "default_gid", "gids/0", "unknown"),
    ("base lid:\t", "base_lid", "lid", "unknown"),
    ("sm lid:\t\t", "sm_lid", "sm_lid", "unknown"),
    ("state:\t\t", "state", "state", "unknown"),
    ("phys state:\t", "phys_state", "phys_state", "unknown"),
    ("rate:\t\t", "rate", "rate", "unknown"),
    ("link_layer:\t", "link_layer", "link_layer", "IB"),
];

fn run(given: &[OsString]) -> ExitCode {
    let mut args: Vec<String> = given.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    let is_json = args.iter().any(|arg| arg == "--json");
    args.retain(|arg| arg != "--json");
    if args.first().is_some_and(|arg| arg == "-h") {
        output::print(USAGE);
        return ExitCode::from(255);
    }
    if let Some(code) = view::enter(TOOL.name, given) {
        return code;
    }
    let mut reports = Vec::new();
    let result = all(&args, &mut |report: Port| match is_json {
        true => reports.push(report.json()),
        false => output::print(&report.text()),
    });
    match result {
        Ok(()) => {
            if is_json {
                output::print(&format!("{}\n", Value::from(reports)));
            }
            ExitCode::SUCCESS
        }
        Err(text) if is_json => {
            output::print(&format!("{}\n", json!({"error": text})));
            ExitCode::from(255)
        }
        Err(text) => {
            output::print(&format!("Fatal error:  {text}\n"));
            ExitCode::from(255)
        }
    }
}

/// One port.
struct Port {
    device: String,
    number: String,
    values: Vec<String>,
}

fn all(wanted: &[String], tell: &mut dyn FnMut(Port)) -> Result<(), String> {
    if !wanted.is_empty() {
        return wanted.iter().try_for_each(|arg| {
            let device = arg.split(':').next().unwrap_or_default();
            let number = arg.rsplit(':').next().filter(|number| *number != device);
            one(device, number, tell)
        });
    }
    if !Path::new(sysfs::INFINIBAND).is_dir() {
        return Err("No devices".to_owned());
    }
    let names = listing(sysfs::INFINIBAND);
    // A shell pattern that matches nothing stands for itself.
    let names = if names.is_empty() { vec!["*".to_owned()] } else { names };
    names.iter().try_for_each(|name| one(name, None, tell))
}

fn one(device: &str, number: Option<&str>, tell: &mut dyn FnMut(Port)) -> Result<(), String> {
    let ports = format!("{}/{device}/ports", sysfs::INFINIBAND);
    if !Path::new(&ports).is_dir() {
        return Err(format!("device '{device}': sys files not found ({ports})"));
    }
    let numbers = number.map_or_else(|| listing(&ports), |number| vec![number.to_owned()]);
    for number in numbers {
        let value = |file: &str, missing: &str| match sysfs::read(&format!("{ports}/{number}/{file}")) {
            Ok(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Err(_) => missing.to_owned(),
        };
        let values = LINES.iter().map(|(_, _, file, missing)| value(file, missing)).collect();
        tell(Port { device: device.to_owned(), number, values });
    }
    Ok(())
}

/// The names in a directory, sorted like a shell pattern's matches.
fn listing(path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

impl Port {
    fn text(&self) -> String {
        let head = format!("Infiniband device '{}' port {} status:\n", self.device, self.number);
        let lines = LINES.iter().zip(&self.values).map(|((label, ..), value)| {
            let blank = if value.is_empty() { "" } else { " " };
            format!("\t{label}{blank}{value}\n")
        });
        head + &lines.collect::<String>() + "\n"
    }

    fn json(&self) -> Value {
        let mut all = serde_json::Map::new();
        all.insert("device".to_owned(), self.device.as_str().into());
        all.insert("port".to_owned(), self.number.as_str().into());
        all.extend(
            LINES.iter().zip(&self.values).map(|((_, name, ..), value)| ((*name).to_owned(), value.as_str().into())),
        );
        all.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_printed_as_the_original_does() {
        let values = ["fe80:0000:0000:0000:5054:00ff:fe77:0001", "0x0", "0x0", "4: ACTIVE", "5: LinkUp"];
        let values = values.into_iter().chain(["2.5 Gb/sec (1X SDR)", "Ethernet"]).map(str::to_owned).collect();
        let port = Port { device: "rxe0".to_owned(), number: "1".to_owned(), values };
        assert_eq!(
            port.text(),
            "Infiniband device 'rxe0' port 1 status:\n\tdefault gid:\t fe80:0000:0000:0000:5054:00ff:fe77:0001\n\
             \tbase lid:\t 0x0\n\tsm lid:\t\t 0x0\n\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n\
             \trate:\t\t 2.5 Gb/sec (1X SDR)\n\tlink_layer:\t Ethernet\n\n"
        );
    }
}
