//! `rstream`: measures latency and bandwidth of stream sockets over RDMA, or of TCP.

mod options;
mod peer;
mod report;
mod transfer;

use std::ffi::OsString;
use std::process::ExitCode;

use super::Tool;
use crate::cm_tools::{self, exit_code};
use weft_client::rdmacm::SocketCalls;

/// The tool.
pub const TOOL: Tool = Tool { name: "rstream", about: "measure latency and bandwidth of sockets over RDMA", run };

fn run(args: &[OsString]) -> ExitCode {
    let Some(options) = options::read(args) else { return ExitCode::from(1) };
    // Plain TCP works on hosts without RDMA.
    let library = if options.rdma || options.resolve_by_cm {
        match cm_tools::load(options.which) {
            Some(library) => Some(library),
            None => return ExitCode::from(1),
        }
    } else {
        None
    };
    let calls = match library {
        Some(library) if options.rdma => library.sockets(),
        _ => SocketCalls::system(),
    };
    exit_code(peer::run(&options, calls, library).err().unwrap_or(0))
}
