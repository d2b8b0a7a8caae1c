//! Options of a manager: OpenSM's for settings of opensm.conf, and a few of Weft's own.

use std::path::PathBuf;

use clap::Args;

use super::opensm_words::OpensmWords;

/// Options of a running manager. They override those of the configuration file.
#[derive(Args, Debug, Default, Clone)]
pub struct RunArgs {
    /// Configuration file [default: opensm.conf in /etc/rdma or /etc/opensm]
    #[arg(short = 'F', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read only files named on the command line, and store none
    #[arg(long, conflicts_with = "config")]
    pub no_config: bool,
    /// Write a commented file of all options with their current values, then exit; - is standard output
    #[arg(short = 'c', long, value_name = "FILE")]
    pub create_config: Option<PathBuf>,
    /// GUID of the port to manage from [default: the first port with a link]
    #[arg(short = 'g', long, value_name = "GUID", value_parser = guid)]
    pub guid: Option<u64>,
    /// SM priority, 0 to 15; the manager with the highest becomes master
    #[arg(short = 'p', long, value_name = "PRIORITY")]
    priority: Option<u8>,
    /// Never become master, even without another manager
    #[arg(long)]
    pub never_master: bool,
    /// Hand the subnet over to any other manager
    #[arg(long)]
    pub yields: bool,
    /// Routing engines, in order of preference
    #[arg(short = 'R', long = "routing_engine", alias = "routing-engine", value_name = "NAMES")]
    routing_engine: Option<String>,
    /// LID mask control: each port gets 2^LMC LIDs
    #[arg(short = 'l', long, value_name = "LMC")]
    lmc: Option<u8>,
    /// SM_Key, by which managers authenticate each other
    #[arg(short = 'k', long, value_name = "KEY")]
    smkey: Option<String>,
    /// Assign a new LID to every port
    #[arg(short = 'r', long = "reassign_lids", alias = "reassign-lids")]
    reassign_lids: bool,
    /// Bring the subnet up, then exit
    #[arg(short = 'o', long)]
    pub once: bool,
    /// Seconds between sweeps; 0: only the first sweep
    #[arg(short = 's', long, value_name = "SECONDS")]
    sweep: Option<u32>,
    /// Answer timeout in milliseconds
    #[arg(short = 't', long, value_name = "MS")]
    timeout: Option<u32>,
    /// Maximum number of retries of a datagram
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Maximum number of outstanding datagrams
    #[arg(short = 'n', long, value_name = "N")]
    maxsmps: Option<u32>,
    /// Partition file
    #[arg(short = 'P', long = "Pconfig", value_name = "FILE")]
    pconfig: Option<String>,
    /// Enable quality of service
    #[arg(short = 'Q', long)]
    qos: bool,
    /// QoS policy file
    #[arg(short = 'Y', long = "qos_policy_file", value_name = "FILE")]
    qos_policy_file: Option<String>,
    /// File of root switch GUIDs
    #[arg(short = 'a', long = "root_guid_file", value_name = "FILE")]
    root_guid_file: Option<String>,
    /// File of compute node GUIDs
    #[arg(short = 'u', long = "cn_guid_file", value_name = "FILE")]
    cn_guid_file: Option<String>,
    /// File of I/O node GUIDs
    #[arg(short = 'G', long = "io_guid_file", value_name = "FILE")]
    io_guid_file: Option<String>,
    /// Forwarding tables, for the routing engine `file`
    #[arg(short = 'U', long = "lfts_file", value_name = "FILE")]
    lfts_file: Option<String>,
    /// Torus dimensions, for torus-2QoS
    #[arg(long = "torus_config", value_name = "FILE")]
    torus_config: Option<String>,
    /// Log file; stdout is standard output
    #[arg(short = 'f', long = "log_file", alias = "log-file", value_name = "FILE")]
    log_file: Option<String>,
    /// Log size in MiB at which the log is truncated
    #[arg(short = 'L', long = "log_limit", value_name = "MIB")]
    log_limit: Option<u32>,
    /// Truncate the log at start
    #[arg(short = 'e', long = "erase_log_file")]
    erase_log_file: bool,
    /// Log flags, as in opensm
    #[arg(short = 'D', long = "log_flags", alias = "D", value_name = "FLAGS")]
    log_flags: Option<String>,
    /// Set any other option of the configuration file
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Run in the background
    #[arg(short = 'B', long)]
    pub daemon: bool,
    /// With -B: write the process ID to this file
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
    /// Options with only a configuration file, or with the default one.
    pub fn of_config(config: Option<PathBuf>) -> RunArgs {
        RunArgs { config, ..RunArgs::default() }
    }

    /// Options of a manager for `weft sm preview`.
    pub fn for_preview(config: Option<PathBuf>, routing_engine: Option<String>, set: Vec<String>) -> RunArgs {
        RunArgs { no_config: config.is_none(), config, routing_engine, set, ..RunArgs::default() }
    }

    /// The setting that marks a manager as already in the background.
    pub const IS_DAEMON: &'static str = "daemon=FALSE";

    /// Whether the manager already runs in the background.
    pub fn is_daemon(&self) -> bool {
        self.set.iter().any(|pair| pair == RunArgs::IS_DAEMON)
    }

    /// The log flags, plus one further level for each `-v`.
    pub fn more_flags(&self, flags: u8) -> u8 {
        (0..self.opensm.verbose).fold(flags, |flags, _| flags << 1 | 1)
    }

    /// Options of the configuration file that the command line sets.
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
