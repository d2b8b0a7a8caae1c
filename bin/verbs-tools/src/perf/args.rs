//! Options of `weft perf`.

use std::path::PathBuf;

use clap::Args;

use super::case::{self, Metric, Operation, Transport};
use crate::pingpong::DeviceChoice;

/// TCP port of the server; perftest and the pingpongs use 18515.
pub const PORT: u16 = 18516;

/// Options of `weft perf`.
#[derive(Args, Clone, Debug)]
pub struct PerfArgs {
    /// Measure against this server; without it, be a server
    pub server: Option<String>,
    /// Start a server on this machine and measure against it
    #[arg(long, conflicts_with = "server")]
    pub local: bool,
    /// Operations [default: all]
    #[arg(short, long, value_delimiter = ',', value_enum)]
    pub op: Vec<Operation>,
    /// Transports [default: all]
    #[arg(short = 'c', long, value_delimiter = ',', value_enum)]
    pub transport: Vec<Transport>,
    /// Metrics [default: all]
    #[arg(short = 't', long, value_delimiter = ',', value_enum)]
    pub metric: Vec<Metric>,
    /// Message sizes in bytes (default: 65536 for bandwidth, 8 for latency and rate)
    #[arg(short, long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(case::SIZE_MAX)))]
    pub size: Vec<u32>,
    /// Use all powers of two from 2 bytes to 8 MiB as sizes
    #[arg(short, long, conflicts_with = "size")]
    pub all_sizes: bool,
    /// Seconds for each case
    #[arg(short = 'D', long, default_value_t = 1.0, value_parser = case::parse_seconds)]
    pub duration: f64,
    /// Requests in flight (default: 128, fewer for large messages)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(case::DEPTH_MAX)))]
    pub depth: Option<u32>,
    /// Queue pairs (bandwidth and rate)
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(case::QPS_MAX)))]
    pub qps: u32,
    /// Path MTU in bytes (default: the port's)
    #[arg(short, long, value_parser = ["256", "512", "1024", "2048", "4096"])]
    pub mtu: Option<String>,
    /// Device
    #[arg(short = 'd', long = "ib-dev", value_name = "DEV")]
    pub ib_dev: Option<String>,
    /// Port of the device
    #[arg(short = 'i', long = "ib-port", value_name = "PORT", default_value_t = 1)]
    pub ib_port: u8,
    /// Row of the GID table (default: the first routable one)
    #[arg(short = 'g', long = "gid-idx", value_name = "INDEX")]
    pub gid_idx: Option<u32>,
    /// TCP port of the server
    #[arg(short, long, default_value_t = PORT)]
    pub port: u16,
    /// Print JSON
    #[arg(short, long)]
    pub json: bool,
    /// Write the results to this file, too, as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw the results by message size to this file, as SVG (see --all-sizes)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print the distribution of latencies
    #[arg(short = 'H', long)]
    pub histogram: bool,
    /// Use the system's libibverbs instead of Weft's
    #[arg(long)]
    pub system: bool,
    /// Serve one client only, and print the chosen port on standard output
    #[arg(long, hide = true)]
    pub once: bool,
}

impl PerfArgs {
    /// The arguments of `weft perf --local -d DEVICE`.
    pub fn for_device(device: &str) -> PerfArgs {
        PerfArgs {
            server: None,
            local: true,
            op: Vec::new(),
            transport: Vec::new(),
            metric: Vec::new(),
            size: Vec::new(),
            all_sizes: false,
            duration: 1.0,
            depth: None,
            qps: 1,
            mtu: None,
            ib_dev: Some(device.to_owned()),
            ib_port: 1,
            gid_idx: None,
            port: PORT,
            json: false,
            csv: None,
            plot: None,
            histogram: false,
            system: false,
            once: false,
        }
    }

    pub(super) fn device(&self) -> DeviceChoice {
        DeviceChoice {
            name: self.ib_dev.clone(),
            port: self.ib_port,
            gid_idx: self.gid_idx,
            sl: 0,
            system: self.system,
        }
    }
}
