//! `ibv_devinfo`: prints attributes and capabilities of devices and their ports.

use std::ffi::OsString;
use std::process::ExitCode;

use super::Tool;
use crate::devinfo::{self, DeviceReport};
use crate::getopt::{self, Parsed, flag, number, value};
use crate::outln;
use weft_client::Which;
use weft_client::verbs::{DeviceList, Library};

/// The tool.
pub const TOOL: Tool = Tool { name: "ibv_devinfo", about: "print the attributes of RDMA devices and ports", run };

/// Exit code of the original's `return -1` from main.
const FAILED: u8 = 255;

fn usage(to: fn(&str)) {
    to("Usage: ibv_devinfo             print the ca attributes

Options:
  -d, --ib-dev=<dev>     use IB device <dev> (default first device found)
  -i, --ib-port=<port>   use port <port> of IB device (default all ports)
  -l, --list             print only the IB devices names
  -v, --verbose          print all the attributes of the IB device(s)
      --system           use the system's libibverbs instead of Weft's
      --json             print JSON
");
}

fn run(args: &[OsString]) -> ExitCode {
    let known = [
        value('d', "ib-dev"),
        value('i', "ib-port"),
        flag('l', "list"),
        flag('v', "verbose"),
        flag('\0', "system"),
        flag('\0', "json"),
    ];
    let parsed = match getopt::parse(args, &known) {
        // The original ignores operands too.
        Ok(parsed) => parsed,
        Err(mistake) => {
            crate::errln!("ibv_devinfo: {mistake}");
            usage(crate::output::print);
            return ExitCode::from(FAILED);
        }
    };
    if parsed.options.iter().any(|(name, text)| *name == "ib-port" && number(text).is_none_or(|n| n < 1)) {
        usage(crate::output::print);
        return ExitCode::FAILURE;
    }
    match answer(&parsed) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::from(FAILED)
        }
    }
}

/// Prints the requested attributes. The exit code counts two for each device that cannot be queried, as in the
/// original.
fn answer(parsed: &Parsed) -> Result<u8, String> {
    let given = |name: &str| {
        let mut values = parsed.options.iter().rev().filter(|(n, _)| *n == name);
        values.next().map(|(_, value)| value.as_str())
    };
    let which = if given("system").is_some() { Which::System } else { Which::Ours };
    let json = given("json").is_some();
    // No device has more than 254 ports, so a larger number is as invalid as 255.
    let port = given("ib-port").and_then(number).map(|n| u8::try_from(n).unwrap_or(u8::MAX));
    let library = Library::load(which).map_err(|e| format!("ibv_devinfo: {e:#}"))?;
    let list =
        DeviceList::new(library).map_err(|e| format!("Failed to get IB devices list: {}", crate::errno::text(&e)))?;
    if given("list").is_some() {
        let names: Vec<String> = list.iter().map(|d| d.name()).collect();
        if json {
            outln!("{}", serde_json::json!(names));
        } else {
            crate::output::print(&devinfo::list_text(&names));
        }
        return Ok(0);
    }
    let wanted = given("ib-dev");
    let devices: Vec<_> = match wanted {
        Some(name) => {
            let found = list.iter().find(|d| d.name() == name);
            vec![found.ok_or_else(|| format!("IB device '{name}' wasn't found"))?]
        }
        None => list.iter().collect(),
    };
    if devices.is_empty() {
        return Err("No IB devices found".to_owned());
    }
    let verbose = given("verbose").is_some();
    let mut reports = Vec::new();
    let mut code: u8 = 0;
    for device in devices {
        let report = match DeviceReport::of(&device, port) {
            Ok(report) => report,
            Err(message) => {
                crate::errln!("{message}");
                code += 2;
                continue;
            }
        };
        if json {
            reports.push(devinfo::json(&report, verbose));
        } else {
            crate::output::print(&devinfo::text(&report, verbose));
        }
    }
    if json {
        outln!("{}", serde_json::Value::from(reports));
    }
    Ok(code)
}
