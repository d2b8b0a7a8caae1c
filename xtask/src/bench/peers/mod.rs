//! The peers and the limits, one file each, with their command lines and the parsers of their output.

pub mod cache_line;
pub mod libfabric;
pub mod memcpy;
pub mod process_vm;
pub mod qperf;
pub mod tcp_pong;
pub mod tun_relay;
pub mod ucx;
pub mod udp_pong;
pub mod udp_stream;

use anyhow::Result;
use clap::Subcommand;

/// The peers that are our own programs: bare loops without any protocol.
#[derive(Subcommand)]
pub enum Own {
    /// Pass a word back and forth between two cores.
    CacheLine(cache_line::Options),
    /// Copy a buffer into another one.
    Memcpy(memcpy::Options),
    /// Copy a buffer into or out of another process.
    ProcessVm(process_vm::Options),
    /// Hold the buffer that `process-vm` copies from or to.
    ProcessVmTarget(process_vm::Target),
    /// Play a ping-pong over TCP with polling on both ends.
    TcpPong(tcp_pong::Options),
    /// Carry packets between two TUN interfaces in two namespaces.
    TunRelay(tun_relay::Options),
    /// Play a ping-pong of datagrams with polling on both ends.
    UdpPong(udp_pong::Options),
    /// Send a stream of datagrams in the kernel's largest batches.
    UdpStream(udp_stream::Options),
}

/// Runs one of them.
pub fn run(own: &Own) -> Result<()> {
    match own {
        Own::CacheLine(options) => cache_line::run(options),
        Own::Memcpy(options) => memcpy::run(options),
        Own::ProcessVm(options) => process_vm::run(options),
        Own::ProcessVmTarget(options) => process_vm::hold(options),
        Own::TcpPong(options) => tcp_pong::run(options),
        Own::TunRelay(options) => tun_relay::run(options),
        Own::UdpPong(options) => udp_pong::run(options),
        Own::UdpStream(options) => udp_stream::run(options),
    }
}
