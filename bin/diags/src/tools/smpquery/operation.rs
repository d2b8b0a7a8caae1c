//! State of an operation.

use serde_json::Value;

use crate::ib::address::PortId;
use crate::ib::names::NodeNames;
use crate::ib::options::CommandLine;
use crate::ib::port::Port;
use crate::output;

/// State of an operation.
pub struct Query<'a> {
    pub line: &'a CommandLine,
    pub port: Port,
    pub to: PortId,
    /// The port to query, 0 if none was given.
    pub number: u32,
    pub names: NodeNames,
    /// Whether a failure's message names the operation.
    pub names_operation: bool,
    /// The JSON output so far.
    pub json: serde_json::Map<String, Value>,
}

impl Query<'_> {
    /// Prints text, except in JSON mode.
    pub fn print(&self, text: &str) {
        if !self.line.common.json {
            output::print(text);
        }
    }

    /// Keeps a value for JSON output.
    pub fn keep(&mut self, name: &str, value: impl Into<Value>) {
        self.json.insert(name.to_owned(), value.into());
    }
}
