//! `weft nfs serve`: RPC over RDMA for an exported directory, or in front of an NFS server over TCP.
//!
//! One thread drives all connections (`server`); each `session` is a responder with its queue pair, and never blocks.
//! Calls for an exported directory are executed by threads of their own; `backend` carries the others to the NFS server.

mod backend;
mod end;
mod server;
mod session;
mod statistics;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::{ArgGroup, Args};
use weft_client::Which;
use weft_rpcrdma::limits::NFS_PORT;

use crate::export::{Export, ExportOptions, MountPort, Workers};
use crate::limits::{CONNECTIONS, CONNECTIONS_MAX, CREDITS};
use server::Server;

/// Options of `weft nfs serve`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("service").required(true).args(["export", "backend"]))]
pub struct ServeArgs {
    /// Serve this directory by NFSv3; clients mount it as SERVER:/
    ///
    /// As root, files are accessed as the users that clients claim to be, and root as nobody. As an ordinary user, all
    /// accesses are that user's.
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Carry RPC to this NFS server over TCP, of any version: one connection for each client's
    #[arg(long, value_name = "HOST:PORT")]
    backend: Option<String>,
    /// Address to listen on [default: all]
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    /// Port of NFS over RDMA
    #[arg(long, default_value_t = NFS_PORT)]
    port: u16,
    /// TCP port of MOUNT, which clients ask for the exported directory; 0: none
    #[arg(long, value_name = "PORT", default_value_t = 20048, conflicts_with = "backend")]
    mount_port: u16,
    /// Refuse all changes
    #[arg(long, conflicts_with = "backend")]
    read_only: bool,
    /// Let the clients' root be root here
    #[arg(long, conflicts_with = "backend")]
    no_root_squash: bool,
    /// Calls that a client may have unanswered
    #[arg(long, value_name = "N", default_value_t = CREDITS, value_parser = clap::value_parser!(u32).range(1..=1024))]
    credits: u32,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS)]
    connections: usize,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    system: bool,
}

/// Service behind the connections.
#[derive(Debug)]
enum Service {
    /// An exported directory.
    Export(Workers),
    /// An NFS server over TCP.
    Backend(SocketAddr),
}

/// Runs the server until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot start.
pub fn run(args: &ServeArgs) -> Result<()> {
    ensure!((1..=CONNECTIONS_MAX).contains(&args.connections), "--connections: at least 1, at most {CONNECTIONS_MAX}");
    // Before any thread starts, so that none of them takes the signals.
    let signals = server::signals()?;
    let service = match (&args.export, &args.backend) {
        (Some(dir), _) => export(args, dir)?,
        (None, Some(backend)) => Service::Backend(resolve(backend)?),
        (None, None) => anyhow::bail!("--export DIR or --backend HOST:PORT is required"),
    };
    let which = if args.system { Which::System } else { Which::Ours };
    Server::listen(which, args, service, signals)?.run()
}

fn export(args: &ServeArgs, dir: &std::path::Path) -> Result<Service> {
    let options = ExportOptions { read_only: args.read_only, root_squash: !args.no_root_squash };
    let export = Export::open(dir, options).with_context(|| format!("--export {}", dir.display()))?;
    let export = Arc::new(export);
    if args.mount_port != 0 {
        let any = std::net::Ipv6Addr::UNSPECIFIED.into();
        let bind = |ip: IpAddr| MountPort::bind(SocketAddr::from((ip, args.mount_port)));
        let port = match args.bind {
            Some(ip) => bind(ip),
            // Where IPv6 is off, there is IPv4 alone.
            None => bind(any).or_else(|_| bind(std::net::Ipv4Addr::UNSPECIFIED.into())),
        };
        let hint = "another server of MOUNT (rpc.mountd) may have it; choose one with --mount-port";
        port.with_context(|| format!("TCP port {}: {hint}", args.mount_port))?.serve(export.clone());
    }
    Ok(Service::Export(Workers::start(&export).context("cannot start the threads that execute calls")?))
}

fn resolve(backend: &str) -> Result<SocketAddr> {
    let hint = || format!("--backend {backend}: not HOST:PORT, such as 192.0.2.1:2049");
    backend.to_socket_addrs().with_context(hint)?.next().with_context(hint)
}
