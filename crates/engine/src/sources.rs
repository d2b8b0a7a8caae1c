//! Wake-up sources of a thread that serves while it sleeps: the sockets, the doorbell of the host's other processes,
//! their deaths. Threads of the program that wait for events sleep on them too ([`crate::event_waiter`]). The kernel
//! wakes only one of all those sleepers, and the background thread only if there is no other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use parking_lot::Mutex;
use weft_sys::epoll::{Epoll, Interest, Tokens};
use weft_sys::fork;

use crate::pump::Pump;

/// The descriptors: copies of the pump's.
#[derive(Debug)]
pub struct Sources {
    arrivals: Mutex<Arrivals>,
    /// Readable when another process of this host died, or rang a bell of its own.
    neighbours: Option<OwnedFd>,
    /// The number of the bell of the packet channel to a fabric's switches.
    packet_channel: Option<u64>,
    /// The set of the sockets of iWARP streams, from the first stream on.
    streams: OnceLock<OwnedFd>,
    /// Descriptor with which the background thread polls `backstop`.
    backstop_fd: OwnedFd,
}

#[derive(Debug)]
struct Arrivals {
    /// Sockets and the doorbell, each with its number.
    fds: Vec<(u64, OwnedFd)>,
    /// The set of them in which the background thread sleeps.
    backstop: Epoll,
}

/// Tokens in the sets of descriptors; each is a bit of [`weft_sys::epoll::Tokens`].
pub mod token {
    /// The descriptor that the thread itself waits for.
    pub const CHANNEL: u64 = 0;
    /// A signal for the thread.
    pub const SIGNAL: u64 = 1;
    /// Other processes of this host died, or rang their bells.
    pub const NEIGHBOURS: u64 = 2;
    /// The doorbell with which other processes of this host wake this one.
    pub const DOORBELL: u64 = 3;
    /// The first of the sockets.
    pub const SOCKETS: u64 = 4;
    /// The bell of the packet channel to a fabric's switches, behind the three sockets.
    pub const PACKET_CHANNEL: u64 = SOCKETS + 3;
    /// The set of the sockets of iWARP streams.
    pub const STREAMS: u64 = PACKET_CHANNEL + 1;
}

impl Sources {
    /// Copies the descriptors of a pump.
    pub fn new(pump: &mut Pump) -> io::Result<Sources> {
        let stack = &pump.stack;
        let sockets = [stack.v4(), stack.v6(), stack.ether(), stack.hops()].into_iter().zip(token::SOCKETS..);
        let packet_channel = stack.hops().map(|_| token::PACKET_CHANNEL);
        let sockets = sockets.filter_map(|(fd, number)| Some((number, fd?)));
        let sockets = sockets.map(|(number, fd)| Ok((number, fd.try_clone_to_owned()?)));
        let mut fds = sockets.collect::<io::Result<Vec<_>>>()?;
        let mut neighbours = None;
        if let Some(host) = pump.hca.peers().host() {
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
        let streams = OnceLock::new();
        Ok(Sources { arrivals: Mutex::new(arrivals), neighbours, packet_channel, streams, backstop_fd })
    }

    /// Adds the set of the sockets of iWARP streams. The kernel refuses EPOLLEXCLUSIVE for a set inside a set, so bytes
    /// of a stream wake every sleeper: the first one serves, and the others find nothing. While threads that wait serve often,
    /// the background thread does not watch at all ([`crate::driver`]). A thread that sleeps already adds the set
    /// before its next sleep ([`Sources::enlist_streams`]), and the background thread serves until then.
    pub fn add_streams(&self, set: BorrowedFd<'_>) -> io::Result<()> {
        let set = set.try_clone_to_owned()?;
        self.arrivals.lock().backstop.add(&set, token::STREAMS, Interest::READ)?;
        fork::track(&set);
        // The adder holds the pump's lock: there is no other.
        let _ = self.streams.set(set);
        Ok(())
    }

    /// Whether the set of streams is there.
    #[inline]
    pub fn has_streams(&self) -> bool {
        self.streams.get().is_some()
    }

    /// Adds the set of streams to the set on which a thread of the program sleeps. Returns whether there is one.
    pub fn enlist_streams(&self, set: &Epoll) -> io::Result<bool> {
        let Some(streams) = self.streams.get() else { return Ok(false) };
        set.add(streams, token::STREAMS, Interest::READ)?;
        Ok(true)
    }

    /// Adds the descriptors to the set on which a thread of the program sleeps. The kernel wakes it before threads
    /// added later, and always before the background thread.
    pub fn enlist(&self, set: &Epoll) -> io::Result<()> {
        let arrivals = self.arrivals.lock();
        for (number, fd) in &arrivals.fds {
            set.add_exclusive(fd, *number)?;
        }
        if let Some(neighbours) = &self.neighbours {
            set.add(neighbours, token::NEIGHBOURS, Interest::READ)?;
        }
        for (_, fd) in &arrivals.fds {
            arrivals.backstop.delete(fd)?;
        }
        arrivals.to_the_end()
    }

    /// Stops watching the packet channel's bell, which would stay readable for ever after its last ringer is gone. With
    /// its last descriptor every set forgets it.
    pub fn forget_packet_channel(&self, bell: OwnedFd) {
        fork::forget(&bell);
        drop(bell);
        let mut arrivals = self.arrivals.lock();
        let Some(at) = arrivals.fds.iter().position(|(number, _)| Some(*number) == self.packet_channel) else { return };
        let (_, copy) = arrivals.fds.remove(at);
        fork::forget(&copy);
    }

    /// Returns the token bit of the packet channel's bell, if there is one.
    pub fn packet_channel_tokens(&self) -> Tokens {
        self.packet_channel.map_or(0, |number| 1 << number)
    }

    /// Returns a descriptor that is readable after an arrival for which the kernel woke no other thread.
    pub fn backstop(&self) -> BorrowedFd<'_> {
        self.backstop_fd.as_fd()
    }

    /// Returns a descriptor that is readable when [`crate::engine::Engine::look_after_neighbours`] has work.
    pub fn neighbours(&self) -> Option<BorrowedFd<'_>> {
        self.neighbours.as_ref().map(OwnedFd::as_fd)
    }
}

impl Arrivals {
    /// Moves the background thread's set behind all others.
    fn to_the_end(&self) -> io::Result<()> {
        self.fds.iter().try_for_each(|(number, fd)| self.backstop.add_exclusive(fd, *number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pump::PumpConfig;
    use std::time::Duration;
    use weft_link::StackConfig;
    use weft_sys::event::EventFd;

    #[test]
    fn streams_wake_the_background_thread_and_threads_that_enlist_them() {
        let stack = StackConfig {
            v4: None,
            v6: None,
            slot: 1,
            ether: false,
            entropy: 1,
            faults: Vec::new(),
            capture: None,
            hops: None,
        };
        let mut pump = Pump::new(PumpConfig { slot: 1, seed: [1; 4], privileged: false, strict: None, stack });
        let sources = Sources::new(&mut pump).unwrap();
        let (streams, socket) = (Epoll::new().unwrap(), EventFd::new().unwrap());
        streams.add(&socket, 0, Interest::READ).unwrap();
        let sleeper = Epoll::new().unwrap();
        sources.enlist(&sleeper).unwrap();
        assert!(!sources.has_streams() && !sources.enlist_streams(&sleeper).unwrap());
        sources.add_streams(streams.as_fd()).unwrap();
        assert!(sources.has_streams() && sources.enlist_streams(&sleeper).unwrap());
        socket.signal();
        let mut ready = Vec::new();
        sleeper.wait(&mut ready, Some(Duration::ZERO)).unwrap();
        assert_eq!(ready.iter().map(|ready| ready.token).collect::<Vec<_>>(), [token::STREAMS]);
        assert!(weft_sys::epoll::wait_readable(sources.backstop(), Duration::ZERO).unwrap());
        socket.take();
        assert!(!weft_sys::epoll::wait_readable(sources.backstop(), Duration::ZERO).unwrap());
    }
}
