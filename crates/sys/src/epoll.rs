//! epoll with a number for each source, and a reusable list of ready sources.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::cancel::Shield;
use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags};

/// The events to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest {
    /// Data to read, or end of file.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Interest = Interest { readable: true, writable: false };
    /// Both.
    pub const BOTH: Interest = Interest { readable: true, writable: true };
    /// Writing only.
    pub const WRITE: Interest = Interest { readable: false, writable: true };
    /// Neither: only errors and hang-ups.
    pub const NONE: Interest = Interest { readable: false, writable: false };

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.readable);
        flags.set(EventFlags::OUT, self.writable);
        flags
    }
}

/// One source that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The number passed to [`Epoll::add`].
    pub token: u64,
    /// Reading will not block.
    pub readable: bool,
    /// Writing will not block.
    pub writable: bool,
    /// The other end is closed, or the source failed.
    pub hung_up: bool,
}

/// An epoll instance; level-triggered.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Creates an instance, close-on-exec.
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll(rustix::event::epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a source. The caller removes it before closing it, unless no duplicate of it exists.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(rustix::event::epoll::add(&self.0, source, EventData::new_u64(token), interest.flags())?)
    }

    /// Watches a source for reading with EPOLLEXCLUSIVE. When it becomes readable, the kernel wakes only one of the
    /// instances with a waiting thread: the one that the source was added to first.
    pub fn add_exclusive(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        Ok(rustix::event::epoll::add(&self.0, source, EventData::new_u64(token), flags)?)
    }

    /// Changes what a source is watched for.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(rustix::event::epoll::modify(&self.0, source, EventData::new_u64(token), interest.flags())?)
    }

    /// Removes a source.
    pub fn delete(&self, source: impl AsFd) -> io::Result<()> {
        Ok(rustix::event::epoll::delete(&self.0, source)?)
    }

    /// Removes a source that may have been closed since. Fails if it was closed: the kernel still watches it while a
    /// duplicate is open.
    pub fn delete_number(&self, source: RawFd) -> io::Result<()> {
        // SAFETY: EPOLL_CTL_DEL reads no memory.
        let result = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, source, std::ptr::null_mut()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sleeps until a source is ready or the timeout ends (`None` = no limit); a signal ends it early with an empty
    /// list.
    pub fn wait(&self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        const EVENTS_PER_CALL: usize = 64;
        ready.clear();
        let mut events = [std::mem::MaybeUninit::<Event>::uninit(); EVENTS_PER_CALL];
        let limit = timeout.map(|timeout| rustix::time::Timespec {
            // The kernel refuses a timeout above its own bound.
            tv_sec: timeout.as_secs().min(1 << 20) as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let (events, _) = match rustix::event::epoll::wait(&self.0, &mut events, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            result => result?,
        };
        ready.extend(events.iter().map(|event| {
            let Event { flags, data } = *event;
            Ready {
                token: data.u64(),
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                hung_up: flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP),
            }
        }));
        Ok(())
    }
}

/// The ready sources: one bit for each source number, which is below 64.
pub type Tokens = u64;

impl Epoll {
    /// As [`Epoll::wait`], in a program's thread that may be cancelled meanwhile.
    pub fn wait_cancellable(&self, shield: &Shield, timeout: Option<Duration>) -> Tokens {
        const EVENTS_PER_CALL: usize = 8;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_PER_CALL];
        let (fd, room) = (self.0.as_raw_fd(), events.as_mut_ptr());
        let (no_mask, mask_bytes) = (std::ptr::null::<u64>(), size_of::<u64>());
        // SAFETY: there is room for as many events as requested, and no mask.
        let in_milliseconds = |limit: libc::c_int| unsafe {
            libc::syscall(libc::SYS_epoll_pwait, fd, room, EVENTS_PER_CALL, limit, no_mask, mask_bytes)
        };
        let ready = match timeout {
            None => shield.lift(|| in_milliseconds(-1)),
            Some(timeout) => {
                let seconds = timeout.as_secs().min(1 << 20) as libc::time_t;
                let limit = libc::timespec { tv_sec: seconds, tv_nsec: timeout.subsec_nanos().into() };
                let limit = &raw const limit;
                // SAFETY: as above, with a time limit.
                let ready = shield.lift(|| unsafe {
                    libc::syscall(libc::SYS_epoll_pwait2, fd, room, EVENTS_PER_CALL, limit, no_mask, mask_bytes)
                });
                // Before Linux 5.11.
                if ready < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
                    let limit = timeout.as_nanos().div_ceil(1_000_000).min(1 << 30);
                    shield.lift(|| in_milliseconds(limit as libc::c_int))
                } else {
                    ready
                }
            }
        };
        let ready = usize::try_from(ready).unwrap_or(0);
        events.iter().take(ready).fold(0, |tokens, event| tokens | 1 << (event.u64 & 63))
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns which of the descriptors are readable now, without sleeping; all of them if the kernel does not say.
pub fn readable<const N: usize>(fds: [BorrowedFd<'_>; N]) -> [bool; N] {
    let mut fds = fds.map(|fd| rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN));
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_known = rustix::event::poll(&mut fds, Some(&now)).is_ok();
    fds.map(|fd| !is_known || !fd.revents().is_empty())
}

/// Waits until a descriptor is readable or hung up; returns false on timeout. A signal does not end the wait.
pub fn wait_readable(fd: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let deadline = std::time::Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        let limit = rustix::time::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&limit)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
    }
}
