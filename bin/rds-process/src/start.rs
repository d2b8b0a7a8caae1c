//! `weft rds start` and `weft rds stop`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use weft_client::Which;
use weft_rdma_service::detached;
use weft_tool::outln;

use crate::service::{self, Lifetime};
use crate::service_client::ServiceClient;

/// Options of `weft rds start`.
#[derive(Args, Clone, Debug)]
pub struct StartArgs {
    /// Use the system's libraries, for real adapters
    #[arg(long)]
    system: bool,
    /// Stay in the foreground, and print what happens
    #[arg(long)]
    foreground: bool,
    /// End a minute after the last program
    #[arg(long, hide = true)]
    on_demand: bool,
    /// The process in the background
    #[arg(long, hide = true)]
    detached: bool,
}

/// Starts the service, unless one runs.
///
/// # Errors
/// There is no RDMA device, or the port is in use.
pub fn run(args: &StartArgs) -> Result<ExitCode> {
    if args.foreground || args.detached {
        return serve(args).map(|()| ExitCode::SUCCESS);
    }
    let mut command = detached::again()?;
    command.args(["rds", "start", "--detached"]);
    command.args(args.system.then_some("--system")).args(args.on_demand.then_some("--on-demand"));
    // The service itself uses no RDS sockets.
    command.env_remove("LD_PRELOAD");
    let line = detached::first_line(command)?;
    if line.is_empty() {
        // The process printed why.
        return Ok(ExitCode::FAILURE);
    }
    if !args.on_demand {
        outln!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(args: &StartArgs) -> Result<()> {
    if args.detached {
        detached::begin()?;
    }
    // Before any thread starts, so that none of them takes the signals.
    let signals = weft_rdma_service::ending_signals()?;
    let which = if args.system { Which::System } else { Which::Ours };
    let lifetime = if args.on_demand { Lifetime::OnDemand } else { Lifetime::UntilStopped };
    let Some(server) = service::Server::start(which, lifetime, signals)? else {
        outln!("the RDS service runs already");
        return Ok(());
    };
    outln!("the RDS service listens on port {}", weft_rds::wire::RDS_PORT);
    if args.detached {
        detached::ready()?;
    }
    server.run()
}

/// Ends the service.
///
/// # Errors
/// There is none.
pub fn stop() -> Result<ExitCode> {
    let Some(client) = ServiceClient::connect()? else { bail!("there is no RDS service; nothing to stop") };
    client.stop()?;
    Ok(ExitCode::SUCCESS)
}
