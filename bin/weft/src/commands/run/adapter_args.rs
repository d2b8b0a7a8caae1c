//! Options about the adapters that a program gets, of `weft run` and of the commands that are built on it.

use std::path::PathBuf;

use clap::Args;

use super::words::Words;

/// Adapters of the program, and how they behave.
#[derive(Args, Clone, Debug, Default)]
pub struct AdapterArgs {
    /// Run as this host of the running fabric, with only that host's adapters
    #[arg(long, value_name = "NODE")]
    pub host: Option<String>,
    /// Stay in this machine's network: the program has the host's adapters, but not its name and its ib0
    #[arg(long, requires = "host")]
    pub machine_network: bool,
    /// Inject faults, e.g. loss=1%,dup=1%,delay=1ms,seed=7 or status=RETRY_EXC_ERR,from=9 (semicolon: several)
    #[arg(long, value_name = "SPEC")]
    pub fault: Option<String>,
    /// Promise no more than the specification does: bytes and completions in any order, by this seed
    #[arg(long, value_name = "SEED")]
    pub strict: Option<u64>,
    /// Write the packets that the program sends and receives to a file (pcapng)
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Give the program RDS sockets (AF_RDS) over RDMA, by a preloaded library
    #[arg(long)]
    pub rds: bool,
}

impl AdapterArgs {
    /// The adapters of a fabric's host.
    pub fn of_host(host: &str) -> AdapterArgs {
        AdapterArgs { host: Some(host.to_owned()), ..AdapterArgs::default() }
    }

    /// Adds the words that ask for these adapters.
    pub fn say(&self, words: &mut Words) {
        let AdapterArgs { host, machine_network, fault, strict, pcap, rds } = self;
        words.flag("--machine-network", *machine_network);
        words.flag("--rds", *rds);
        words.options("--host", host);
        words.options("--fault", fault);
        words.options("--strict", &strict.map(|seed| seed.to_string()));
        words.options("--pcap", pcap);
    }
}
