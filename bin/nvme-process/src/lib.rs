//! `weft nvme`: NVMe over RDMA, made of librdmacm and verbs alone, so that it also works on real adapters.
//!
//! - `target` serves files and block devices as namespaces;
//! - `discover` asks a target for its subsystems;
//! - `identifier` makes UUIDs that are the same at each start;
//! - `limits` has the bounds on everything that a peer may ask for.
#![forbid(unsafe_code)]

mod discover;
mod identifier;
mod limits;
mod target;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use discover::DiscoverArgs;
use target::TargetArgs;
use weft_tool::errln;

/// Options of `weft nvme`.
#[derive(Args, Debug)]
pub struct NvmeArgs {
    /// Command to run
    #[command(subcommand)]
    command: NvmeCommand,
}

#[derive(Subcommand, Debug)]
enum NvmeCommand {
    /// Serve files and block devices as NVMe namespaces over RDMA
    ///
    /// A host connects by `nvme connect -t rdma -a ADDRESS -s 4420 -n NQN` (nvme-cli, and the kernel's module nvme-rdma).
    /// `nvme discover -t rdma -a ADDRESS -s 4420` lists the subsystems.
    ///
    /// With --config the subsystems are those of a file in nvmetcli's format; otherwise there is one subsystem, with the
    /// files of --namespace.
    Target(TargetArgs),
    /// List the subsystems that a target offers, as nvme-cli does
    Discover(DiscoverArgs),
}

/// Runs the command.
pub fn run(args: &NvmeArgs) -> ExitCode {
    let (name, done) = match &args.command {
        NvmeCommand::Target(args) => ("target", target::run(args)),
        NvmeCommand::Discover(args) => ("discover", discover::run(args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("weft nvme {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
