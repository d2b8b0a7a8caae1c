//! Two iWARP queue pairs on a simulated TCP connection that cuts, delays, damages and resets as a seed says, against a
//! model: every operation is executed at once in the model, in the order of posting, and what a queue pair reports and
//! stores must be the same. The adapter around a queue pair is `host`, the connection `pipe`, one run [`run`]; in
//! [`run_within_host`] the data takes `rings`.

mod flow;
mod host;
mod hostile;
mod pipe;
mod record;
mod rings;
mod run;

pub use hostile::hostile;
pub use record::record;
pub use run::{Outcome, run, run_within_host};
