//! `smpdump`: dumps a subnet management attribute as bytes.

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;

use super::Tool;
use crate::ib::address::{DrPath, PortId};
use crate::ib::format::text_until_zero;
use crate::ib::mad::{self, CLASS_SUBN_DIRECTED, CLASS_SUBN_LID, DATA_AT, GET, Request};
use crate::ib::number;
use crate::ib::options::{CommandLine, Spec, opt};
use crate::ib::port::{Port, TIMEOUT_MS};
use crate::ib::report::{End, Outcome};
use crate::ib::smp;
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "smpdump", about: "print an attribute of a node as bytes", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[opt("string", 's', "")],
    exclude: "GKs",
    own: "DL",
    usage: "<dlid|dr_path> <attr> [mod]",
    examples: &[
        " -- DR routed examples:",
        "-D 0,1,2,3,5 16\t# NODE DESC",
        "-D 0,1,2 0x15 2\t# PORT INFO, port 2",
        " -- LID routed examples:",
        "3 0x15 2\t# PORT INFO, lid 3 port 2",
        "0xa0 0x11\t# NODE INFO, lid 0xa0",
    ],
};

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let [to, attribute, ..] = line.operands.as_slice() else { return Err(End::Usage) };
    // The last one of -D and -L counts.
    let is_directed = line.own.iter().rev().find(|(letter, _)| "DL".contains(*letter)).is_some_and(|(l, _)| *l == 'D');
    let class = if is_directed { CLASS_SUBN_DIRECTED } else { CLASS_SUBN_LID };
    let to = match is_directed {
        true => DrPath::parse(to, 0)
            .map(PortId::path)
            .ok_or_else(|| End::panic(format!("bad path str '{to}'"), std::io::Error::from_raw_os_error(0)))?,
        false => PortId::lid(number::number(to) as u16),
    };
    let mut port = Port::open_or_panic(&line.common, class)?;
    let request = Request {
        class,
        method: GET,
        attribute: number::number(attribute) as u16,
        modifier: line.number(2) as u32,
        ..Request::default()
    };
    let timeout_ms = line.common.timeout_ms.unwrap_or(TIMEOUT_MS) as i32;
    let failed = |e: std::io::Error| End::panic(format!("recv error: {}", crate::errno::text(&e)), e);
    let mut packet = port.packet(&request, &to).map_err(|_| End::failed("directed route too long"))?;
    if line.common.debug > 1 {
        output::complain_text(&format!("before send:\n{}", mad::hex_dump(packet.mad())));
    }
    port.send(class, &mut packet, timeout_ms).map_err(|e| End::panic("send failed", e))?;
    let answer = port.recv(-1).map_err(failed)?;
    if line.common.debug > 0 {
        crate::errln!("{} bytes received", answer.mad().len());
    }
    let dump = Dump::of(answer.mad());
    if line.common.json {
        output::print(&format!("{}\n", dump.json()));
    } else {
        // The text comes from the fabric: a terminal gets no control characters, a file or pipe gets the raw bytes.
        let tame = std::io::IsTerminal::is_terminal(&std::io::stdout());
        output::print_bytes(&dump.bytes(line.has('s'), tame));
    }
    Ok(())
}

/// An answer's data and status, including the status's direction bit.
struct Dump {
    data: smp::Data,
    status: u16,
}

impl Dump {
    fn of(mad: &[u8]) -> Dump {
        let mut data = [0; smp::DATA_LEN];
        let bytes = mad.get(DATA_AT..).unwrap_or_default();
        let len = bytes.len().min(data.len());
        data[..len].copy_from_slice(&bytes[..len]);
        let status = mad.get(4..6).map_or(0, |status| u16::from_be_bytes([status[0], status[1]]));
        Dump { data, status }
    }

    /// The output; `tame` removes control characters from a string.
    fn bytes(&self, is_string: bool, tame: bool) -> Vec<u8> {
        let until_zero = || self.data.split(|&byte| byte == 0).next().unwrap_or_default();
        let mut out = match (is_string, tame) {
            (true, true) => (text_until_zero(&self.data) + "\n").into_bytes(),
            (true, false) => [until_zero(), b"\n"].concat(),
            (false, _) => mad::hex_dump(&self.data).into_bytes(),
        };
        if self.status != 0 {
            out.extend(format!("SMP status: 0x{:x}\n", self.status).into_bytes());
        }
        out
    }

    fn json(&self) -> serde_json::Value {
        let data: String = self.data.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({"data": data, "status": format!("0x{:04x}", self.status)})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_as_the_original_does() {
        let mut mad = vec![0; 256];
        mad[4] = 0x80;
        mad[64..67].copy_from_slice(b"abc");
        let dump = Dump::of(&mad);
        let text = String::from_utf8(dump.bytes(false, false)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "6162 6300 0000 0000 0000 0000 0000 0000");
        assert_eq!((lines.len(), lines[4]), (5, "SMP status: 0x8000"));
        assert_eq!(dump.bytes(true, false), b"abc\nSMP status: 0x8000\n");
        assert_eq!(Dump::of(&[]).status, 0);
    }

    #[test]
    fn a_pipe_gets_the_bytes_of_a_string_and_a_terminal_no_control_characters() {
        let mut mad = vec![0; 256];
        mad[64..69].copy_from_slice(b"\x01\x1bWE\xc0");
        let dump = Dump::of(&mad);
        assert_eq!(dump.bytes(true, false), b"\x01\x1bWE\xc0\n");
        assert_eq!(dump.bytes(true, true), "  WE\u{fffd}\n".as_bytes());
    }
}
