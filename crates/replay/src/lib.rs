//! Replay of one side of a recorded queue pair: what to post and when, and how the completions differ. No verbs are called
//! here; the caller posts, polls, and tells the time.
//!
//! - [`Plan`]: the requests and completions of a queue pair, or the [`Refusal`] that says why they cannot be replayed;
//! - [`Replay`]: the run of a plan, as a state machine;
//! - [`Report`]: the completions and times of the run beside the recorded ones.
//!
//! The order of the recorded program is kept: a request is posted once as many completions have come as the program had
//! polled before it posted the request. Every wait for completions ends after a time without any.
#![forbid(unsafe_code)]

mod origin;
mod plan;
mod refusal;
mod report;
mod run;
#[cfg(test)]
mod testing;

pub use origin::{Connection, Ending, Role};
pub use plan::{Expected, Plan, Queue, RemoteMemory, Step};
pub use refusal::Refusal;
pub use report::{Difference, Report};
pub use run::{Action, Outcome, Replay, Seen, Speed};
