//! `weft nvme target`: files and block devices as namespaces of an NVMe target over RDMA.
//!
//! One thread drives all connections (`server`): it feeds the state machines of `weft-nvme`, and each `session` carries out
//! what they ask for on its queue pair. Threads of their own read and write the files (`execute`, on the store of `weft-rdma-service`).

mod args;
mod config;
mod execute;
mod server;
mod session;

use anyhow::{Result, ensure};
use weft_client::Which;

use crate::limits::CONNECTIONS_MAX;
pub use args::TargetArgs;
use server::Server;

/// Runs the target until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot start.
pub fn run(args: &TargetArgs) -> Result<()> {
    ensure!((1..=CONNECTIONS_MAX).contains(&args.connections), "--connections: at least 1, at most {CONNECTIONS_MAX}");
    // Before any thread starts, so that none of them takes the signals.
    let signals = weft_rdma_service::ending_signals()?;
    let setup = config::setup(args)?;
    let which = if args.system { Which::System } else { Which::Ours };
    Server::listen(which, args, setup, signals)?.run()
}
