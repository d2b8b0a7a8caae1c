//! The daemon takes the kernel's role: one in each network namespace keeps the state that must be unique there. It
//! knows the devices and follows their interfaces, gives each process its part of the QP number space and the sockets
//! on which its packets arrive, and sends changes to all subscribers. Libraries start it when they need it; it exits
//! when unused.
//!
//! Path of a message: `server` (sockets) → `broker` (decisions, no I/O: `hello`, `dispatch`, then a feature's file) →
//! `host` (operations) → `pool` (sockets of the port). Path of an address: `routes` → `rtnl` → `netdev` → `devices` →
//! `gid_table`. Path of a connection: `broker` → `cm_service` (the state machines of weft-cm) → `server/cm` → `gsi`
//! (datagrams of queue pair 1), `resolve` (routes and neighbours), the sockets of event channels.

#![forbid(unsafe_code)]

pub mod anchor;
pub mod broker;
pub mod capture_sockets;
pub mod cm_service;
pub mod connection;
pub mod devices;
pub mod ethernet;
pub mod fabric;
pub mod fuzzing;
pub mod gid_table;
pub mod gsi;
pub mod gsi_faults;
pub mod hops;
pub mod host;
pub mod host_networks;
pub mod ipoib;
pub mod ledgers;
pub mod left;
pub mod limits;
pub mod log;
pub mod netdev;
pub mod options;
pub mod pairs;
pub mod pool;
mod port_holders;
pub mod refusal;
pub mod resolve;
pub mod routes;
pub mod rtnl;
mod rtnl_changes;
mod rtnl_links;
mod rtnl_routes;
pub mod saved;
mod server;
pub mod slots;
mod standby;
pub mod umad;

pub use options::{LogTarget, Options};

/// Serves the programs of this network namespace until the daemon is unused or stopped. Returns immediately if another
/// daemon already serves them.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut log = log::Log::open(&options.log);
    match server::Server::new(options, log::Log::open(&options.log))? {
        Some(server) => {
            log.note(format_args!("serves, user {}", weft_sys::process::euid()));
            server.serve()
        }
        None => {
            log.note(format_args!("another weft daemon serves this network namespace already"));
            Ok(())
        }
    }
}
