//! `ibv_uc_pingpong`: a ping-pong of messages over an unreliable connection.

use std::ffi::OsString;
use std::process::ExitCode;

use weft_abi_types::IBV_QPT_UC;

use super::Tool;
use crate::pingpong::{self, Spec};

/// The tool.
pub const TOOL: Tool = Tool { name: SPEC.name, about: "ping-pong over an unreliable connection (UC)", run };

const SPEC: Spec =
    Spec { name: "ibv_uc_pingpong", letters: "pdismrnlegc", size: 4096, mtu: 1024, iters: 1000, help: &[] };

fn run(args: &[OsString]) -> ExitCode {
    pingpong::main(&SPEC, args, |options| pingpong::connected(options, IBV_QPT_UC))
}
