//! Host's end of a controller: the state machine of `weft-nvme` with its queue pairs and memory.
//!
//! A `queue` is one connection with the memory that its commands lend; the [`Driver`] feeds the state machine and carries out
//! what it asks for.

mod driver;
mod queue;

pub use driver::{Driver, Target};
