//! `ibstat`: shows adapters and their ports as their own host sees them.

use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::Tool;
use crate::ib::number;
use crate::ib::options::{CommandLine, Spec, opt};
use crate::ib::report::{End, Outcome, warn};
use crate::ib::{sysfs, view};
use crate::output;
use weft_client::umad::{Ca, CaPort, Library};

/// The tool.
pub const TOOL: Tool = Tool { name: "ibstat", about: "print the state of InfiniBand adapters and ports", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt("list_of_cas", 'l', "list all IB devices"),
        opt("short", 's', "short output"),
        opt("port_list", 'p', "show port list"),
    ],
    exclude: "CDeGKLPsty",
    own: "",
    usage: "<ca_name> [portnum]",
    examples: &["-l       # list all IB devices", "mthca0 2 # stat port 2 of 'mthca0'"],
};

/// Node types by number.
const TYPES: &[&str] = &["???", "CA", "Switch", "Router"];
/// PortStates by number.
const STATES: &[&str] = &["???", "Down", "Initializing", "Armed", "Active"];
/// PortPhysicalStates by number.
const PHYS_STATES: &[&str] = &[
    "No state change",
    "Sleep",
    "Polling",
    "Disabled",
    "PortConfigurationTraining",
    "LinkUp",
    "LinkErrorRecovery",
    "PhyTest",
];
/// The rate of one lane at SDR, 2.5 Gb/s, truncated to a whole number.
const RATE_1X_SDR: u32 = 2;

fn run(args: &[OsString]) -> ExitCode {
    view::enter(TOOL.name, args).unwrap_or_else(|| SPEC.main(args, work))
}

fn work(line: &CommandLine) -> Outcome<()> {
    let library = line.common.library()?;
    let mut names = library.ca_names().map_err(|e| End::panic("can't list IB device names", e))?;
    if let Some(wanted) = line.operands.first() {
        if !names.contains(wanted) {
            let text = format!("'{wanted}' IB device can't be found");
            return Err(End::panic(text, io::Error::from_raw_os_error(0)));
        }
        names.retain(|name| name == wanted);
    }
    if line.has('p') {
        return port_list(line, library, &names);
    }
    if line.has('l') {
        print(line, &(names.join("\n") + if names.is_empty() { "" } else { "\n" }), &json!(names));
        return Ok(());
    }
    let number = line.operands.get(1).map(|text| number::number(text));
    let mut all = Vec::new();
    for name in &names {
        all.extend(stat(line, library, name, number)?);
    }
    if line.common.json {
        output::print(&format!("{}\n", Value::from(all)));
    }
    Ok(())
}

fn print(line: &CommandLine, text: &str, value: &Value) {
    if line.common.json { output::print(&format!("{value}\n")) } else { output::print(text) }
}

fn port_list(line: &CommandLine, library: Library, names: &[String]) -> Outcome<()> {
    let mut guids = Vec::new();
    for name in names {
        let of_ca = library.port_guids(name).map_err(|e| End::panic("can't list ports", e))?;
        guids.extend(of_ca.into_iter().filter(|guid| *guid != 0).map(|guid| format!("0x{guid:016x}")));
    }
    print(line, &guids.iter().map(|guid| format!("{guid}\n")).collect::<String>(), &json!(guids));
    Ok(())
}

/// Prints one adapter, or one port of it; returns its JSON.
fn stat(line: &CommandLine, library: Library, name: &str, number: Option<u64>) -> Outcome<Option<Value>> {
    let failed = |error| End::panic(format!("stat of IB device '{name}' failed"), error);
    let ca = library.ca(name).map_err(failed)?;
    if ca.node_type == 0 {
        return Ok(None);
    }
    let is_short = line.has('s');
    let number = number.filter(|number| !is_short && *number <= i32::MAX as u64);
    let Some(number) = number else {
        let ports: &[CaPort] = if is_short { &[] } else { &ca.ports };
        if !line.common.json {
            output::print(
                &(ca_text(&ca) + &ports.iter().map(|port| port_text(port, "\t", "\t\t")).collect::<String>()),
            );
        }
        return Ok(Some(ca_json(&ca, ports)));
    };
    let Some(port) = ca.ports.iter().find(|port| u64::from(port.number) == number) else {
        let text = format!("{}: '{name}' has no port number {number} - max ({})", type_of(&ca), ca.ports_count);
        warn("ca_stat", &text);
        return Err(failed(io::Error::from_raw_os_error(0)));
    };
    if !line.common.json {
        output::print(&(format!("{}: '{name}'\n", type_of(&ca)) + &port_text(port, "", "")));
    }
    Ok(Some(ca_json(&ca, std::slice::from_ref(port))))
}

fn type_of(ca: &Ca) -> &'static str {
    word(TYPES, ca.node_type, "???")
}

fn word(words: &[&'static str], index: u32, unknown: &'static str) -> &'static str {
    words.get(index as usize).copied().unwrap_or(unknown)
}

fn ca_text(ca: &Ca) -> String {
    let kind = type_of(ca);
    let mut text = format!("{kind} '{}'\n\t{kind} type: {}\n", ca.name, ca.ca_type);
    let _ = writeln!(text, "\tNumber of ports: {}", ca.ports_count);
    let _ = writeln!(text, "\tFirmware version: {}", ca.fw_ver);
    let _ = writeln!(text, "\tHardware version: {}", ca.hw_ver);
    let _ = writeln!(text, "\tNode GUID: 0x{:016x}", ca.node_guid);
    let _ = writeln!(text, "\tSystem image GUID: 0x{:016x}", ca.system_guid);
    text
}

fn port_text(port: &CaPort, head: &str, indent: &str) -> String {
    let mut text = format!("{head}Port {}:\n", port.number);
    let _ = writeln!(text, "{indent}State: {}", word(STATES, port.state, "???"));
    let _ = writeln!(text, "{indent}Physical state: {}", word(PHYS_STATES, port.phys_state, "???"));
    let _ = writeln!(text, "{indent}Rate: {}", rate(port));
    let _ = writeln!(text, "{indent}Base lid: {}", port.base_lid);
    let _ = writeln!(text, "{indent}LMC: {}", port.lmc);
    let _ = writeln!(text, "{indent}SM lid: {}", port.sm_lid);
    let _ = writeln!(text, "{indent}Capability mask: 0x{:08x}", port.capability_mask);
    let _ = writeln!(text, "{indent}Port GUID: 0x{:016x}", port.port_guid);
    let _ = writeln!(text, "{indent}Link layer: {}", port.link_layer);
    text
}

fn rate(port: &CaPort) -> String {
    if is_fdr10(port) {
        return format!("{} (FDR10)", port.rate);
    }
    if port.rate == RATE_1X_SDR { "2.5".to_owned() } else { port.rate.to_string() }
}

/// Whether the port runs at FDR10: the kernel's text after the rate distinguishes it from QDR.
fn is_fdr10(port: &CaPort) -> bool {
    let path = format!("{}/{}/ports/{}/rate", sysfs::INFINIBAND, port.ca_name, port.number);
    let text = sysfs::read(&path).unwrap_or_default().to_ascii_lowercase();
    text.split(')').next().is_some_and(|front| front.len() < text.len() && front.ends_with("fdr10"))
}

fn ca_json(ca: &Ca, ports: &[CaPort]) -> Value {
    json!({
        "ca": ca.name,
        "node_type": type_of(ca),
        "ca_type": ca.ca_type,
        "number_of_ports": ca.ports_count,
        "firmware_version": ca.fw_ver,
        "hardware_version": ca.hw_ver,
        "node_guid": format!("0x{:016x}", ca.node_guid),
        "system_image_guid": format!("0x{:016x}", ca.system_guid),
        "ports": ports.iter().map(port_json).collect::<Vec<_>>(),
    })
}

fn port_json(port: &CaPort) -> Value {
    json!({
        "port": port.number,
        "state": word(STATES, port.state, "???"),
        "physical_state": word(PHYS_STATES, port.phys_state, "???"),
        "rate": rate(port),
        "base_lid": port.base_lid,
        "lmc": port.lmc,
        "sm_lid": port.sm_lid,
        "capability_mask": format!("0x{:08x}", port.capability_mask),
        "port_guid": format!("0x{:016x}", port.port_guid),
        "link_layer": port.link_layer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_printed_as_the_original_does() {
        let port = CaPort {
            number: 1,
            base_lid: 6,
            sm_lid: 1,
            state: 4,
            phys_state: 5,
            rate: 104,
            capability_mask: 0x0050_c048,
            port_guid: 0x0002_c903_0a00_0011,
            link_layer: "IB".into(),
            ..CaPort::default()
        };
        let ca = Ca {
            name: "ibsim0".into(),
            node_type: 1,
            ports_count: 1,
            fw_ver: "1".into(),
            ca_type: "simulator".into(),
            hw_ver: "a1".into(),
            node_guid: 0x0002_c903_0a00_0010,
            system_guid: 0x0002_c903_0a00_0010,
            ports: vec![],
        };
        assert_eq!(
            ca_text(&ca) + &port_text(&port, "\t", "\t\t"),
            "CA 'ibsim0'\n\tCA type: simulator\n\tNumber of ports: 1\n\tFirmware version: 1\n\tHardware version: a1\n\
             \tNode GUID: 0x0002c9030a000010\n\tSystem image GUID: 0x0002c9030a000010\n\tPort 1:\n\t\tState: Active\n\
             \t\tPhysical state: LinkUp\n\t\tRate: 104\n\t\tBase lid: 6\n\t\tLMC: 0\n\t\tSM lid: 1\n\
             \t\tCapability mask: 0x0050c048\n\t\tPort GUID: 0x0002c9030a000011\n\t\tLink layer: IB\n"
        );
        assert_eq!(rate(&CaPort { rate: 2, ..port }), "2.5");
    }
}
