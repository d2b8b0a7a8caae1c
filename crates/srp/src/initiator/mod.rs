//! Initiator's end: a channel to a target port, its disks and their requests.
//!
//! - `session` is the state machine, with `ends` for losses and ends and `rescue` for commands that take too long;
//! - `setup` asks for the disks, which `disk` describes;
//! - `backlog` has the requests, which `request` cuts into commands; `channel` has the commands in progress and the credits.

mod action;
mod address;
mod backlog;
mod channel;
mod config;
mod disk;
mod ends;
mod failure;
mod request;
mod rescue;
mod session;
mod setup;
#[cfg(test)]
mod tests;

pub use action::{
    CommandTag, DiskCommandData, DiskContent, DiskOutcome, InitiatorAction, InitiatorEvent, OutgoingDiskCommand,
    RequestKey,
};
pub use config::{InitiatorConfig, LossTimes, LossTimesError};
pub use disk::DiskInfo;
pub use failure::{Breach, CommandFailure, LostReason, RequestFailure, login_refusal};
pub use request::DiskOperation;
pub use session::Initiator;
