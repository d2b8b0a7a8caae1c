//! Options of `weft srp target`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use weft_srp::limits::SRP_PORT;
use weft_srp::wire::PortId;

use crate::hex;
use crate::limits::CONNECTIONS;

/// Options of `weft srp target`.
#[derive(Args, Debug)]
pub struct TargetArgs {
    /// Serve this file or block device as the next logical unit, from 0
    #[arg(long = "lun", value_name = "FILE", required = true)]
    pub luns: Vec<PathBuf>,
    /// GUID of the target, 16 hexadecimal digits: initiators log in with it as id_ext and as ioc_guid [default: made from
    /// the machine and the first file]
    #[arg(long, value_name = "GUID", value_parser = hex::number)]
    pub guid: Option<u64>,
    /// Let only this initiator log in, 32 hexadecimal digits; repeat for several [default: all initiators]
    #[arg(long = "allow-initiator", value_name = "ID", value_parser = port_id)]
    pub allowed: Vec<PortId>,
    /// Refuse all changes
    #[arg(long)]
    pub read_only: bool,
    /// Size of a block in bytes [default: 4096 if the file's length permits, otherwise 512]
    #[arg(long, value_name = "BYTES", value_parser = ["512", "4096"])]
    pub block_size: Option<String>,
    /// Address to listen on [default: all]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Port of the RDMA connection manager, and the end of the service identifier on InfiniBand
    #[arg(long, default_value_t = SRP_PORT)]
    pub port: u16,
    /// Connections at a time: each channel of an initiator is one
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS)]
    pub connections: usize,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    pub system: bool,
}

fn port_id(text: &str) -> Result<PortId, String> {
    PortId::parse(text).ok_or_else(|| "not up to 32 hexadecimal digits".to_owned())
}
