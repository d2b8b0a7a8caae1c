//! Configuration of a host's controller.

use std::time::Duration;

use crate::limits::{IO_QUEUES_MAX, QUEUE_ENTRIES_MAX};

/// Identity of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostName {
    /// NQN.
    pub nqn: String,
    /// Host identifier.
    pub id: [u8; 16],
}

/// Configuration of a host's controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostConfig {
    /// This host.
    pub host: HostName,
    /// Name of the subsystem.
    pub subsystem: String,
    /// I/O queues to ask for, at least one.
    pub io_queues: u16,
    /// Entries of an I/O queue.
    pub queue_entries: u16,
    /// Keep-alive timeout; zero: none.
    pub keep_alive: Duration,
    /// Time between two attempts to connect again.
    pub reconnect_delay: Duration,
    /// Time without a connection after which the controller ends; `None`: it never does.
    pub controller_loss: Option<Duration>,
}

impl HostConfig {
    /// Returns the number of I/O queues within the limits.
    pub(super) fn queues(&self) -> u16 {
        self.io_queues.clamp(1, IO_QUEUES_MAX)
    }

    /// Returns the number of entries within the limits.
    pub(super) fn entries(&self) -> u16 {
        self.queue_entries.clamp(crate::limits::QUEUE_ENTRIES_MIN, QUEUE_ENTRIES_MAX)
    }

    /// Returns the number of attempts to connect again; `None`: no limit.
    pub(super) fn reconnects_max(&self) -> Option<u32> {
        let delay = self.reconnect_delay.as_millis().max(1);
        self.controller_loss.map(|limit| u32::try_from(limit.as_millis().div_ceil(delay)).unwrap_or(u32::MAX))
    }
}
