//! State of the tool's run, and what it read of a port.

use serde_json::Value;

use crate::ib::address::PortId;
use crate::ib::fields::subn::node_info;
use crate::ib::options::CommandLine;
use crate::ib::port::Port;
use crate::ib::port_info::{ExtendedSpeeds, has_mlnx_ext};
use crate::ib::report::{End, Outcome};
use crate::ib::smp::{self, Data};
use crate::output;

/// A port of a node, as it reports itself.
#[derive(Clone, Copy)]
pub struct Asked {
    pub to: PortId,
    pub number: u32,
    pub is_switch: bool,
    pub has_mlnx_ext: bool,
    /// Extended speeds that PortInfo includes.
    pub extended_speeds: ExtendedSpeeds,
    pub info: Data,
    /// The vendor's ExtendedPortInfo, or zeroes.
    pub mlnx_ext: Data,
}

/// State of the tool's run.
pub struct Session<'a> {
    pub line: &'a CommandLine,
    pub port: Port,
    pub json: serde_json::Map<String, Value>,
}

impl Session<'_> {
    pub fn print(&self, text: &str) {
        if !self.line.common.json {
            output::print(text);
        }
    }

    /// Gets a node's NodeInfo. Returns the node with an empty PortInfo, and the port number that NodeInfo reports.
    pub fn node(&mut self, to: &PortId) -> Outcome<(Asked, u32)> {
        let node = self.port.smp_get(to, smp::NODE_INFO, 0);
        let node =
            node.map_err(|_| End::Failed { function: "get_node_info", text: "smp query nodeinfo failed".into() })?;
        let is_known = has_mlnx_ext(node_info::VENDOR_ID.value(&node), node_info::DEV_ID.value(&node));
        let asked = Asked {
            to: *to,
            number: 0,
            is_switch: node_info::NODE_TYPE.value(&node) == smp::TYPE_SWITCH,
            has_mlnx_ext: self.line.common.mlx_epi && is_known,
            extended_speeds: ExtendedSpeeds::default(),
            info: [0; smp::DATA_LEN],
            mlnx_ext: [0; smp::DATA_LEN],
        };
        Ok((asked, node_info::LOCAL_PORT.value(&node) as u32))
    }
}
