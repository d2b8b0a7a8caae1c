//! The InfiniBand transports as RoCE carries them: RC, UC, UD and XRC. One [`Qp`] is one queue pair of any type; its
//! inputs are work requests, packets and the time, its outputs packets, completions and events.
#![forbid(unsafe_code)]

pub mod batch;
mod budget;
mod core;
pub mod env;
mod execute;
#[cfg(test)]
mod goodput;
mod local;
mod pace;
mod peer_quota;
mod progress;
mod qp;
mod rc;
mod rq;
pub mod rx;
pub mod same_host;
mod segment;
mod sq;
mod stats;
#[cfg(test)]
mod testing;
mod uc;
mod ud;

pub use crate::core::Passed;
pub use crate::stats::QpStats;
pub use batch::{LocalSource, Piece, TxBatch, TxPacket};
pub use budget::Budget;
pub use env::{Env, Memory, RecvWqe, RemoteFault, XrcSrq};
pub use peer_quota::PeerQuota;
pub use qp::{Qp, TX_BURST_PACKETS};
pub use rx::{LocalRoute, RxPacket};
pub use same_host::SameHost;
