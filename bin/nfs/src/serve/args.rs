//! Options of `weft nfs serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::limits::{CONNECTIONS, CREDITS};

/// Options of `weft nfs serve`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("service").required(true).args(["export", "backend"]))]
pub struct ServeArgs {
    /// Serve this directory by NFSv3; clients mount it as SERVER:/
    ///
    /// As root, files are accessed as the users that clients claim to be, and root as nobody. As an ordinary user, all
    /// accesses are that user's.
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// Carry RPC to this NFS server over TCP, of any version: one connection for each client's
    #[arg(long, value_name = "HOST:PORT")]
    pub backend: Option<String>,
    /// Address to listen on [default: all]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Port of NFS over RDMA [default: that of nfs.conf, or 20049]
    #[arg(long)]
    pub port: Option<u16>,
    /// Configuration with `rdma-port` in its section `[nfsd]` [default: /etc/nfs.conf and /etc/nfs.conf.d]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// TCP port of MOUNT, which clients ask for the exported directory; 0: none
    #[arg(long, value_name = "PORT", default_value_t = 20048, conflicts_with = "backend")]
    pub mount_port: u16,
    /// Refuse all changes
    #[arg(long, conflicts_with = "backend")]
    pub read_only: bool,
    /// Let the clients' root be root here
    #[arg(long, conflicts_with = "backend")]
    pub no_root_squash: bool,
    /// Calls that a client may have unanswered
    #[arg(long, value_name = "N", default_value_t = CREDITS, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub credits: u32,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS)]
    pub connections: usize,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    pub system: bool,
}
