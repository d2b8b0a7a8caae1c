//! `weft nfs`: NFS over RDMA, made of librdmacm and verbs alone, so that it also works on real adapters.
//!
//! - [`serve`] is the server: RPC over RDMA for an exported directory, or in front of an NFS server over TCP;
//! - `rdma` drives a queue pair for either end of a connection;
//! - `export` is the embedded NFSv3 server;
//! - `tcp` is ONC RPC over TCP.
#![forbid(unsafe_code)]

mod export;
mod limits;
mod rdma;
pub mod serve;
mod tcp;

use std::process::ExitCode;

use clap::{Args, Subcommand};
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
}

/// Runs the command.
pub fn run(args: &NfsArgs) -> ExitCode {
    let NfsCommand::Serve(serve) = &args.command;
    match serve::run(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("weft nfs serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}
