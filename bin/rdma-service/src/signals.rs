//! Signals that end a service.

use anyhow::{Context, Result};
use rustix::process::Signal;
use weft_sys::signals::SignalQueue;

/// Returns the queue of the signals that end a service. Threads that start later do not take them.
///
/// # Errors
/// The system has no more descriptors.
pub fn ending_signals() -> Result<SignalQueue> {
    SignalQueue::new(&[Signal::INT.as_raw(), Signal::TERM.as_raw()]).context("signals cannot be received")
}
