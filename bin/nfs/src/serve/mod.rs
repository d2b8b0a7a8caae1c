//! `weft nfs serve`: RPC over RDMA for an exported directory, or in front of an NFS server over TCP.
//!
//! One thread drives all connections (`server`); each `session` is a responder with its queue pair, and never blocks.
//! Calls for an exported directory are executed by threads of their own; `backend` carries the others to the NFS server.

mod args;
mod backend;
mod end;
mod nfs_conf;
mod server;
mod service;
mod session;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use weft_client::Which;

use crate::export::{Export, ExportOptions, MountPort, start_workers};
use crate::limits::CONNECTIONS_MAX;
pub use args::ServeArgs;
use server::Server;
use service::Service;

/// Runs the server until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot start.
pub fn run(args: &ServeArgs) -> Result<()> {
    ensure!((1..=CONNECTIONS_MAX).contains(&args.connections), "--connections: at least 1, at most {CONNECTIONS_MAX}");
    // Before any thread starts, so that none of them takes the signals.
    let signals = weft_rdma_service::ending_signals()?;
    let service = match (&args.export, &args.backend) {
        (Some(dir), _) => export(args, dir)?,
        (None, Some(backend)) => Service::Backend(resolve(backend)?),
        (None, None) => anyhow::bail!("--export DIR or --backend HOST:PORT is required"),
    };
    let which = if args.system { Which::System } else { Which::Ours };
    let port = args.port.map_or_else(|| nfs_conf::port(args.config.as_deref()), Ok)?;
    Server::listen(which, args, port, service, signals)?.run()
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
    Ok(Service::Export(start_workers(&export).context("cannot start the threads that execute calls")?))
}

fn resolve(backend: &str) -> Result<SocketAddr> {
    let hint = || format!("--backend {backend}: not HOST:PORT, such as 192.0.2.1:2049");
    backend.to_socket_addrs().with_context(hint)?.next().with_context(hint)
}
