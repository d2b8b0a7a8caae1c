//! `ucmatose`: opens many reliable connections at a time and sends messages over each.

mod node;
mod options;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

use super::Tool;
use crate::cm_tools::{exit_code, open_channel};
use crate::outln;
use test::Test;

/// The tool.
pub const TOOL: Tool = Tool { name: "ucmatose", about: "open many connections through the RDMA CM (RC)", run };

fn run(args: &[OsString]) -> ExitCode {
    let Some(options) = options::read(args) else { return ExitCode::from(1) };
    let Some(channel) = open_channel(options.which) else { return ExitCode::from(1) };
    let mut test = match Test::new(&options, channel) {
        Ok(test) => test,
        Err(_) => return ExitCode::from(1),
    };
    let result = if options.dst.is_some() { test.run_client() } else { test.run_server() };
    outln!("test complete");
    drop(test);
    let status = result.err().unwrap_or(0);
    outln!("return status {status}");
    exit_code(status)
}
