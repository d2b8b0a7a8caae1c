//! `weft up` and `weft down`: bring up an InfiniBand fabric in this network namespace, and take it down.

use std::process::ExitCode;

use clap::Args;
use weft_fabric::topology::{LinkState, Topology};
use weft_ipc::fabric::{FabricRequest, FabricStatus, pack};
use weft_ipc::{Client, ConnectError, ConnectOptions, RequestError, Spawn};

use super::topology_source::SourceArgs;
use crate::outln;

/// Options of `weft up`.
#[derive(Args, Debug)]
pub struct UpArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Take down the fabric that is up, if there is one
    #[arg(long)]
    replace: bool,
    /// The same seed loses the same packets on bad cables [default: by lot]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    seed: u64,
}

/// Brings one up.
pub fn run(args: &UpArgs) -> ExitCode {
    finish("weft up", up(args))
}

/// Takes it down.
pub fn down() -> ExitCode {
    let down = |client: &mut Client| client.fabric(FabricRequest::Down).map(drop);
    finish("weft down", session(Spawn::Never).and_then(|mut client| down(&mut client).map_err(spell)))
}

fn up(args: &UpArgs) -> Result<(), String> {
    let topology = args.source.load()?;
    let bytes = pack(&topology).map_err(|error| error.to_string())?;
    let mut client = session(Spawn::IfNeeded)?;
    if args.replace && client.fabric_status().map_err(spell)?.is_some() {
        client.fabric(FabricRequest::Down).map_err(spell)?;
    }
    client.fabric_up(&bytes, args.seed).map_err(spell)?;
    let status = client.fabric_status().map_err(spell)?.unwrap_or_default();
    outln!("{}", summary(&status));
    if let Some(host) = first_host(&topology) {
        outln!("No subnet manager runs yet, so links stay in state Init. To start one on a host:");
        outln!("  weft run --host {host} -- opensm");
    }
    Ok(())
}

/// One line about a fabric.
pub fn summary(status: &FabricStatus) -> String {
    let mut text = format!("{}: {} hosts", status.title, status.hosts);
    if status.adapters != status.hosts {
        text += &format!(" with {} adapters", status.adapters);
    }
    text += &format!(", {} switches", status.switches);
    if status.routers > 0 {
        text += &format!(", {} routers", status.routers);
    }
    format!("{text}, {}", links(status))
}

/// Links by state: `1296 links (1290 active, 6 down)`.
pub fn links(status: &FabricStatus) -> String {
    let by_state = LinkState::ALL.iter().zip(status.links).filter(|(_, count)| *count > 0);
    let words: Vec<String> = by_state.map(|(state, count)| format!("{count} {}", state.word())).collect();
    let all: u32 = status.links.iter().sum();
    if words.is_empty() { "no links".to_owned() } else { format!("{all} links ({})", words.join(", ")) }
}

fn first_host(topology: &Topology) -> Option<&str> {
    topology.nodes.iter().map(|node| node.host.as_str()).find(|host| !host.is_empty())
}

/// A session for commands about the fabric, whichever host this program runs as.
pub fn session(spawn: Spawn) -> Result<Client, String> {
    crate::rdma_dir::announce_daemon();
    let options =
        ConnectOptions { program: "weft".to_owned(), host: String::new(), spawn, ..ConnectOptions::default() };
    Client::connect(&options).map_err(|error| match error {
        ConnectError::NotRunning => "no fabric is up in this network namespace: bring one up with `weft up`".to_owned(),
        error => error.to_string(),
    })
}

/// What a person is told of a request that failed.
pub fn spell(error: RequestError) -> String {
    match error {
        RequestError::Refused(refusal) if !refusal.text.is_empty() => refusal.text,
        error => error.to_string(),
    }
}

/// Success, or the message with the command's name.
pub fn finish(name: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{name}: {message}");
            ExitCode::FAILURE
        }
    }
}
