//! `cmtime`: measures how long each step of connection establishment takes.

mod client;
mod options;
mod server;
mod times;

use std::ffi::OsString;
use std::process::ExitCode;

use super::Tool;
use crate::cm_tools::{exit_code, open_channel};

/// The tool.
pub const TOOL: Tool = Tool { name: "cmtime", about: "time each step of connecting through the RDMA CM", run };

fn run(args: &[OsString]) -> ExitCode {
    let Some(options) = options::read(args) else { return ExitCode::from(1) };
    let Some(channel) = open_channel(options.which) else { return ExitCode::from(1) };
    let result = if options.dst.is_some() {
        client::Client::new(&options, channel).run()
    } else {
        server::Server::new(&options, channel).run()
    };
    exit_code(result.err().unwrap_or(0))
}
