//! Signals that end a server.

use anyhow::{Context, Result};
use rustix::process::Signal;
use weft_sys::signals::SignalQueue;

/// Returns the queue of the signals that end a server. Threads that start later do not take them.
pub fn ending() -> Result<SignalQueue> {
    SignalQueue::new(&[Signal::INT.as_raw(), Signal::TERM.as_raw()]).context("signals cannot be received")
}
