//! Virtual InfiniBand fabrics under faults that a seed chooses: cables cut, joined, flapping, worse; nodes rebooted and
//! without power; datagrams lost. A small subnet manager at a host brings up what it reaches. After every fault verdicts
//! are compared with a walk of our own and with packets; at the end everything is mended, and everybody must reach
//! everybody.

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
