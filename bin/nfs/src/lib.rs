//! `weft nfs`: NFS over RDMA, made of librdmacm and verbs alone, so that it also works on real adapters.
//!
//! - [`serve`] is the server: RPC over RDMA for an exported directory, or in front of an NFS server over TCP;
//! - [`relay`] carries RPC of clients over TCP to a server over RDMA;
//! - [`mount`] mounts a server's directory: `fs` is the FUSE file system, `client` its NFSv3 client;
//! - `caller` is the client's end of a connection;
//! - `export` is the embedded NFSv3 server;
//! - `tcp` is ONC RPC over TCP, `protocol` what all ends need to know of RPC and NFSv3.
#![forbid(unsafe_code)]

mod caller;
mod client;
mod export;
mod fs;
mod limits;
pub mod mount;
mod mount_table;
mod protocol;
pub mod relay;
pub mod serve;
mod server_name;
mod tcp;

use std::process::ExitCode;

use clap::{Args, Subcommand};
#[doc(hidden)]
pub use client::fuzzing;
pub use mount::mount_over_rdma;
use weft_tool::errln;

/// Options of `weft nfs`.
#[derive(Args, Debug)]
pub struct NfsArgs {
    /// Command to run
    #[command(subcommand)]
    command: NfsCommand,
}

#[derive(Subcommand, Debug)]
enum NfsCommand {
    /// Serve a directory, or an NFS server that speaks TCP, to NFS clients over RDMA
    ///
    /// With --export the command is an NFSv3 server. A client mounts it, as root, by
    /// `mount -t nfs -o rdma,port=20049,vers=3,mountport=20048,mountproto=tcp,nolock SERVER:/ DIR`.
    ///
    /// With --backend it carries RPC between clients over RDMA and an NFS server (any version) over TCP.
    Serve(serve::ServeArgs),
    /// Carry NFS of this machine's clients over TCP to a server over RDMA
    ///
    /// For clients without RDMA, such as a kernel without the module for it: the client mounts the relay's address. Each
    /// connection over TCP has a connection over RDMA of its own. All versions of NFS pass, with their callbacks.
    Relay(relay::RelayArgs),
    /// Mount a directory of an NFS server over RDMA
    ///
    /// With an NFS client in the kernel, root mounts by that, through a relay. All others mount by FUSE and this command's
    /// own NFSv3 client, which stays in the background until the directory is unmounted: by `weft nfs umount`, umount(8)
    /// or `fusermount3 -u`.
    Mount(mount::MountArgs),
    /// Unmount a directory
    Umount(mount::UmountArgs),
}

/// Runs the command.
pub fn run(args: &NfsArgs) -> ExitCode {
    let (name, done) = match &args.command {
        NfsCommand::Serve(args) => ("serve", serve::run(args)),
        NfsCommand::Relay(args) => ("relay", relay::run(args)),
        NfsCommand::Mount(args) => ("mount", mount::run(args)),
        NfsCommand::Umount(args) => ("umount", mount::unmount(args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("weft nfs {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
