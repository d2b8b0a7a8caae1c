//! What a thread that serves while it sleeps is woken by: the sockets, the doorbell of the host's other processes, their
//! deaths. Threads of the program that wait for events sleep at them too ([`crate::stand_in`]); of all those sleepers the
//! kernel wakes one, and the background thread only if there is no other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use weft_sys::epoll::Epoll;
use weft_sys::fork;

use crate::pump::Pump;

/// The descriptors, copies of what the pump has.
#[derive(Debug)]
pub struct Sources {
    /// Sockets and the doorbell, each with its number.
    arrivals: Vec<(u64, OwnedFd)>,
    /// Readable when another process of this host died, or rang a bell of its own.
    neighbours: Option<OwnedFd>,
    /// The arrivals, as the background thread sleeps at them.
    backstop: Mutex<Epoll>,
    /// What that is polled by.
    backstop_fd: OwnedFd,
}

/// What numbers stand for in the sets of descriptors; each is a bit of [`weft_sys::epoll::Tokens`].
pub mod token {
    /// What the thread waits for itself.
    pub const CHANNEL: u64 = 0;
    /// A signal for the thread.
    pub const SIGNAL: u64 = 1;
    /// Other processes of this host died, or rang.
    pub const NEIGHBOURS: u64 = 2;
    /// What other processes of this host wake ours by.
    pub const DOORBELL: u64 = 3;
    /// The first of the sockets.
    pub const SOCKETS: u64 = 4;
}

impl Sources {
    /// Those of a pump.
    pub fn new(pump: &mut Pump) -> io::Result<Sources> {
        let stack = &pump.stack;
        let sockets = [stack.v4(), stack.v6(), stack.ether(), stack.hops()].into_iter().flatten().zip(token::SOCKETS..);
        let sockets = sockets.map(|(fd, number)| Ok((number, fd.try_clone_to_owned()?)));
        let mut arrivals = sockets.collect::<io::Result<Vec<_>>>()?;
        let mut neighbours = None;
        if let Some(host) = pump.hca.memory().same_host.host() {
            arrivals.push((token::DOORBELL, host.doorbell().as_fd().try_clone_to_owned()?));
            neighbours = Some(host.watch().try_clone_to_owned()?);
        }
        let backstop = Epoll::new()?;
        let backstop_fd = backstop.as_fd().try_clone_to_owned()?;
        for fd in arrivals.iter().map(|(_, fd)| fd).chain(&neighbours).chain([&backstop_fd]) {
            fork::track(fd);
        }
        fork::track(&backstop);
        let sources = Sources { arrivals, neighbours, backstop: Mutex::new(backstop), backstop_fd };
        sources.to_the_end(&sources.backstop.lock())?;
        Ok(sources)
    }

    /// Add them to the set that a thread of the program sleeps at. It is woken before those that were added later, and
    /// always before the background thread.
    pub fn enlist(&self, set: &Epoll) -> io::Result<()> {
        let backstop = self.backstop.lock();
        for (number, fd) in &self.arrivals {
            set.add_exclusive(fd, *number)?;
        }
        if let Some(neighbours) = &self.neighbours {
            set.add(neighbours, token::NEIGHBOURS, weft_sys::epoll::Interest::READ)?;
        }
        for (_, fd) in &self.arrivals {
            backstop.delete(fd)?;
        }
        self.to_the_end(&backstop)
    }

    /// The set that the background thread sleeps at comes behind all others.
    fn to_the_end(&self, backstop: &Epoll) -> io::Result<()> {
        self.arrivals.iter().try_for_each(|(number, fd)| backstop.add_exclusive(fd, *number))
    }

    /// Readable when something came that nobody else was woken for.
    pub fn backstop(&self) -> BorrowedFd<'_> {
        self.backstop_fd.as_fd()
    }

    /// Readable when [`crate::engine::Engine::look_after_neighbours`] has something to do.
    pub fn neighbours(&self) -> Option<BorrowedFd<'_>> {
        self.neighbours.as_ref().map(OwnedFd::as_fd)
    }
}
