//! `weft nvme connect`: a process in the background that holds a controller, and offers its namespaces to programs of this
//! machine as NBD exports.
//!
//! `disks` has the namespaces as NBD's disks, `translate` the words of both; the registry knows the process.

mod args;
mod disks;
mod translate;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use weft_client::Which;
use weft_nvme::wire::nqn_error;
use weft_nvme::{HostConfig, HostName};
use weft_rdma_service::detached;
use weft_rdma_service::nbd::{Bridge, NbdServer};
use weft_tool::outln;

pub use args::ConnectArgs;

use crate::host::{Driver, Target};
use crate::identity;
use crate::registry::{Claim, ControllerState, Registry};
use disks::Namespaces;

/// Connects, and leaves a process in the background.
///
/// # Errors
/// The target cannot be reached, or refuses.
pub fn run(args: &ConnectArgs) -> Result<()> {
    if let Some(error) = nqn_error(&args.nqn) {
        bail!("--nqn `{}`: not an NQN: {error}", args.nqn);
    }
    let host = identity::host(args.host_nqn.as_deref(), args.host_id.as_deref())?;
    if args.foreground {
        return serve(args, &host);
    }
    let mut command = detached::again()?;
    command.args(args.words());
    let line = detached::first_line(command)?;
    if line.is_empty() {
        // The process printed why.
        std::process::exit(1);
    }
    outln!("{line}");
    Ok(())
}

/// Returns the target that the options name.
pub fn target(args: &ConnectArgs) -> Target {
    let which = if args.system { Which::System } else { Which::Ours };
    Target { which, address: args.address.clone(), service: args.service }
}

fn config(args: &ConnectArgs, host: &HostName) -> HostConfig {
    let seconds = |count: u32| Duration::from_secs(count.into());
    HostConfig {
        host: host.clone(),
        subsystem: args.nqn.clone(),
        io_queues: args.io_queues,
        queue_entries: args.queue_size,
        keep_alive: seconds(args.keep_alive),
        reconnect_delay: seconds(args.reconnect_delay),
        controller_loss: u32::try_from(args.controller_loss).ok().map(seconds),
    }
}

/// Holds the controller until it ends, or a signal comes.
fn serve(args: &ConnectArgs, host: &HostName) -> Result<()> {
    if args.detached {
        detached::begin()?;
    }
    // Before any thread starts, so that none of them takes the signals.
    let signals = weft_rdma_service::ending_signals()?;
    let mut claim = claim(args, host)?;
    let at = format!("{}, port {}", args.address, args.service);
    let mut driver = Driver::new(&target(args), config(args, host)).with_context(|| at.clone())?;
    driver.wait_ready().with_context(|| at.clone())?;
    translate::update(claim.state(), &driver);
    let count = claim.state().namespaces.len();
    let socket = claim.socket();
    let server = NbdServer::bind(&socket, translate::exports(&driver))
        .with_context(|| format!("{}: the socket for NBD", socket.display()))?;
    claim.save()?;
    if count == 0 {
        weft_tool::errln!("weft nvme connect: the subsystem has no namespaces that this host can use");
    }
    outln!("device: {}", claim.state().device);
    if args.detached {
        detached::ready()?;
    }
    Bridge::new(Namespaces::new(driver, claim), server, signals)?.run()
}

/// Takes a device name.
fn claim(args: &ConnectArgs, host: &HostName) -> Result<Claim> {
    let registry = Registry::open()?;
    let state = ControllerState::new(
        (&args.address, args.service, args.system),
        &args.nqn,
        (&host.nqn, &crate::identifier::uuid_text(&host.id)),
    );
    registry.claim(state, args.duplicate_connect)
}
