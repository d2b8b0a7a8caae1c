//! `weft rds`: Reliable Datagram Sockets, made of librdmacm and verbs alone, so that it also works on real adapters.
//!
//! - `service` is a process in the background that has the connections of a user's programs to other hosts;
//! - `service_client` is a program's end of its Unix socket;
//! - `start` starts and ends it; `ping` and `info` do as rds-ping and rds-info.
#![forbid(unsafe_code)]

mod info;
mod limits;
mod ping;
mod service;
mod service_client;
mod start;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use info::InfoArgs;
use ping::PingArgs;
use start::StartArgs;
use weft_tool::errln;

/// Options of `weft rds`.
#[derive(Args, Debug)]
pub struct RdsArgs {
    /// Command to run
    #[command(subcommand)]
    command: RdsCommand,
}

#[derive(Subcommand, Debug)]
enum RdsCommand {
    /// Start the service, which has the connections of this user's programs to other hosts
    ///
    /// Programs of `weft run --rds` start it on demand; it then ends a minute after the last of them. This command starts one
    /// that stays until `weft rds stop`, and answers pings meanwhile.
    Start(StartArgs),
    /// End the service; the sockets of running programs break
    Stop,
    /// Send pings to a host, as rds-ping does
    Ping(PingArgs),
    /// List sockets, connections, queues and counters, as rds-info does
    Info(InfoArgs),
}

/// Runs the command.
pub fn run(args: &RdsArgs) -> ExitCode {
    let (name, done) = match &args.command {
        RdsCommand::Start(args) => ("start", start::run(args)),
        RdsCommand::Stop => ("stop", start::stop()),
        RdsCommand::Ping(args) => ("ping", ping::run(args)),
        RdsCommand::Info(args) => ("info", info::run(args)),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            errln!("weft rds {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
