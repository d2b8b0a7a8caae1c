//! Random traffic and its expected results. A seed chooses hosts, faults, queue pairs and, for each direction of each
//! queue pair, a list of operations. For a reliable service every byte of memory and every completion is predicted; for
//! an unreliable one everything that arrives must have been sent.
//!
//! `plan` chooses, `flow` prepares the operations of one direction and predicts their results, `receiver` keeps receive
//! queues filled, `run` drives all of it and compares, `tally` counts the situations met on the way.

mod flow;
mod plan;
mod receiver;
mod run;
mod tally;

pub use plan::Plan;
pub use run::run;
pub use tally::Tally;
