//! The command line of `weft sm`: OpenSM's words for what opensm.conf says too, and a few of our own.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::opensm_words::OpensmWords;
use super::{check, console, instances, preview};

/// `weft sm`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SmArgs {
    /// Something else than to run
    #[command(subcommand)]
    pub command: Option<SmCommand>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// What can be done besides running.
#[derive(Subcommand, Debug)]
pub enum SmCommand {
    /// How the manager that runs here is
    Status(console::StatusArgs),
    /// Speak to the manager that runs here: a command, or lines from standard input
    Console(console::ConsoleArgs),
    /// Every event of the manager as it happens, as lines of JSON
    Events(console::TargetArgs),
    /// Figures of the manager in the form that Prometheus reads
    Metrics(console::TargetArgs),
    /// A manager for each port that the machine's files name, as a service
    Instances(instances::InstancesArgs),
    /// Compute tables for a fabric that is described, and say how good they are
    Preview(Box<preview::PreviewArgs>),
    /// What is wrong with configuration files, and what partitions would change, before they go live
    Check(check::CheckArgs),
}

/// Options of a manager that runs. They go before those of the file.
#[derive(Args, Debug, Default, Clone)]
pub struct RunArgs {
    /// The configuration file [default: opensm.conf in /etc/rdma or /etc/opensm]
    #[arg(short = 'F', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read no file that was not named, and keep none
    #[arg(long, conflicts_with = "config")]
    pub no_config: bool,
    /// Write a commented file of all options, with what is in force, and end; - is standard output
    #[arg(short = 'c', long, value_name = "FILE")]
    pub create_config: Option<PathBuf>,
    /// The port to manage from, by its GUID [default: the first with a link]
    #[arg(short = 'g', long, value_name = "GUID", value_parser = guid)]
    pub guid: Option<u64>,
    /// 0 to 15; among several managers the highest becomes master
    #[arg(short = 'p', long, value_name = "PRIORITY")]
    priority: Option<u8>,
    /// Never become master, even if no other manager is there
    #[arg(long)]
    pub never_master: bool,
    /// Hand the subnet over to any other manager
    #[arg(long)]
    pub yields: bool,
    /// Routing engines in the order in which they are tried
    #[arg(short = 'R', long = "routing_engine", alias = "routing-engine", value_name = "NAMES")]
    routing_engine: Option<String>,
    /// Each port gets 2^LMC LIDs
    #[arg(short = 'l', long, value_name = "LMC")]
    lmc: Option<u8>,
    /// Key by which managers know each other
    #[arg(short = 'k', long, value_name = "KEY")]
    smkey: Option<String>,
    /// Give every port a new LID
    #[arg(short = 'r', long = "reassign_lids", alias = "reassign-lids")]
    reassign_lids: bool,
    /// Bring the subnet up, then end
    #[arg(short = 'o', long)]
    pub once: bool,
    /// Seconds between sweeps; 0: none but the first
    #[arg(short = 's', long, value_name = "SECONDS")]
    sweep: Option<u32>,
    /// Milliseconds that an answer is waited for
    #[arg(short = 't', long, value_name = "MS")]
    timeout: Option<u32>,
    /// How often a datagram is sent again
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Datagrams that wait for answers at once
    #[arg(short = 'n', long, value_name = "N")]
    maxsmps: Option<u32>,
    /// Partitions
    #[arg(short = 'P', long = "Pconfig", value_name = "FILE")]
    pconfig: Option<String>,
    /// Set up quality of service
    #[arg(short = 'Q', long)]
    qos: bool,
    /// Quality of service
    #[arg(short = 'Y', long = "qos_policy_file", value_name = "FILE")]
    qos_policy_file: Option<String>,
    /// Root switches
    #[arg(short = 'a', long = "root_guid_file", value_name = "FILE")]
    root_guid_file: Option<String>,
    /// Compute nodes
    #[arg(short = 'u', long = "cn_guid_file", value_name = "FILE")]
    cn_guid_file: Option<String>,
    /// I/O nodes
    #[arg(short = 'G', long = "io_guid_file", value_name = "FILE")]
    io_guid_file: Option<String>,
    /// Forwarding tables, for the engine file
    #[arg(short = 'U', long = "lfts_file", value_name = "FILE")]
    lfts_file: Option<String>,
    /// Dimensions of a torus, for torus-2QoS
    #[arg(long = "torus_config", value_name = "FILE")]
    torus_config: Option<String>,
    /// The log; stdout is standard output
    #[arg(short = 'f', long = "log_file", alias = "log-file", value_name = "FILE")]
    log_file: Option<String>,
    /// Bytes of the log in MiB at which it begins anew
    #[arg(short = 'L', long = "log_limit", value_name = "MIB")]
    log_limit: Option<u32>,
    /// Empty the log at the start
    #[arg(short = 'e', long = "erase_log_file")]
    erase_log_file: bool,
    /// Log flags, as opensm has them
    #[arg(short = 'D', long = "log_flags", alias = "D", value_name = "FLAGS")]
    log_flags: Option<String>,
    /// Any other option of the file
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Serve figures for Prometheus at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
    /// Run in the background
    #[arg(short = 'B', long)]
    pub daemon: bool,
    /// With -B: write the process's number to this file
    #[arg(short = 'J', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    #[command(flatten)]
    opensm: OpensmWords,
}

pub fn guid(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map_err(|_| "a GUID is 16 hexadecimal digits, such as 0x0002c9030a000001".to_owned())
}

impl RunArgs {
    /// With nothing but a configuration file, or the usual one.
    pub fn of_config(config: Option<PathBuf>) -> RunArgs {
        RunArgs { config, ..RunArgs::default() }
    }

    /// Of a manager that only tries.
    pub fn for_preview(config: Option<PathBuf>, routing_engine: Option<String>, set: Vec<String>) -> RunArgs {
        RunArgs { no_config: config.is_none(), config, routing_engine, set, ..RunArgs::default() }
    }

    /// What is said to a manager that runs in the background already.
    pub const IS_DAEMON: &'static str = "daemon=FALSE";

    /// Whether it runs in the background already.
    pub fn is_daemon(&self) -> bool {
        self.set.iter().any(|pair| pair == RunArgs::IS_DAEMON)
    }

    /// Flags of the log, of which `-v` adds the next, so often.
    pub fn more_flags(&self, flags: u8) -> u8 {
        (0..self.opensm.verbose).fold(flags, |flags, _| flags << 1 | 1)
    }

    /// What the command line says of options of the file.
    pub fn overrides(&self) -> Result<Vec<(String, String)>, String> {
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let switch = |on: bool| on.then(|| "TRUE".to_owned());
        let named = [
            ("sm_priority", number(self.priority.map(u32::from))),
            ("routing_engine", self.routing_engine.clone()),
            ("lmc", number(self.lmc.map(u32::from))),
            ("sm_key", self.smkey.clone()),
            ("reassign_lids", switch(self.reassign_lids)),
            ("sweep_interval", number(self.sweep)),
            ("transaction_timeout", number(self.timeout)),
            ("transaction_retries", number(self.retries)),
            ("max_wire_smps", number(self.maxsmps)),
            ("partition_config_file", self.pconfig.clone()),
            ("qos", switch(self.qos)),
            ("qos_policy_file", self.qos_policy_file.clone()),
            ("root_guid_file", self.root_guid_file.clone()),
            ("cn_guid_file", self.cn_guid_file.clone()),
            ("io_guid_file", self.io_guid_file.clone()),
            ("lfts_file", self.lfts_file.clone()),
            ("torus_config", self.torus_config.clone()),
            ("log_file", self.log_file.clone()),
            ("log_max_size", number(self.log_limit)),
            ("accum_log_file", self.erase_log_file.then(|| "FALSE".to_owned())),
            ("log_flags", self.log_flags.clone()),
        ];
        let mut all: Vec<(String, String)> =
            named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        all.extend_from_slice(&self.opensm.options);
        for pair in &self.set {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("--set {pair}: write NAME=VALUE"))?;
            all.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(all)
    }
}
