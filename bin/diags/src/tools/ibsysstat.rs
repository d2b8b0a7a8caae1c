//! `ibsysstat`: shows the name and processors of a host on the subnet; client and server.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use serde_json::json;

use super::Tool;
use crate::errno;
use crate::ib::address::PortId;
use crate::ib::format::text_until_zero;
use crate::ib::mad::{self, CLASS_SYSSTAT, GET, OUI_OPENIB, Request, VENDOR2_DATA_AT};
use crate::ib::options::{CommandLine, SMP_CLASSES, Spec, opt, opt_arg};
use crate::ib::port::{Port, TIMEOUT_MS};
use crate::ib::report::{End, Outcome, warn};
use crate::ib::{host, number};
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibsysstat", about: "query name and processors of a host on the subnet", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[opt_arg("oui", 'o', "<val>", "use specified OUI number"), opt("Server", 'S', "start in server mode")],
    exclude: "DKy",
    own: "",
    usage: "<dest lid|guid> [<op>]",
    examples: &[],
};

const PING: u16 = 0x10;
const HOST: u16 = 0x11;
const CPU: u16 = 0x12;
/// Operations by name.
const OPS: &[(&str, u16)] = &[("ping", PING), ("host", HOST), ("cpu", CPU)];
/// Maximum number of reported processors.
const CPUS_MAX: usize = 256;

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let serves = line.has('S');
    if line.operands.is_empty() && !serves {
        return Err(End::Usage);
    }
    let attribute = match line.operands.get(1) {
        None => PING,
        Some(op) => OPS.iter().find(|(name, _)| name == op).ok_or(End::Usage)?.1,
    };
    let oui = line.arg('o').map_or(OUI_OPENIB, |text| number::number(text) as u32);
    let mut port = Port::open(&line.common, SMP_CLASSES)?;
    if serves {
        let cannot = |_| End::failed(format!("can't serve class {CLASS_SYSSTAT}"));
        port.register_server(CLASS_SYSSTAT, 1, oui).map_err(cannot)?;
        return serve(&port);
    }
    let cannot = |_| End::failed(format!("can't register to sysstat class {CLASS_SYSSTAT}"));
    port.register_client(CLASS_SYSSTAT, 1).map_err(cannot)?;
    let address = &line.operands[0];
    let to = line.common.destination(&mut port, address)?;
    let to = to.ok_or_else(|| End::failed(format!("can't resolve destination port {address}")))?;
    let text = ask(line, &mut port, &to, attribute, oui)?;
    if line.common.json {
        let text = (attribute != PING).then_some(text);
        output::print(&format!("{}\n", json!({"address": to.to_string(), "answer": text})));
    } else if attribute == PING {
        output::print("sysstat ping succeeded\n");
    } else {
        output::print(&(text + "\n"));
    }
    Ok(())
}

/// Returns the text of a server's answer.
fn ask(line: &CommandLine, port: &mut Port, to: &PortId, attribute: u16, oui: u32) -> Outcome<String> {
    let panic = |text: &str, error| End::Panic { function: "ibsystat", text: text.to_owned(), error };
    let request = Request { class: CLASS_SYSSTAT, method: GET, attribute, oui, ..Request::default() };
    let mut packet = port.packet(&request, to).map_err(|_| End::failed("cannot build packet."))?;
    let wait = line.common.timeout_ms.unwrap_or(TIMEOUT_MS) as i32;
    port.send(CLASS_SYSSTAT, &mut packet, wait).map_err(|e| panic("umad_send failed.", e))?;
    let answer = port.recv(wait).map_err(|e| panic("umad_recv failed.", e))?;
    if answer.status() != 0 {
        let reason = errno::text(&std::io::Error::from_raw_os_error(answer.status()));
        return Err(End::failed(format!("ibsystat to {to}: {reason}")));
    }
    Ok(text_until_zero(answer.mad().get(VENDOR2_DATA_AT..).unwrap_or_default()))
}

/// Answers requests until the port fails.
fn serve(port: &Port) -> Outcome<()> {
    let cpus = match std::fs::read_to_string("/proc/cpuinfo") {
        Ok(text) => cpus(&text),
        Err(_) => {
            warn("build_cpuinfo", "couldn't open /proc/cpuinfo");
            String::new()
        }
    };
    while let Ok(question) = port.recv(-1) {
        if question.status() != 0 {
            continue;
        }
        let mut text = match mad::attribute(question.mad()) {
            HOST => host::name_and_domain(),
            CPU => cpus.clone(),
            _ => String::new(),
        };
        text.push('\0');
        // The requester has left, or sends its request again.
        let _ = port.respond(&question, text.as_bytes());
    }
    Ok(())
}

/// Returns a line for each processor of `/proc/cpuinfo`.
fn cpus(cpuinfo: &str) -> String {
    let mut all: Vec<[Option<&str>; 2]> = Vec::new();
    for line in cpuinfo.lines() {
        if line.starts_with("processor\t") {
            if all.len() == CPUS_MAX {
                break;
            }
            all.push([None; 2]);
        }
        let (Some(cpu), Some((name, value))) = (all.last_mut(), line.split_once(':')) else { continue };
        if name.starts_with("model name\t") {
            cpu[0] = Some(value);
        } else if name.starts_with("cpu MHz\t") {
            cpu[1] = Some(value);
        }
    }
    all.iter().enumerate().fold(String::new(), |mut text, (at, cpu)| {
        let [model, mhz] = cpu.map(|value| value.unwrap_or("(null)"));
        let _ = writeln!(text, "cpu {at}: model {model} MHZ {mhz}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_told_as_the_original_does() {
        let text = "processor\t: 0\nmodel name\t: EPYC\ncpu MHz\t\t: 2400.0\n\nprocessor\t: 1\nmodel name\t: EPYC\n";
        assert_eq!(cpus(text), "cpu 0: model  EPYC MHZ  2400.0\ncpu 1: model  EPYC MHZ (null)\n");
    }
}
