//! Options of `weft nfs relay`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::limits::{CONNECTIONS, CREDITS};
use crate::server_name::ServerName;

/// Options of `weft nfs relay`.
#[derive(Args, Debug)]
pub struct RelayArgs {
    /// NFS server over RDMA; the port is 20049 by default
    #[arg(value_name = "HOST[:PORT]")]
    pub server: ServerName,
    /// TCP address to listen on; port 0 is any free one, and the first line of output tells which
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Calls that the server is sent at a time on one connection
    #[arg(long, value_name = "N", default_value_t = CREDITS, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub credits: u32,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS)]
    pub connections: usize,
    /// End when this directory is unmounted again
    #[arg(long, value_name = "DIR", hide = true)]
    pub while_mounted: Option<PathBuf>,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    pub system: bool,
}
