//! Options of `weft nvme target`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use weft_nvme::limits::{IO_QUEUES_MAX, NVME_RDMA_PORT};

use crate::limits::{CONNECTIONS, IO_QUEUES};

/// Options of `weft nvme target`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("source").required(true).args(["config", "namespaces"]))]
pub struct TargetArgs {
    /// Take subsystems, namespaces, hosts and ports from this file, as `nvmetcli save` writes it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve this file or block device as the next namespace
    #[arg(long = "namespace", value_name = "FILE")]
    pub namespaces: Vec<PathBuf>,
    /// Name of the subsystem [default: made from the machine and the first namespace]
    #[arg(long, value_name = "NQN", conflicts_with = "config")]
    pub nqn: Option<String>,
    /// Let only this host connect; repeat for several [default: all hosts]
    #[arg(long = "allow-host", value_name = "NQN", conflicts_with = "config")]
    pub allowed_hosts: Vec<String>,
    /// Refuse all changes
    #[arg(long, conflicts_with = "config")]
    pub read_only: bool,
    /// Size of a block in bytes [default: 4096 if the file's length permits, otherwise 512]
    #[arg(long, value_name = "BYTES", value_parser = ["512", "4096"], conflicts_with = "config")]
    pub block_size: Option<String>,
    /// Address to listen on [default: all]
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub bind: Option<IpAddr>,
    /// Port of NVMe over RDMA
    #[arg(long, default_value_t = NVME_RDMA_PORT, conflicts_with = "config")]
    pub port: u16,
    /// I/O queues of a controller
    #[arg(long, value_name = "N", default_value_t = IO_QUEUES, value_parser = clap::value_parser!(u16).range(1..=i64::from(IO_QUEUES_MAX)))]
    pub io_queues: u16,
    /// Connections at a time: each controller has one for its admin queue, and one for each I/O queue
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS)]
    pub connections: usize,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    pub system: bool,
}
