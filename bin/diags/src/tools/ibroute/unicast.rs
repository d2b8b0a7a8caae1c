//! The linear forwarding table, and the destination of each LID.

use serde_json::json;

use super::session::Session;
use crate::ib::address::{LID_MULTICAST_MIN, PortId};
use crate::ib::fields::subn::{node_info, port_info, switch_info};
use crate::ib::report::warn;
use crate::ib::smp;

/// Number of entries in a block.
const ENTRIES_IN_BLOCK: u32 = 64;
/// Timeout for a destination's name, in milliseconds.
const NAME_TIMEOUT_MS: u32 = 100;

/// The LID range of the last queried port.
#[derive(Default)]
struct LastPort {
    first: u32,
    last: u32,
    guid: u64,
}

/// Prints the table.
pub fn dump(session: &mut Session<'_>) -> Result<(), &'static str> {
    let switch = session.switch()?;
    let top = switch_info::LINEAR_FDB_TOP.value(&switch.info) as u32;
    let mut last = if session.last == 0 { top } else { session.last.min(top) };
    if last >= LID_MULTICAST_MIN {
        warn("dump_unicast_tables", &format!("illegal lft top {last}, truncate to {}", LID_MULTICAST_MIN - 1));
        last = LID_MULTICAST_MIN - 1;
    }
    let first = session.first;
    let (to, guid, name) = (session.to, switch.guid, &switch.name);
    session.print(&format!(
        "Unicast lids [0x{first:x}-0x{last:x}] of switch {to} guid 0x{guid:016x} ({name}):\n  \
         Lid  Out   Destination\n       Port     Info \n"
    ));
    let shows_all = session.line.has('a');
    let mut entries = Vec::new();
    let mut known = LastPort::default();
    // As in the original, the last block is left out if its first entry is the only one in the range.
    for block in first / ENTRIES_IN_BLOCK..last.div_ceil(ENTRIES_IN_BLOCK) {
        let table = match session.port.smp_get(&to, smp::LINEAR_FORWARDING, block) {
            Ok(table) => table,
            Err(error) => {
                crate::errln!("SubnGet() failed; MAD status 0x{:x} AM 0x{block:x}", error.status);
                return Ok(());
            }
        };
        let start = block * ENTRIES_IN_BLOCK;
        for lid in start.max(first)..(start + ENTRIES_IN_BLOCK).min(last + 1) {
            let out = table[(lid % ENTRIES_IN_BLOCK) as usize];
            let is_valid = u32::from(out) <= switch.ports;
            if !is_valid && !shows_all {
                continue;
            }
            let who =
                if session.line.has('n') { String::new() } else { destination(session, lid, is_valid, &mut known) };
            session.print(&format!("0x{lid:04x} {out:03} {who}\n"));
            entries.push(json!({"lid": lid, "port": out, "destination": who.trim_start_matches(": ")}));
        }
    }
    session.print(&format!("{} {}lids dumped \n", entries.len(), if shows_all { "" } else { "valid " }));
    session.keep("entries", entries);
    Ok(())
}

/// The destination of a LID; of a port's several LIDs, only the first causes a query.
fn destination(session: &mut Session<'_>, lid: u32, is_valid: bool, known: &mut LastPort) -> String {
    if lid <= known.last {
        // A port may report a first LID above the LID that reached it: the number wraps below 0, as in C.
        let path = lid.wrapping_sub(known.first);
        let paths = known.last - known.first + 1;
        return match (is_valid, known.guid) {
            (false, _) => format!(": (path #{path} - illegal port)"),
            (true, 0) => format!(": (path #{} out of {paths})", path.wrapping_add(1)),
            (true, guid) => format!(": (path #{} out of {paths}: portguid 0x{guid:016x})", path.wrapping_add(1)),
        };
    }
    if !is_valid {
        return ": (illegal port)".to_owned();
    }
    known.guid = 0;
    let to = PortId::lid(lid as u16);
    let port = &mut session.port;
    let mut ask = |attribute| port.smp_get_within(&to, attribute, 0, NAME_TIMEOUT_MS).ok();
    let asked = ask(smp::NODE_DESC).and_then(|desc| {
        let info = ask(smp::PORT_INFO)?;
        Some((desc, info, ask(smp::NODE_INFO)?))
    });
    let Some((desc, info, node)) = asked else { return ": (unknown node and type)".to_owned() };
    known.guid = node_info::PORT_GUID.value(&node);
    let lmc = port_info::LMC.value(&info);
    if lmc > 0 {
        known.first = port_info::LID.value(&info) as u32;
        known.last = known.first + (1 << lmc) - 1;
    }
    let name = session.names.name(node_info::GUID.value(&node), &desc);
    let kind = node_info::NODE_TYPE.text(&node);
    format!(": ({kind} portguid {}: '{name}')", node_info::PORT_GUID.text(&node))
}
