//! `weft srp`: the SCSI RDMA Protocol, made of librdmacm and verbs alone, so that it also works on real adapters.
//!
//! - `target` serves files and block devices as disks;
//! - `connect` is logged in to a target in the background, and offers its disks as NBD exports; `list` and `disconnect` find
//!   such processes in the `registry`;
//! - `initiator` is the initiator's end of a channel;
//! - `place` names a target's place, by IP address or by service identifier;
//! - `hex` reads numbers of options;
//! - `limits` has the bounds on everything that a peer may ask for.
#![forbid(unsafe_code)]

mod connect;
mod disconnect;
mod hex;
mod initiator;
mod limits;
mod list;
mod place;
mod registry;
mod target;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use connect::ConnectArgs;
use disconnect::DisconnectArgs;
use list::ListArgs;
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
    /// Linux's initiator (the kernel's module ib_srp) logs in by the RDMA connection manager, or by a service identifier on
    /// InfiniBand: the target prints the line to write to /sys/class/infiniband_srp/srp-DEVICE-PORT/add_target. On a fabric
    /// ibsrpdm and srp_daemon find the target.
    Target(TargetArgs),
    /// Log in to a target, and offer its disks to programs of this machine
    ///
    /// A process in the background holds the login until `weft srp disconnect`. Each disk is an export of NBD (network block
    /// device) on a Unix socket; `weft srp list` prints its URI, which qemu-img, nbdcopy, fio and others take. Losses of the
    /// connection are repaired: requests wait meanwhile.
    ///
    /// LOGIN is the line that the target prints, `ibsrpdm -c` prints, or that is written to ib_srp's add_target; options may
    /// name its parts.
    Connect(ConnectArgs),
    /// List the disks of all logins with their URIs
    List(ListArgs),
    /// End a login
    Disconnect(DisconnectArgs),
}

/// Runs the command.
pub fn run(args: &SrpArgs) -> ExitCode {
    let (name, done) = match &args.command {
        SrpCommand::Target(args) => ("target", target::run(args)),
        SrpCommand::Connect(args) => ("connect", connect::run(args)),
        SrpCommand::List(args) => ("list", list::run(args)),
        SrpCommand::Disconnect(args) => ("disconnect", disconnect::run(args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("weft srp {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
