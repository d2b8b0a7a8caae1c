//! Initiator's end: the state machine of `weft-srp` with its queue pair and memory.

mod driver;

pub use driver::Driver;
