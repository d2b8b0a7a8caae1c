//! The part of pingall that runs as a host (`weft pingall-host`): answers the others, and pings them.

use std::io::BufRead;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use clap::Args;
use weft_ipc::HOST_VARIABLE;
use weft_sys::host_namespace::host_name;
use weft_verbs_tools::ud_echo::{self, Address, Server};

use super::wire::{Method, Place, Said, parse_peers};
use super::{icmp, lids};
use crate::outln;

/// Options of `weft pingall-host`: none.
#[derive(Args, Debug)]
pub struct HostArgs {}

/// Runs the program: it says where it is, waits for its peers' places in a line, pings them, and answers until its
/// standard input ends.
pub fn run(_: &HostArgs) -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            outln!("{}", Said::Failed(why).line());
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), String> {
    let place = Place { port_guid: lids::own_port_guid()?, server: serve()?, ip: own_ip()? };
    outln!("{}", Said::Ready(place).line());
    let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
    let Some(line) = lines.next() else { return Ok(()) };
    let peers = parse_peers(&line).ok_or("the list of peers is malformed")?;
    for method in Method::ALL {
        // A host that cannot ping at all fails with every peer.
        let outcomes = ping(method, &peers).unwrap_or_else(|why| vec![Err(why); peers.len()]);
        let failed = outcomes.into_iter().enumerate().filter_map(|(number, outcome)| Some((number, outcome.err()?)));
        outln!("{}", Said::Pinged(method, failed.collect()).line());
    }
    lines.for_each(drop);
    Ok(())
}

fn ping(method: Method, peers: &[Place]) -> Result<Vec<Result<(), String>>, String> {
    match method {
        Method::Lids => lids::ask_all(peers),
        Method::Verbs => ud_echo::ask_all(&peers.iter().map(|peer| peer.server).collect::<Vec<_>>()),
        Method::Ipoib if peers.iter().any(|peer| peer.ip.is_some()) => {
            icmp::ping_all(&peers.iter().map(|peer| peer.ip).collect::<Vec<_>>())
        }
        // No host has a network of its own: there is nothing to test.
        Method::Ipoib => Ok(vec![Ok(()); peers.len()]),
    }
}

/// Starts the server in a thread of its own, which ends with the process.
fn serve() -> Result<Address, String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || match Server::open() {
        Ok(server) => {
            let _ = sender.send(Ok(server.address()));
            let _ = server.serve();
        }
        Err(why) => drop(sender.send(Err(why))),
    });
    receiver.recv().unwrap_or_else(|_| Err("the server's thread has ended".to_owned()))
}

/// The host's address over IPoIB, as its name is resolved. `None`: it has the machine's network.
fn own_ip() -> Result<Option<Ipv4Addr>, String> {
    let host = std::env::var(HOST_VARIABLE).unwrap_or_default();
    if host_name().map_err(|e| crate::errno::text(&e))? != host {
        return Ok(None);
    }
    let addresses =
        (host.as_str(), 0).to_socket_addrs().map_err(|e| format!("the name {host} is not resolved: {e}"))?;
    let v4 = addresses.filter_map(|address| match address {
        SocketAddr::V4(address) => Some(*address.ip()),
        SocketAddr::V6(_) => None,
    });
    let first = v4.into_iter().next();
    first.map(Some).ok_or_else(|| format!("the name {host} has no IPv4 address"))
}
