//! Options of `weft nvme discover`: nvme-cli's.

use clap::{Args, ValueEnum};
use weft_nvme::limits::NVME_RDMA_PORT;

/// Options of `weft nvme discover`.
#[derive(Args, Debug)]
pub struct DiscoverArgs {
    /// Transport
    #[arg(short, long, value_name = "TRTYPE", value_parser = ["rdma"], default_value = "rdma")]
    pub transport: String,
    /// Address or name of the target
    #[arg(short = 'a', long = "traddr", value_name = "TRADDR")]
    pub address: String,
    /// Port of the target
    #[arg(short = 's', long = "trsvcid", value_name = "TRSVCID", default_value_t = NVME_RDMA_PORT)]
    pub service: u16,
    /// Name of this host [default: that of /etc/nvme/hostnqn, or one made from the machine]
    #[arg(short = 'q', long = "hostnqn", value_name = "NQN")]
    pub host_nqn: Option<String>,
    /// Identifier of this host: a UUID [default: that of /etc/nvme/hostid, or one made from the machine]
    #[arg(short = 'I', long = "hostid", value_name = "UUID")]
    pub host_id: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "normal")]
    pub output_format: OutputFormat,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    pub system: bool,
}

/// Output format.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputFormat {
    /// Text
    Normal,
    /// JSON
    Json,
}

impl OutputFormat {
    /// Whether it is JSON.
    pub fn is_json(self) -> bool {
        self == OutputFormat::Json
    }
}
