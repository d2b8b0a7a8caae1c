//! `weft srp connect`: a process in the background that is logged in to a target, and offers its disks to programs of this
//! machine as NBD exports.
//!
//! `login` reads the login string, `identity` makes this initiator's identifier; `disks` has the target's disks as NBD's,
//! `translate` the words of both; the registry knows the process.

mod args;
mod disks;
mod identity;
mod login;
mod translate;

use std::time::Duration;

use anyhow::{Context, Result};
use weft_client::Which;
use weft_rdma_service::detached;
use weft_rdma_service::nbd::{Bridge, NbdServer};
use weft_srp::{InitiatorConfig, LossTimes};
use weft_tool::{errln, outln};

pub use args::ConnectArgs;

use crate::initiator::Driver;
use crate::place::TargetPlace;
use crate::registry::{Claim, Registry, SessionState};
use args::Named;
use disks::Disks;

/// Logs in, and leaves a process in the background.
///
/// # Errors
/// The target cannot be reached, or refuses.
pub fn run(args: &ConnectArgs) -> Result<()> {
    let named = args.named()?;
    let config = config(args, &named);
    config.loss.check()?;
    if args.foreground {
        return serve(args, &named, config);
    }
    let mut command = detached::again()?;
    command.args(args.words(&named));
    let line = detached::first_line(command)?;
    if line.is_empty() {
        // The process printed why.
        std::process::exit(1);
    }
    outln!("{line}");
    Ok(())
}

fn config(args: &ConnectArgs, named: &Named) -> InitiatorConfig {
    InitiatorConfig {
        initiator: identity::initiator(named.initiator_ext),
        target: identity::target(named.id_ext, named.ioc_guid),
        queue_size: named.queue_size,
        loss: LossTimes {
            reconnect_delay: args.reconnect_delay.time(),
            fast_io_fail: args.fast_io_fail_tmo.time(),
            dev_loss: args.dev_loss_tmo.time(),
        },
        command_timeout: Duration::from_secs(args.command_timeout.into()),
    }
}

/// Holds the login until it ends, or a signal comes.
fn serve(args: &ConnectArgs, named: &Named, config: InitiatorConfig) -> Result<()> {
    if args.detached {
        detached::begin()?;
    }
    // Before any thread starts, so that none of them takes the signals.
    let signals = weft_rdma_service::ending_signals()?;
    let mut claim = claim(args, named, &config)?;
    let at = format!("{}, as initiator {}", named.place, config.initiator);
    let which = if args.system { Which::System } else { Which::Ours };
    let mut driver = Driver::new(which, &named.place, config).with_context(|| at.clone())?;
    driver.wait_ready().with_context(|| at.clone())?;
    translate::update(claim.state(), &driver);
    let count = claim.state().disks.len();
    let socket = claim.socket();
    let server = NbdServer::bind(&socket, translate::exports(&driver))
        .with_context(|| format!("{}: the socket for NBD", socket.display()))?;
    claim.save()?;
    if count == 0 {
        errln!("weft srp connect: the target has no disks that this initiator can use");
    }
    outln!("device: {}", claim.state().device);
    if args.detached {
        detached::ready()?;
    }
    Bridge::new(Disks::new(driver, claim), server, signals)?.run()
}

/// Takes a device name.
fn claim(args: &ConnectArgs, named: &Named, config: &InitiatorConfig) -> Result<Claim> {
    let (port, service_id) = match &named.place {
        TargetPlace::Address { port, .. } => (Some(*port), None),
        TargetPlace::Service(service) => (None, Some(service.id)),
    };
    let state = SessionState {
        pid: std::process::id(),
        address: named.place.host(),
        port,
        service_id,
        system: args.system,
        target: config.target.to_string(),
        initiator: config.initiator.to_string(),
        ..SessionState::default()
    };
    Registry::open()?.claim(state, false)
}
