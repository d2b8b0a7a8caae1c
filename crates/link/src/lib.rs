//! Links: how packets leave and enter a process. The engine holds a [`Stack`]: a [`UdpLink`], wrapped in an optional
//! fault injector and an optional capture file.
//!
//! ```text
//! out: TxBatch -> faults of packets that leave (dropped, copied and held, marked)
//! out: TxBatch -> UdpLink: flows, runs of equal length, ICRC, gather lists -> sendmsg with UDP_SEGMENT
//!                    └──> capture (as it was on the wire)
//! out: TxBatch -> EtherLink, for RoCE v1: GRH, ICRC -> packet socket
//! out: TxBatch -> HopsLink, on an InfiniBand fabric hop by hop: LRH, GRH, ICRC, VCRC -> ring to the switches in the daemon
//! out, in: StreamBatch, StreamPlaces <-> sendmsg, recvmsg of a TCP connection, for iWARP (stream.rs)
//! in:  recvmmsg with UDP_GRO -> segments -> faults (held, lost, damaged…) -> ICRC check -> capture -> RxPacket
//! ```

pub mod datagram;
mod ether;
mod flow;
mod flow_socket;
pub mod fuzzing;
mod gather;
mod handler;
pub mod hops;
mod peek_parser;
mod peer;
mod receive;
pub mod run;
mod rx_socket;
mod seal;
mod senders;
pub mod shm;
mod sockets;
mod stack;
mod stats;
pub mod stream;
#[cfg(test)]
mod testing;
mod transmit;
mod udp;
pub mod wrap;

pub use datagram::{Datagram, Refused};
pub use gather::NULL_MEMORY;
pub use stack::{Stack, StackConfig};
pub use stats::LinkStats;
pub use udp::UdpLink;
pub use weft_verbs::units;
pub use wrap::fault::{FAULTS_BYTES_MAX, FaultPlan, FaultPlanError, FaultSpec, FaultSpecError};
