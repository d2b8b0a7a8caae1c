//! `ibv_rc_pingpong`: a ping-pong of messages over a reliable connection.

use std::ffi::OsString;
use std::process::ExitCode;

use weft_abi_types::IBV_QPT_RC;

use super::Tool;
use crate::pingpong::{self, Spec};

/// The tool.
pub const TOOL: Tool = Tool { name: SPEC.name, about: "ping-pong over a reliable connection (RC)", run };

const SPEC: Spec = Spec {
    name: "ibv_rc_pingpong",
    letters: "pdismrnlegoOPtcjN",
    size: 4096,
    mtu: 1024,
    iters: 1000,
    help: &[("chk", "-c, --chk\t            validate received buffer")],
};

fn run(args: &[OsString]) -> ExitCode {
    pingpong::main(&SPEC, args, |options| pingpong::connected(options, IBV_QPT_RC))
}
