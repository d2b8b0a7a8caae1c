//! Extended transport headers, one file each.

mod atomic;
mod deth;
mod feth;
mod reth;
mod words;

pub use atomic::{AtomicAckEth, AtomicEth};
pub use deth::Deth;
pub use feth::Feth;
pub use reth::Reth;
pub use words::{Ieth, ImmDt, Rdeth, XrcEth};
