//! Safe objects over `libibverbs`, `librdmacm` and `libibumad`, which are loaded at run time: Weft's own, or the
//! system's for real adapters. The command and its tools use RDMA through this crate alone; all unsafe calls of C are
//! here.

mod locate;
pub mod rdmacm;
pub mod umad;
pub mod verbs;

pub use locate::{Which, locate_by};
