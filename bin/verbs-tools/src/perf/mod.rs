//! `weft perf`: bandwidth, latency and message rate of SEND, WRITE, READ and atomics over RC, UC and UD.
//!
//! A server waits; a client runs the cases one after the other and prints the results. With `--local` the client starts
//! the server itself. Client and server agree on each case over TCP (`control`).

mod case;
mod client;
mod control;
mod endpoint;
mod histogram;
mod measure;
mod progress;
mod report;
mod server;

pub use case::{Case, Metric, Operation, Transport};
pub use report::{Measured, Outcome, bandwidth, rate};

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

use clap::Args;

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
            histogram: false,
            system: false,
            once: false,
        }
    }

    fn device(&self) -> DeviceChoice {
        DeviceChoice {
            name: self.ib_dev.clone(),
            port: self.ib_port,
            gid_idx: self.gid_idx,
            sl: 0,
            system: self.system,
        }
    }
}

/// Runs the command.
pub fn run(args: &PerfArgs) -> ExitCode {
    let result = if args.local {
        local(args)
    } else if let Some(server) = &args.server {
        client::run(args, server, args.port)
    } else {
        server::run(args)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("weft perf: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A server process, killed when dropped.
struct LocalServer(Child);

impl Drop for LocalServer {
    fn drop(&mut self) {
        // The server exits by itself after its client; this is for failed clients.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on this machine and measures against it.
fn local(args: &PerfArgs) -> Result<(), String> {
    let (_server, port) = start_server(args)?;
    client::run(args, crate::THIS_MACHINE, port)
}

fn start_server(args: &PerfArgs) -> Result<(LocalServer, u16), String> {
    let exe = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut command = Command::new(exe);
    command.args(["perf", "--once", "--port", "0", "--ib-port", &args.ib_port.to_string()]);
    if let Some(dev) = &args.ib_dev {
        command.args(["--ib-dev", dev]);
    }
    if let Some(row) = args.gid_idx {
        command.args(["--gid-idx", &row.to_string()]);
    }
    if args.system {
        command.arg("--system");
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut server = LocalServer(child.map_err(|e| format!("cannot start a server: {e}"))?);
    let mut line = String::new();
    if let Some(stdout) = server.0.stdout.take() {
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    let port = line.trim().parse().map_err(|_| "the server did not start".to_owned())?;
    Ok((server, port))
}

/// Runs cases against a server of its own and returns the results, for `weft demo`.
pub fn measure_locally(args: &PerfArgs, cases: &[Case]) -> Result<Vec<Measured>, String> {
    let (_server, port) = start_server(args)?;
    client::measure(args, crate::THIS_MACHINE, port, cases, |_, _| {})
}
