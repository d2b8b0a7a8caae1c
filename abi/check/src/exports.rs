//! The calls that programs link to.

mod address;
mod device;
mod events;
mod memory;
mod process;
mod queue_pair;
mod queues;
mod waits;

pub use device::fork_is_protected;
