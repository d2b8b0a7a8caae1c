//! The multicast forwarding table: the egress ports of each group's LID.

use serde_json::json;

use super::session::Session;
use crate::ib::address::LID_MULTICAST_MIN;
use crate::ib::fields::subn::switch_info;
use crate::ib::report::warn;
use crate::ib::smp::{self, Data};

/// Number of LIDs in a block.
const LIDS_IN_BLOCK: u32 = 32;
/// Number of ports in a position of the table.
const PORTS_IN_POSITION: u32 = 16;
/// The last multicast LID.
const LID_MULTICAST_MAX: u32 = 0xfffe;

/// Prints the table.
pub fn dump(session: &mut Session<'_>) -> Result<(), &'static str> {
    const FUNCTION: &str = "dump_multicast_tables";
    let switch = session.switch()?;
    let capacity = switch_info::MCAST_FDB_CAP.value(&switch.info) as u32;
    let top = switch_info::MULTICAST_FDB_TOP.value(&switch.info) as u32;
    let shows_all = session.line.has('a');
    let range = Range::of(session.first, session.last, capacity, top, shows_all);
    range.complaints.iter().for_each(|text| warn(FUNCTION, text));
    let (to, guid, name) = (session.to, switch.guid, &switch.name);
    session.print(&format!(
        "Multicast mlids [0x{:x}-0x{:x}] of switch {to} guid 0x{guid:016x} ({name}):\n",
        range.first, range.last
    ));
    session.print(&head(switch.ports, session.line.has('n')));
    if session.line.common.verbose > 0 {
        session.print(&format!("Switch multicast mlid capability is {capacity} top is 0x{top:x}\n"));
    }
    let positions = switch.ports / PORTS_IN_POSITION + 1;
    let mut entries = Vec::new();
    for block in range.first / LIDS_IN_BLOCK..=range.last / LIDS_IN_BLOCK {
        let Some(table) = read(session, block, positions) else { return Ok(()) };
        let start = block * LIDS_IN_BLOCK;
        for lid in start.max(range.first)..(start + LIDS_IN_BLOCK).min(range.last + 1) {
            let masks: Vec<u16> = table.iter().map(|data| mask(data, lid)).collect();
            if !shows_all && masks.iter().all(|mask| *mask == 0) {
                continue;
            }
            let ports = if session.line.has('n') { in_hex(&masks) } else { as_columns(&masks, switch.ports) };
            session.print(&format!("0x{lid:04x}      {ports}\n"));
            entries.push(json!({"mlid": format!("0x{lid:04x}"), "ports": numbers(&masks, switch.ports)}));
        }
    }
    session.print(&format!("{} {}mlids dumped \n", entries.len(), if shows_all { "" } else { "valid " }));
    session.keep("entries", entries);
    Ok(())
}

/// Reads all positions of a block; prints the error and returns `None` if one is unreadable.
fn read(session: &mut Session<'_>, block: u32, positions: u32) -> Option<Vec<Data>> {
    let mut table = Vec::new();
    for position in 0..positions {
        let modifier = (block - LID_MULTICAST_MIN / LIDS_IN_BLOCK) | position << 28;
        match session.port.smp_get(&session.to, smp::MULTICAST_FORWARDING, modifier) {
            Ok(data) => table.push(data),
            Err(error) => {
                crate::errln!("SubnGet() failed; MAD status 0x{:x} AM 0x{modifier:x}", error.status);
                return None;
            }
        }
    }
    Some(table)
}

/// The LIDs to print, and the errors in the requested range.
struct Range {
    first: u32,
    last: u32,
    complaints: Vec<String>,
}

impl Range {
    fn of(first: u32, last: u32, capacity: u32, top: u32, shows_all: bool) -> Range {
        let mut complaints = Vec::new();
        let most = (LID_MULTICAST_MIN + capacity).saturating_sub(1);
        let mut last = if last == 0 { most } else { last.min(most) };
        if !shows_all && top != 0 && top < last {
            if top < LID_MULTICAST_MIN - 1 {
                complaints.push(format!("illegal top mlid {top:x}"));
            } else {
                last = top;
            }
        }
        if first != 0 && first < LID_MULTICAST_MIN {
            complaints.push(format!("illegal start mlid {first:x}, set to {LID_MULTICAST_MIN:x}"));
        }
        if last > LID_MULTICAST_MAX {
            complaints.push(format!("illegal end mlid {last:x}, truncate to {LID_MULTICAST_MAX:x}"));
            last = LID_MULTICAST_MAX;
        }
        Range { first: first.max(LID_MULTICAST_MIN), last, complaints }
    }
}

/// The ports of a LID in one position, as a bit mask.
fn mask(data: &Data, lid: u32) -> u16 {
    let at = (lid % LIDS_IN_BLOCK) as usize * 2;
    u16::from_be_bytes([data[at], data[at + 1]])
}

fn has(masks: &[u16], port: u32) -> bool {
    masks.get((port / PORTS_IN_POSITION) as usize).is_some_and(|mask| mask >> (port % PORTS_IN_POSITION) & 1 != 0)
}

fn numbers(masks: &[u16], ports: u32) -> Vec<u32> {
    (0..=ports).filter(|port| has(masks, *port)).collect()
}

fn in_hex(masks: &[u16]) -> String {
    masks.iter().map(|mask| format!("{mask:04x}")).collect()
}

fn as_columns(masks: &[u16], ports: u32) -> String {
    (0..=ports).map(|port| if has(masks, port) { "x " } else { "  " }).collect()
}

/// The column headings.
fn head(ports: u32, is_brief: bool) -> String {
    if is_brief {
        return " MLid       Port Mask\n".to_owned();
    }
    // Above 99 the original prints the ASCII characters after `9`.
    let ten = |i: u32| if i.is_multiple_of(10) { char::from(b'0' + (i / 10) as u8) } else { ' ' };
    let tens: String = (0..=ports).flat_map(|i| [ten(i), ' ']).collect();
    let tens = if ports > 9 { format!("            {tens}\n") } else { String::new() };
    let ones: String = (0..=ports).map(|i| format!("{} ", i % 10)).collect();
    format!("{tens}     Ports: {ones}\n MLid\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_their_ports() {
        assert_eq!(head(2, false), "     Ports: 0 1 2 \n MLid\n");
        assert!(
            head(10, false).starts_with("            0                   1 \n     Ports: 0 1 2 3 4 5 6 7 8 9 0 \n")
        );
        let masks = [0b101, 0x1];
        assert_eq!(as_columns(&masks, 3), "x   x   ");
        assert_eq!((in_hex(&masks), numbers(&masks, 16)), ("00050001".to_owned(), vec![0, 2, 16]));
    }

    #[test]
    fn ranges_are_cut_to_what_there_is() {
        let range = Range::of(0, 0, 1024, 0, false);
        assert_eq!((range.first, range.last, range.complaints.len()), (0xc000, 0xc3ff, 0));
        assert_eq!(Range::of(0, 0, 1024, 0xc005, false).last, 0xc005);
        assert_eq!(Range::of(0, 0, 1024, 0xc005, true).last, 0xc3ff);
        let range = Range::of(1, 0xffff, 0xffff, 7, false);
        assert_eq!((range.first, range.last), (0xc000, 0xfffe));
        assert_eq!(
            range.complaints,
            ["illegal top mlid 7", "illegal start mlid 1, set to c000", "illegal end mlid ffff, truncate to fffe"]
        );
    }
}
