//! `weft ui`: the fabric, or the machine, live in the browser.
//!
//! - `poller` asks the daemon and the subnet managers, for all pages together;
//! - `model` is the state that pages show, pure and bounded;
//! - `hub` hands its events to the pages;
//! - `server` is HTTP: access rules, the stream of events, actions;
//! - `page` has the files that the browser loads.

mod hub;
mod limits;
mod model;
mod page;
mod poller;
mod server;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use clap::Args;
use weft_tool::{errln, errno, outln};

use hub::Hub;
use limits::ACTIONS_QUEUED_MAX;
use model::Model;
use poller::{Command, FabricPoller, ManagersPoller, Poller};
use server::access::Gate;
use server::{App, router, serve};

/// Options of `weft ui`.
#[derive(Args, Debug)]
pub struct UiArgs {
    /// Listen at this address; port 0 is any free port
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Show everything and change nothing
    #[arg(long)]
    read_only: bool,
}

/// Runs the command.
pub fn run(args: &UiArgs) -> ExitCode {
    match execute(args) {
        Ok(never) => match never {},
        Err(message) => {
            errln!("weft ui: {message}");
            ExitCode::FAILURE
        }
    }
}

fn execute(args: &UiArgs) -> Result<Infallible, String> {
    let failed = |error: std::io::Error| {
        format!("cannot listen at {}: {}; --listen ADDRESS:PORT names another", args.listen, errno::text(&error))
    };
    let listener = TcpListener::bind(args.listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let gate = Arc::new(Gate::new(address, [weft_sys::random::u64(), weft_sys::random::u64()]));
    let hub = Arc::new(Hub::new(Model::new(args.read_only)));
    let daemon = start("daemon", FabricPoller::new(Arc::clone(&hub)))?;
    let managers = start("managers", ManagersPoller::new(Arc::clone(&hub)))?;
    outln!("{}", gate.url());
    let router = router(App { gate, hub, daemon, managers });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(serve(listener, router)).map_err(failed)
}

/// Starts a poller's thread.
fn start(name: &str, poller: impl Poller + Send + 'static) -> Result<SyncSender<Command>, String> {
    let (sender, commands) = sync_channel(ACTIONS_QUEUED_MAX);
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || poller::run(poller, &commands)).map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(sender)
}
