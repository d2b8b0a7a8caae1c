//! What a thread that serves while it sleeps is woken by: the sockets, the doorbell of the host's other processes, their
//! deaths. Threads of the program that wait for events sleep at them too ([`crate::stand_in`]); of all those sleepers the
//! kernel wakes one, and the background thread only if there is no other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use weft_sys::epoll::{Epoll, Tokens};
use weft_sys::fork;

use crate::pump::Pump;

/// The descriptors, copies of what the pump has.
#[derive(Debug)]
pub struct Sources {
    arrivals: Mutex<Arrivals>,
    /// Readable when another process of this host died, or rang a bell of its own.
    neighbours: Option<OwnedFd>,
    /// The number of the bell of the cable to a fabric's switches.
    cable: Option<u64>,
    /// What that is polled by.
    backstop_fd: OwnedFd,
}

#[derive(Debug)]
struct Arrivals {
    /// Sockets and the doorbell, each with its number.
    fds: Vec<(u64, OwnedFd)>,
    /// They, as the background thread sleeps at them.
    backstop: Epoll,
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
    /// The bell of the cable to a fabric's switches, behind the three sockets.
    pub const CABLE: u64 = SOCKETS + 3;
}

impl Sources {
    /// Those of a pump.
    pub fn new(pump: &mut Pump) -> io::Result<Sources> {
        let stack = &pump.stack;
        let sockets = [stack.v4(), stack.v6(), stack.ether(), stack.hops()].into_iter().zip(token::SOCKETS..);
        let cable = stack.hops().map(|_| token::CABLE);
        let sockets = sockets.filter_map(|(fd, number)| Some((number, fd?)));
        let sockets = sockets.map(|(number, fd)| Ok((number, fd.try_clone_to_owned()?)));
        let mut fds = sockets.collect::<io::Result<Vec<_>>>()?;
        let mut neighbours = None;
        if let Some(host) = pump.hca.memory().same_host.host() {
            fds.push((token::DOORBELL, host.doorbell().as_fd().try_clone_to_owned()?));
            neighbours = Some(host.watch().try_clone_to_owned()?);
        }
        let backstop = Epoll::new()?;
        let backstop_fd = backstop.as_fd().try_clone_to_owned()?;
        for fd in fds.iter().map(|(_, fd)| fd).chain(&neighbours).chain([&backstop_fd]) {
            fork::track(fd);
        }
        fork::track(&backstop);
        let arrivals = Arrivals { fds, backstop };
        arrivals.to_the_end()?;
        Ok(Sources { arrivals: Mutex::new(arrivals), neighbours, cable, backstop_fd })
    }

    /// Add them to the set that a thread of the program sleeps at. It is woken before those that were added later, and
    /// always before the background thread.
    pub fn enlist(&self, set: &Epoll) -> io::Result<()> {
        let arrivals = self.arrivals.lock();
        for (number, fd) in &arrivals.fds {
            set.add_exclusive(fd, *number)?;
        }
        if let Some(neighbours) = &self.neighbours {
            set.add(neighbours, token::NEIGHBOURS, weft_sys::epoll::Interest::READ)?;
        }
        for (_, fd) in &arrivals.fds {
            arrivals.backstop.delete(fd)?;
        }
        arrivals.to_the_end()
    }

    /// Nobody rings the cable's bell any more: it would be readable for ever. With its last descriptor every set forgets it.
    pub fn forget_cable(&self, bell: OwnedFd) {
        fork::forget(&bell);
        drop(bell);
        let mut arrivals = self.arrivals.lock();
        let Some(at) = arrivals.fds.iter().position(|(number, _)| Some(*number) == self.cable) else { return };
        let (_, copy) = arrivals.fds.remove(at);
        fork::forget(&copy);
    }

    /// The bit of the cable's bell, if there is one.
    pub fn cable_tokens(&self) -> Tokens {
        self.cable.map_or(0, |number| 1 << number)
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

impl Arrivals {
    /// The set that the background thread sleeps at comes behind all others.
    fn to_the_end(&self) -> io::Result<()> {
        self.fds.iter().try_for_each(|(number, fd)| self.backstop.add_exclusive(fd, *number))
    }
}
