//! State of the tool's run.

use serde_json::Value;

use crate::ib::address::PortId;
use crate::ib::options::CommandLine;
use crate::ib::port::Port;
use crate::output;

/// The default mask of counters to reset.
pub const MASK: u64 = 0xffff;

/// State of the tool's run.
pub struct Session<'a> {
    pub line: &'a CommandLine,
    pub port: Port,
    pub to: PortId,
    /// The port, or the first of several.
    pub number: u8,
    /// Several ports, or empty.
    pub numbers: Vec<u8>,
    /// CapabilityMask of ClassPortInfo.
    pub cap_mask: u16,
    /// CapabilityMask2.
    pub cap_mask2: u32,
    /// The mask of counters to reset, if given.
    pub mask: Option<u64>,
    /// JSON output, one value per port.
    pub json: Vec<Value>,
}

impl Session<'_> {
    pub fn timeout_ms(&self) -> u32 {
        self.line.common.timeout_ms.unwrap_or(0)
    }

    /// Prints text, or keeps a value for JSON output.
    pub fn tell(&mut self, text: &str, json: Value) {
        if self.line.common.json { self.json.push(json) } else { output::print(text) }
    }

    pub fn resets_only(&self) -> bool {
        self.line.has('R')
    }

    pub fn resets(&self) -> bool {
        self.line.has('R') || self.line.has('r')
    }
}
