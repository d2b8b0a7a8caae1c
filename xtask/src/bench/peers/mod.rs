//! The peers and the limits, one file each: what they are, how they are run, and how their output is read.

pub mod cache_line;
pub mod libfabric;
pub mod memcpy;
pub mod process_vm;
pub mod qperf;
pub mod ucx;
pub mod udp_pong;
pub mod udp_stream;

use anyhow::Result;
use clap::Subcommand;

/// The peers that are programs of our own: bare loops without any protocol in them.
#[derive(Subcommand)]
pub enum Own {
    /// Hands a word to and fro between two cores.
    CacheLine(cache_line::Options),
    /// Copies a buffer into another one.
    Memcpy(memcpy::Options),
    /// Copies a buffer into or out of another process.
    ProcessVm(process_vm::Options),
    /// Holds the buffer that `process-vm` copies from or to.
    ProcessVmTarget(process_vm::Target),
    /// A ping-pong of datagrams whose both ends poll.
    UdpPong(udp_pong::Options),
    /// A stream of datagrams in the kernel's largest batches.
    UdpStream(udp_stream::Options),
}

/// Runs one of them.
pub fn run(own: &Own) -> Result<()> {
    match own {
        Own::CacheLine(options) => cache_line::run(options),
        Own::Memcpy(options) => memcpy::run(options),
        Own::ProcessVm(options) => process_vm::run(options),
        Own::ProcessVmTarget(options) => process_vm::hold(options),
        Own::UdpPong(options) => udp_pong::run(options),
        Own::UdpStream(options) => udp_stream::run(options),
    }
}
