//! The transports of InfiniBand as RoCE carries them: RC, UC, UD and XRC. One [`Qp`] is one queue pair of any kind;
//! it is fed work requests, packets and the time, and yields packets, completions and events.
#![forbid(unsafe_code)]

pub mod batch;
pub mod env;
pub mod rx;

pub use batch::{Piece, TxBatch, TxPacket};
pub use env::{Env, Memory, RecvWqe, RemoteFault, XrcSrq};
pub use rx::RxPacket;
