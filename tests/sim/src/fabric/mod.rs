//! Virtual InfiniBand fabrics under faults that a seed chooses: cables cut, joined, flapping, degraded; nodes rebooted
//! and powered off; datagrams lost. A small subnet manager at a host brings up the part that it reaches. After every
//! fault the test compares the fabric's verdicts with its own walk and with packets. At the end it repairs everything,
//! and every host must reach every other.

mod adapter;
mod hops;
mod manager;
mod model;
mod schedule;
mod storm;

pub use hops::{HopsTally, run_hops};
pub use manager::Manager;
pub use schedule::{Tally, run};
pub use storm::{FAULTS, Fault, StormTally, run_storm};
