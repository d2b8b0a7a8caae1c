//! `rping`: for each ping, the server READs the client's text and WRITEs it back.
//!
//! ```text
//! client                                server
//!   SEND address, key, size of ping  →
//!                                    ←  READ
//!                                    ←  SEND go ahead
//!   SEND address, key, size of pong  →
//!                                    ←  WRITE
//!                                    ←  SEND go ahead
//! ```

mod client;
mod connection;
mod options;
mod server;
mod state;
mod status;

use std::ffi::OsString;
use std::process::ExitCode;

use weft_abi_types::RDMA_PS_TCP;

use self::status::debug;
use super::Tool;
use crate::cm_tools::{exit_code, open_channel, perror};
use weft_client::rdmacm::CmId;

/// The tool.
pub const TOOL: Tool = Tool { name: "rping", about: "ping with RDMA READs and WRITEs through the RDMA CM (RC)", run };

fn run(args: &[OsString]) -> ExitCode {
    let options = match options::read(args) {
        Ok(options) => options,
        Err(status) => return exit_code(status),
    };
    let Some(channel) = open_channel(options.which) else { return exit_code(libc::ENODEV) };
    let id = match CmId::new(&channel, RDMA_PS_TCP) {
        Ok(id) => id,
        Err(e) => {
            perror("rdma_create_id", &e);
            return exit_code(-1);
        }
    };
    debug!(options, "created cm_id {:#x}", id.key());
    let key = id.key();
    let result = if options.server {
        server::Server::new(&options, channel, id).run()
    } else {
        client::Client::new(&options, channel, id).run()
    };
    debug!(options, "destroy cm_id {key:#x}");
    exit_code(result.err().unwrap_or(0))
}
