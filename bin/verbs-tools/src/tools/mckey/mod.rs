//! `mckey`: sends datagrams to a multicast group.

mod options;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

use super::Tool;
use crate::cm_tools::{exit_code, open_channel};
use crate::outln;
use test::Test;

/// The tool.
pub const TOOL: Tool = Tool { name: "mckey", about: "send datagrams to a multicast group (UD)", run };

fn run(args: &[OsString]) -> ExitCode {
    let Some(options) = options::read(args) else { return ExitCode::from(1) };
    let Some(channel) = open_channel(options.which) else { return ExitCode::from(1) };
    let mut test = match Test::new(&options, channel) {
        Ok(test) => test,
        Err(_) => return ExitCode::from(1),
    };
    let status = test.run().err().unwrap_or(0);
    outln!("test complete");
    drop(test);
    outln!("return status {status}");
    exit_code(status)
}
