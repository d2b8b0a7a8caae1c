//! `ibv_devices`: lists the names and node GUIDs of all devices.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use super::Tool;
use crate::getopt::{self, flag};
use crate::outln;
use weft_client::Which;
use weft_client::verbs::{DeviceList, Library};

/// The tool.
pub const TOOL: Tool = Tool { name: "ibv_devices", about: "list RDMA devices and their node GUIDs", run };

fn run(args: &[OsString]) -> ExitCode {
    // The original ignores its arguments, so this tool accepts wrong ones too.
    let parsed = getopt::parse(args, &[flag('\0', "system"), flag('\0', "json")]).unwrap_or_default();
    let given = |name: &str| parsed.options.iter().any(|(n, _)| *n == name);
    let which = if given("system") { Which::System } else { Which::Ours };
    let library = match Library::load(which) {
        Ok(library) => library,
        Err(e) => {
            crate::errln!("ibv_devices: {e:#}");
            return ExitCode::FAILURE;
        }
    };
    let list = match DeviceList::new(library) {
        Ok(list) => list,
        Err(e) => {
            crate::errln!("Failed to get IB devices list: {}", crate::errno::text(&e));
            return ExitCode::FAILURE;
        }
    };
    let devices: Vec<(String, u64)> = list.iter().map(|d| (d.name(), d.guid())).collect();
    if given("json") {
        outln!("{}", json(&devices));
    } else {
        crate::output::print(&text(&devices));
    }
    ExitCode::SUCCESS
}

fn text(devices: &[(String, u64)]) -> String {
    let mut out = format!("    {:<16}\t   node GUID\n", "device");
    let _ = writeln!(out, "    {:<16}\t----------------", "------");
    for (name, guid) in devices {
        let _ = writeln!(out, "    {name:<16}\t{guid:016x}");
    }
    out
}

fn json(devices: &[(String, u64)]) -> serde_json::Value {
    devices
        .iter()
        .map(|(name, guid)| serde_json::json!({"device": name, "node_guid": format!("{guid:016x}")}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_printed_as_the_original_does() {
        assert_eq!(
            text(&[("rxe0".to_owned(), 0x5054_00ff_fe77_0001)]),
            "    device          \t   node GUID\n    ------          \t----------------\n    \
             rxe0            \t505400fffe770001\n"
        );
        assert_eq!(text(&[]), "    device          \t   node GUID\n    ------          \t----------------\n");
    }
}
