//! The InfiniBand transports as RoCE carries them, RC, UC, UD and XRC, and iWARP. One [`Qp`] is one queue pair of any
//! type; its inputs are work requests, packets or bytes of a stream, and the time, its outputs packets or bytes,
//! completions and events.
#![forbid(unsafe_code)]

pub mod batch;
mod budget;
mod core;
pub mod datagram;
pub mod env;
mod execute;
pub mod frame;
#[cfg(test)]
mod goodput;
#[cfg(test)]
mod injected_tests;
mod iwarp;
mod local;
mod pace;
mod peer_quota;
pub mod peers;
mod progress;
mod qp;
mod rc;
mod rq;
pub mod rx;
mod segment;
mod sge_list;
mod sq;
mod stats;
#[cfg(test)]
mod testing;
mod uc;
mod ud;
pub mod word;

pub use crate::core::Passed;
pub use crate::stats::QpStats;
pub use batch::{LocalSource, Piece, TX_BURST_PACKETS, TxBatch, TxPacket};
pub use budget::Budget;
pub use datagram::Datagram;
pub use env::{Env, Memory, RecvWqe, RemoteFault, XrcSrq};
pub use iwarp::{RingEnd, StreamBatch, StreamOrder, StreamPhase};
pub use peer_quota::PeerQuota;
pub use peers::{NoPeers, Peers};
pub use qp::{Qp, StreamPlaces};
pub use rx::{LocalRoute, RxPacket};
