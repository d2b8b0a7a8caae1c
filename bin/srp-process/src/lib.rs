//! `weft srp`: the SCSI RDMA Protocol, made of librdmacm and verbs alone, so that it also works on real adapters.
//!
//! - `target` serves files and block devices as disks;
//! - `limits` has the bounds on everything that a peer may ask for.
#![forbid(unsafe_code)]

mod limits;
mod target;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use target::TargetArgs;
use weft_tool::errln;

/// Options of `weft srp`.
#[derive(Args, Debug)]
pub struct SrpArgs {
    /// Command to run
    #[command(subcommand)]
    command: SrpCommand,
}

#[derive(Subcommand, Debug)]
enum SrpCommand {
    /// Serve files and block devices as SCSI disks over RDMA
    ///
    /// Linux's initiator (the kernel's module ib_srp) logs in by the RDMA connection manager: the target prints the line to
    /// write to /sys/class/infiniband_srp/srp-DEVICE-PORT/add_target.
    Target(TargetArgs),
}

/// Runs the command.
pub fn run(args: &SrpArgs) -> ExitCode {
    let SrpCommand::Target(args) = &args.command;
    match target::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("weft srp target: {error:#}");
            ExitCode::FAILURE
        }
    }
}
