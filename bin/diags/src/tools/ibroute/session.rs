//! State of the tool's run, and the switch that it reads.

use serde_json::Value;

use crate::ib::address::PortId;
use crate::ib::fields::subn::node_info;
use crate::ib::names::NodeNames;
use crate::ib::options::CommandLine;
use crate::ib::port::Port;
use crate::ib::smp::{self, Data};
use crate::output;

/// A switch and the requested LID range.
pub struct Session<'a> {
    pub line: &'a CommandLine,
    pub port: Port,
    pub to: PortId,
    pub names: NodeNames,
    /// The first LID, or 0.
    pub first: u32,
    /// The last LID, or 0.
    pub last: u32,
    pub json: serde_json::Map<String, Value>,
}

/// A switch's own attributes.
pub struct Switch {
    pub ports: u32,
    pub guid: u64,
    pub name: String,
    pub info: Data,
}

impl Session<'_> {
    pub fn print(&self, text: &str) {
        if !self.line.common.json {
            output::print(text);
        }
    }

    pub fn keep(&mut self, name: &str, value: impl Into<Value>) {
        self.json.insert(name.to_owned(), value.into());
    }

    pub fn switch(&mut self) -> Result<Switch, &'static str> {
        let node = self.port.smp_get(&self.to, smp::NODE_INFO, 0).map_err(|_| {
            output::complain_text(&format!("nodeinfo\n{}", crate::ib::mad::hex_dump(&[0; smp::DATA_LEN])));
            "node info failed: valid addr?"
        })?;
        let desc = self.port.smp_get(&self.to, smp::NODE_DESC, 0).map_err(|_| "node desc failed")?;
        if node_info::NODE_TYPE.value(&node) != smp::TYPE_SWITCH {
            return Err("not a switch");
        }
        let info = self.port.smp_get(&self.to, smp::SWITCH_INFO, 0);
        let info = info.map_err(|_| "switch info failed: is a switch node?")?;
        let guid = node_info::GUID.value(&node);
        let name = self.names.name(guid, &desc);
        let switch = Switch { ports: node_info::NUM_PORTS.value(&node) as u32, guid, name, info };
        self.keep("switch", self.to.to_string());
        self.keep("guid", format!("0x{guid:016x}"));
        self.keep("name", switch.name.as_str());
        Ok(switch)
    }
}
