//! eventfd and timerfd: ways to wake a thread that sleeps in epoll or poll.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// A counter that is readable while it is not zero; it never blocks.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Creates a counter at zero, close-on-exec.
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Adds one. A full counter stays full, which wakes just as well.
    pub fn signal(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Reads and resets the counter; returns 0 if it was zero.
    pub fn take(&self) -> u64 {
        let mut value = [0; 8];
        match rustix::io::read(&self.0, &mut value) {
            Ok(8) => u64::from_ne_bytes(value),
            _ => 0,
        }
    }
}

impl From<EventFd> for OwnedFd {
    fn from(event: EventFd) -> OwnedFd {
        event.0
    }
}

/// Wraps an eventfd that another process created.
impl From<OwnedFd> for EventFd {
    fn from(fd: OwnedFd) -> EventFd {
        EventFd(fd)
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A monotonic one-shot timer with nanosecond resolution.
#[derive(Debug)]
pub struct TimerFd(OwnedFd);

impl TimerFd {
    /// Creates a timer, not armed, close-on-exec.
    pub fn new() -> io::Result<TimerFd> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(TimerFd(rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Fires once after this time; `None` disarms. Zero fires immediately.
    pub fn arm(&self, after: Option<Duration>) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = after.map_or(zero, |after| {
            let after = after.max(Duration::from_nanos(1));
            Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() }
        });
        let spec = Itimerspec { it_interval: zero, it_value: value };
        rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &spec)?;
        Ok(())
    }

    /// Returns the number of expirations and resets it.
    pub fn take(&self) -> u64 {
        let mut value = [0; 8];
        match rustix::io::read(&self.0, &mut value) {
            Ok(8) => u64::from_ne_bytes(value),
            _ => 0,
        }
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
