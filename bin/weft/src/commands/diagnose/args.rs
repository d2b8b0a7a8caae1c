//! Options of `weft diagnose`.

use clap::Args as ClapArgs;

/// Check a whole InfiniBand fabric and report its faults.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Query from this fabric host [default: the host that the command runs as, or one with programs]
    #[arg(long, value_name = "NODE", conflicts_with = "system")]
    pub(super) host: Option<String>,
    /// Query through this adapter.
    #[arg(short = 'C', long = "ca", value_name = "NAME")]
    pub(super) ca: Option<String>,
    /// Query through this port of the adapter; 0 selects the first active one.
    #[arg(short = 'P', long = "port", value_name = "NUMBER", default_value_t = 0)]
    pub(super) port: i32,
    /// Set the M_Key of requests.
    #[arg(short = 'y', long = "m-key", value_name = "KEY")]
    pub(super) m_key: Option<String>,
    /// Read node names by GUID from this file.
    #[arg(long, value_name = "FILE")]
    pub(super) node_name_map: Option<String>,
    /// Watch counters for SECONDS.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(super) seconds: f64,
    /// Search the VLs of this service level for credit loops, instead of those of the path records.
    #[arg(long, value_name = "SL", value_parser = clap::value_parser!(u8).range(0..16))]
    pub(super) sl: Option<u8>,
    /// Show the path from one port to another, each given by LID, GUID or name.
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
    pub(super) path: Option<Vec<String>>,
    /// Save the fabric to a file, for --baseline.
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<String>,
    /// Compare with a fabric saved by --save.
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<String>,
    /// Print all findings, however many.
    #[arg(long)]
    pub(super) all: bool,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Use the system's libibumad instead of Weft's.
    #[arg(long)]
    pub(super) system: bool,
}
