//! Why a connection broke: the records of processes in, stories and causes out.
//!
//! - [`Recording`]: the ring file of one process, read;
//! - [`archive`]: the ring files of all processes of a run, in one compressed file;
//! - [`QpStory`]: one queue pair's records, put in order;
//! - [`diagnose`]: the causes of a failure, each with its evidence and remedy;
//! - [`render`]: stories and causes as text and JSON;
//! - [`perfetto`]: recordings as a trace for Perfetto;
//! - [`pcapng`]: recorded packets as a capture for Wireshark.
#![forbid(unsafe_code)]

pub mod archive;
mod case;
mod causes;
mod finding;
pub mod names;
pub mod pcapng;
mod peers;
pub mod perfetto;
mod recording;
pub mod render;
mod story;
#[cfg(test)]
mod testing;

pub use case::{Case, Failure};
pub use causes::diagnose;
pub use finding::{Cause, Certainty, Finding};
pub use recording::{Killed, Life, ReadError, Recording, merged};
pub use story::{QpId, QpStory, stories};
