//! `weft nfs relay`: carries RPC between clients over TCP on this machine and an NFS server over RDMA.
//!
//! One thread drives all connections (`server`). Each `session` is a client's connection over TCP with a connection over
//! RDMA of its own: if one breaks, the other ends, and the client repeats its calls on the next one.

mod args;
mod server;
mod session;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use weft_rdma_service::detached;
use weft_tool::outln;

use crate::limits::MOUNTED_WITHIN;
use crate::mount_table;
pub use args::RelayArgs;
use server::Relay;

/// Runs the relay until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot start.
pub fn run(args: &RelayArgs) -> Result<()> {
    if args.while_mounted.is_some() {
        detached::begin()?;
    }
    let signals = weft_rdma_service::ending_signals()?;
    let relay = Relay::listen(args, signals)?;
    outln!("weft nfs relay: listening on {} for {}", relay.address()?, args.server);
    if let Some(directory) = args.while_mounted.clone() {
        detached::ready()?;
        std::thread::Builder::new().name("nfs-mount".to_owned()).spawn(move || end_with(&directory))?;
    }
    relay.run()
}

/// Ends the process after a directory was mounted and unmounted again, or was not mounted in time.
fn end_with(directory: &Path) {
    let begun = Instant::now();
    let mut was_mounted = false;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let is_mounted = mount_table::find(directory).is_some_and(|mount| mount.kind.starts_with("nfs"));
        if !is_mounted && (was_mounted || begun.elapsed() > MOUNTED_WITHIN) {
            std::process::exit(0);
        }
        was_mounted |= is_mounted;
    }
}
