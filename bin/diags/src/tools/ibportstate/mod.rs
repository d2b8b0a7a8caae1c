//! `ibportstate`: shows or changes the state of a port; for a switch port, also shows the other end of its cable.

mod change;
mod peer;
mod session;
mod show;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::Value;

use self::change::Changes;
use self::session::Session;
use super::Tool;
use crate::ib::options::{CommandLine, SMP_CLASSES, Spec};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome};
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibportstate", about: "show or change the state of a port", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[],
    exclude: "",
    own: "",
    usage: "<dest dr_path|lid|guid> <portnum> [<op>]

Supported ops: enable, disable, on, off, reset, speed, espeed, fdr10,
\twidth, query, down, arm, active, vls, mtu, lid, smlid, lmc,
\tmkey, mkeylease, mkeyprot
",
    examples: &[
        "-C qib0 -P 1 3 1 disable     # by CA name, CA Port Number, lid, physical port number",
        "-C qib0 -P 1 3 1 enable      # by CA name, CA Port Number, lid, physical port number",
        "-D 0 1\t\t\t# (query) by direct route",
        "3 1 reset\t\t\t# by lid",
        "3 1 speed 1\t\t\t# by lid",
        "3 1 width 1\t\t\t# by lid",
        "-D 0 1 lid 0x1234 arm\t\t# by direct route",
    ],
};

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let [address, _, ops @ ..] = line.operands.as_slice() else { return Err(End::Usage) };
    let mut port = Port::open(&line.common, SMP_CLASSES)?;
    let to = line.common.destination(&mut port, address)?;
    let to = to.ok_or_else(|| End::failed(format!("can't resolve destination port {address}")))?;
    let changes = Changes::parse(ops)?;
    let number = line.number(1) as u32;
    let mut session = Session { line, port, json: serde_json::Map::new() };
    let (mut asked, _) = session.node(&to)?;
    asked.number = number;
    if changes.sets_m_key() && asked.is_switch && number != 0 {
        return Err(End::failed("Can't set M_Key fields on switch port != 0"));
    }
    let kind = if asked.is_switch { "Switch" } else { "CA/RT" };
    let initial = if changes.is_query() { "" } else { "Initial " };
    session.print(&format!("{initial}{kind} PortInfo:\n"));
    show::ask(&mut session, &mut asked)?;
    show::tell(&mut session, &asked, "port");
    if asked.has_mlnx_ext {
        show::ask_mlnx_ext(&mut session, &mut asked)?;
        show::tell_mlnx_ext(&mut session, &asked, "port");
    }
    if !changes.is_query() {
        change::apply(&mut session, asked, &changes)?;
    } else if asked.is_switch && number != 0 {
        peer::compare(&mut session, &asked)?;
    }
    if line.common.json {
        output::print(&format!("{}\n", Value::from(session.json)));
    }
    Ok(())
}
