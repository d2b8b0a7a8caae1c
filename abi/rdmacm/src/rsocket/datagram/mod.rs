//! SOCK_DGRAM: unreliable datagrams over queue pairs, one for each local address, beside a socket of plain UDP.
//!
//! The UDP socket gives the datagram socket its address, and carries the first messages to a peer, whose reply contains
//! its queue pair number; from then on messages go there. The service thread reads the UDP socket.

pub(crate) mod core;
pub(crate) mod option;
pub(crate) mod queue_pair;
pub(crate) mod receive;
pub(crate) mod resolution;
pub(crate) mod send;
pub(crate) mod udp;

use libc::{c_int, pollfd};
use parking_lot::{Mutex, MutexGuard};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};

use self::core::{Core, PEERS_MAX};
use super::options::Options;
use super::service::{Owner, Service, service};
use super::wait::{self, Progress};
use super::wake::Waker;

/// A datagram socket.
pub(crate) struct Datagram {
    /// The plain UDP socket; its descriptor is the program's descriptor.
    socket: OwnedFd,
    key: u64,
    service: Arc<Service>,
    me: Weak<Datagram>,
    sending: Mutex<()>,
    core: Mutex<Core>,
}

impl Datagram {
    /// Creates a datagram socket; ENODEV without devices.
    pub(crate) fn new(family: c_int, options: Options) -> Result<Arc<Datagram>, c_int> {
        let service = service()?;
        let socket = udp::socket(family)?;
        let key = service.new_key();
        let core = Mutex::new(Core::new(options));
        let new =
            |me: &Weak<Datagram>| Datagram { socket, key, service, me: me.clone(), sending: Mutex::default(), core };
        let datagram = Arc::new_cyclic(new);
        datagram.service.enter(key, Owner::Socket(datagram.me.clone()));
        Ok(datagram)
    }

    /// Returns the program's descriptor.
    pub(crate) fn fd(&self) -> c_int {
        self.socket.as_raw_fd()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Whether a call with these flags returns instead of waiting.
    fn nonblocking(&self, flags: c_int) -> bool {
        flags & libc::MSG_DONTWAIT != 0 || self.lock().options.nonblocking()
    }

    pub(crate) fn bind(&self, address: SocketAddr) -> Result<(), c_int> {
        udp::bind(&self.socket, address)?;
        self.start(&mut self.lock())
    }

    /// Sets the default peer of sends.
    pub(crate) fn connect(&self, peer: SocketAddr) -> Result<(), c_int> {
        udp::connect(&self.socket, peer)?;
        let mut core = self.lock();
        self.start(&mut core)?;
        let peer = udp::plain(peer);
        self.reach(&mut core, peer, PEERS_MAX)?;
        core.connected = Some(peer);
        Ok(())
    }

    /// Starts receiving messages.
    fn start(&self, core: &mut Core) -> Result<(), c_int> {
        if core.started {
            return Ok(());
        }
        udp::ensure_port(&self.socket)?;
        core.settle_sizes();
        self.service.watch(&self.socket, self.key)?;
        core.started = true;
        Ok(())
    }

    /// Closes the socket, once all sends have completed.
    pub(crate) fn close(&self) {
        self.service.unwatch(&self.socket);
        self.service.leave(self.key);
        while let Err(libc::EINTR) = wait::until(&self.core, false, |core| core.idle().then_some(())).map(drop) {}
        let mut core = self.lock();
        core.closed = true;
        let (peers, queues) = (std::mem::take(&mut core.peers), std::mem::take(&mut core.queues));
        core.received.clear();
        core.wakers.wake();
        drop(core);
        drop((peers, queues));
    }

    /// Returns the ready ones of `events`.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        let mut core = self.lock();
        core.progress();
        core.ready(events)
    }

    /// As [`Datagram::ready`]; if none is ready, registers the thread to be woken by a change, and adds the descriptors
    /// to sleep on to `fds`.
    pub(crate) fn ready_or_register(&self, events: i16, waker: &Waker, fds: &mut Vec<pollfd>) -> i16 {
        let mut core = self.lock();
        core.arm();
        core.progress();
        let now = core.ready(events);
        core.wakers.register(waker);
        core.watch(fds);
        now
    }

    /// Unregisters after a sleep that [`Datagram::ready_or_register`] prepared.
    pub(crate) fn unregister(&self, waker: &Waker, readable: bool) {
        let mut core = self.lock();
        core.wakers.unregister(waker);
        if readable {
            core.drain();
        }
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        self.service.unwatch(&self.socket);
        self.service.leave(self.key);
    }
}
