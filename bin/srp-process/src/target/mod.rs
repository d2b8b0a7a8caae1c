//! `weft srp target`: files and block devices as disks of an SRP target.
//!
//! One thread drives all connections (`server`): it feeds the state machine of `weft-srp`, and each `session` carries out
//! its actions on its queue pair. Threads of their own read and write the files (`execute`). On an InfiniBand fabric the
//! target is also a service (`infiniband`), which the device management agent of each port announces (`agent`).

mod agent;
mod args;
mod execute;
mod infiniband;
mod server;
mod session;
mod setup;

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
    let setup = setup::setup(args)?;
    let which = if args.system { Which::System } else { Which::Ours };
    Server::listen(which, args, setup, signals)?.run()
}
