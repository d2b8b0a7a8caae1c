//! State of a trace: what it asks of nodes, and prints of them.

use serde_json::{Value, json};

use super::node::{Lookup, Seen};
use crate::ib::address::PortId;
use crate::ib::fields::subn::{node_info, port_info, switch_info};
use crate::ib::names::NodeNames;
use crate::ib::options::CommandLine;
use crate::ib::port::{MadError, Port};
use crate::ib::smp;
use crate::output;

/// Number of entries in a block of a linear forwarding table.
const ENTRIES_IN_BLOCK: u16 = 64;

/// Level of detail for printing a hop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    Nothing,
    Brief,
    Full,
}

/// State of a trace.
pub struct Session<'a> {
    pub line: &'a CommandLine,
    pub port: Port,
    pub names: NodeNames,
    pub detail: Detail,
    pub json: Vec<Value>,
}

/// There is no path; the error is already printed.
pub struct NoWay;

impl Session<'_> {
    pub fn print(&self, text: &str) {
        if !self.line.common.json {
            output::print(text);
        }
    }

    pub fn forces(&self) -> bool {
        self.line.has('f')
    }

    /// Level of detail that `-v` alone selects.
    pub fn verbose_detail(&self) -> Detail {
        match self.line.common.verbose {
            0 => Detail::Nothing,
            1 => Detail::Brief,
            _ => Detail::Full,
        }
    }

    pub fn name(&self, seen: &Seen) -> String {
        self.names.name(seen.guid, &seen.desc)
    }

    /// Prints the start or end of a path.
    pub fn tell_end(&mut self, detail: Detail, prompt: &str, seen: &Seen) {
        if detail == Detail::Nothing {
            return;
        }
        let number = if seen.is_switch() { 0 } else { seen.number };
        if detail == Detail::Brief {
            self.print(&format!("{prompt} {{0x{:016x}}}[{number}]\n", seen.guid));
            return;
        }
        let (kind, name) = (seen.kind(), self.name(seen));
        let (first, last) = seen.lids();
        self.print(&format!(
            "{prompt} {kind} {{0x{:016x}}} portnum {number} lid {first}-{last} \"{name}\"\n",
            seen.guid
        ));
        let way = if prompt == "From" { "from" } else { "to" };
        self.keep(way, seen, number.into(), None);
    }

    pub fn keep(&mut self, role: &str, seen: &Seen, number: u32, out_port: Option<u32>) {
        let (first, last) = seen.lids();
        let mut value = json!({
            "role": role, "type": seen.kind(), "node_guid": format!("0x{:016x}", seen.guid),
            "port_guid": format!("0x{:016x}", seen.port_guid), "port": number,
            "lid_start": first, "lid_end": last, "name": self.name(seen),
        });
        if let Some(out_port) = out_port {
            value["out_port"] = out_port.into();
        }
        self.json.push(value);
    }

    /// The timeout for an answer; 0 means the default.
    pub fn timeout_ms(&self) -> u32 {
        self.line.common.timeout_ms.unwrap_or(0)
    }

    /// Queries the node at `to`.
    pub fn see(&mut self, to: &PortId) -> Result<Seen, MadError> {
        let timeout_ms = self.timeout_ms();
        let mut ask = |attribute| self.port.smp_get_within(to, attribute, 0, timeout_ms);
        let node = ask(smp::NODE_INFO)?;
        let desc = ask(smp::NODE_DESC)?;
        let info = ask(smp::PORT_INFO)?;
        Ok(Seen {
            guid: node_info::GUID.value(&node),
            node_type: node_info::NODE_TYPE.value(&node),
            ports: node_info::NUM_PORTS.value(&node) as u32,
            desc,
            port_guid: node_info::PORT_GUID.value(&node),
            number: node_info::LOCAL_PORT.value(&node) as u8,
            lid: port_info::LID.value(&info) as u16,
            lmc: port_info::LMC.value(&info) as u8,
            state: port_info::LINK_STATE.value(&info),
        })
    }

    /// Queries the forwarding entry for `lid` of the switch at `to`.
    pub fn look_up(&mut self, to: &PortId, lid: u16) -> Lookup {
        let timeout_ms = self.timeout_ms();
        let Ok(info) = self.port.smp_get_within(to, smp::SWITCH_INFO, 0, timeout_ms) else {
            return Lookup::default();
        };
        let top = switch_info::LINEAR_FDB_TOP.value(&info);
        let has_enhanced_port0 = switch_info::ENHANCED_PORT0.value(&info) != 0;
        let lookup = Lookup { out: None, top, has_enhanced_port0 };
        if u64::from(lid) >= switch_info::LINEAR_FDB_CAP.value(&info) && u64::from(lid) > top {
            return lookup;
        }
        let block = u32::from(lid / ENTRIES_IN_BLOCK);
        let table = self.port.smp_get_within(to, smp::LINEAR_FORWARDING, block, timeout_ms);
        Lookup { out: table.ok().map(|table| table[usize::from(lid % ENTRIES_IN_BLOCK)]), ..lookup }
    }
}
