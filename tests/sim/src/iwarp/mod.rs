//! Two iWARP queue pairs on a simulated TCP connection that cuts, delays, damages and resets as a seed says, against a
//! model: every operation is executed at once in the model, in the order of posting, and what a queue pair reports and
//! stores must be the same. The adapter around a queue pair is [`host`], the connection [`pipe`], one run [`run`].

mod flow;
mod host;
mod pipe;
mod run;

pub use run::{Outcome, run};
