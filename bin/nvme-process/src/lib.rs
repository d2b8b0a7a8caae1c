//! `weft nvme`: NVMe over RDMA, made of librdmacm and verbs alone, so that it also works on real adapters.
//!
//! - `target` serves files and block devices as namespaces;
//! - `discover` asks a target for its subsystems;
//! - `connect` holds a controller in the background, and offers its namespaces as NBD exports; `list` and `disconnect` find
//!   such processes in the `registry`; `transfer` reads, writes and compares blocks;
//! - `host` is the host's end of a controller, for all of these;
//! - `identifier` makes UUIDs that are the same at each start;
//! - `limits` has the bounds on everything that a peer may ask for.
#![forbid(unsafe_code)]

mod connect;
mod disconnect;
mod discover;
mod failure;
mod host;
mod identifier;
mod identity;
mod limits;
mod list;
mod registry;
mod target;
mod transfer;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use connect::ConnectArgs;
use disconnect::DisconnectArgs;
use discover::DiscoverArgs;
use list::ListArgs;
use target::TargetArgs;
use transfer::{Direction, TransferArgs};
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
    /// Connect to a subsystem, and offer its namespaces to programs of this machine
    ///
    /// A process in the background holds the controller until `weft nvme disconnect`. Each namespace is an export of NBD (network
    /// block device) on a Unix socket; `weft nvme list` prints its URI, which qemu-img, nbdcopy, fio and others take. Losses of the
    /// connection are repaired: requests wait meanwhile.
    Connect(ConnectArgs),
    /// List the connected namespaces, as nvme-cli does, with their URIs
    List(ListArgs),
    /// Disconnect from a subsystem
    Disconnect(DisconnectArgs),
    /// Read blocks of a connected namespace, as nvme-cli does
    Read(TransferArgs),
    /// Write blocks of a connected namespace, as nvme-cli does
    Write(TransferArgs),
    /// Compare blocks of a connected namespace with a file, as nvme-cli does
    Compare(TransferArgs),
}

/// Runs the command.
pub fn run(args: &NvmeArgs) -> ExitCode {
    let (name, done) = match &args.command {
        NvmeCommand::Target(args) => ("target", target::run(args)),
        NvmeCommand::Discover(args) => ("discover", discover::run(args)),
        NvmeCommand::Connect(args) => ("connect", connect::run(args)),
        NvmeCommand::List(args) => ("list", list::run(args)),
        NvmeCommand::Disconnect(args) => ("disconnect", disconnect::run(args)),
        NvmeCommand::Read(args) => ("read", transfer::run(args, Direction::Read)),
        NvmeCommand::Write(args) => ("write", transfer::run(args, Direction::Write)),
        NvmeCommand::Compare(args) => ("compare", transfer::run(args, Direction::Compare)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("weft nvme {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
