//! A stream and the state that its lock guards.

use libc::{c_int, pollfd};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};
use weft_abi_types::RDMA_PS_TCP;
use weft_sys::event::EventFd;

use super::endpoint::Endpoint;
use super::mappings::Mappings;
use crate::rsocket::address::Address;
use crate::rsocket::cm_id::CmId;
use crate::rsocket::options::Options;
use crate::rsocket::proto::message::Control;
use crate::rsocket::proto::state::{Direction, State};
use crate::rsocket::service::{Owner, Service, errno_of, service};
use crate::rsocket::wait;
use crate::rsocket::wake::{Waker, Wakers};

/// A stream.
pub(crate) struct Stream {
    /// Its descriptor serves only as a unique number.
    number: EventFd,
    pub(super) key: u64,
    pub(super) service: Arc<Service>,
    pub(super) me: Weak<Stream>,
    pub(super) listener: Weak<Stream>,
    pub(super) sending: Mutex<()>,
    pub(super) receiving: Mutex<()>,
    pub(super) core: Mutex<Core>,
}

/// The state of a stream. Fields are dropped in their order.
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) state: State,
    /// The error that SO_ERROR returns once.
    pub(crate) error: c_int,
    pub(super) wakers: Wakers,
    pub(super) queue: Queue,
    /// The peer, and the number of attempts to reach it.
    pub(super) peer: Address,
    pub(super) attempts: u32,
    pub(super) mappings: Mappings,
    pub(super) endpoint: Option<Endpoint>,
    /// `None` once the stream is closed.
    pub(super) id: Option<CmId>,
}

/// A listener's connections.
#[derive(Default)]
pub(super) struct Queue {
    /// Maximum number of waiting connections.
    pub(super) limit: usize,
    /// Being accepted.
    pub(super) opening: BTreeMap<u64, Arc<Stream>>,
    /// Ready for `raccept`.
    pub(super) ready: VecDeque<Arc<Stream>>,
}

impl Core {
    pub(super) fn new(options: Options, family: c_int, id: CmId) -> Core {
        Core {
            options,
            state: State::Init,
            error: 0,
            wakers: Wakers::default(),
            queue: Queue::default(),
            peer: Address::of_family(family),
            attempts: 0,
            mappings: Mappings::default(),
            endpoint: None,
            id: Some(id),
        }
    }

    /// Returns the identifier; EBADF once the stream is closed.
    pub(super) fn id(&self) -> Result<&CmId, c_int> {
        self.id.as_ref().ok_or(libc::EBADF)
    }

    /// Whether data can be sent now.
    pub(crate) fn can_send(&mut self) -> bool {
        self.endpoint.as_mut().is_some_and(Endpoint::can_send)
    }

    /// Whether data waits.
    pub(crate) fn has_data(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.inbound.has_data())
    }

    /// Marks the connection as broken.
    pub(super) fn break_with(&mut self, errno: c_int) {
        if self.state.connected() {
            self.state = State::Broken;
            self.error = errno;
        }
        self.wakers.wake();
    }

    /// Returns the pending error, once.
    pub(crate) fn take_error(&mut self) -> c_int {
        std::mem::take(&mut self.error)
    }
}

impl Stream {
    /// Creates a stream; ENODEV without devices.
    pub(crate) fn new(family: c_int, options: Options) -> Result<Arc<Stream>, c_int> {
        let service = service()?;
        let key = service.new_key();
        let id = service.create_id(key, RDMA_PS_TCP)?;
        Stream::with(service, key, Weak::new(), Core::new(options, family, id))
    }

    pub(super) fn with(
        service: Arc<Service>,
        key: u64,
        listener: Weak<Stream>,
        core: Core,
    ) -> Result<Arc<Stream>, c_int> {
        let number = EventFd::new().map_err(errno_of)?;
        let (sending, receiving) = Default::default();
        let core = Mutex::new(core);
        let stream =
            Arc::new_cyclic(|me| Stream { number, key, service, me: me.clone(), listener, sending, receiving, core });
        stream.service.enter(key, Owner::Socket(stream.me.clone()));
        Ok(stream)
    }

    /// Returns the program's descriptor.
    pub(crate) fn fd(&self) -> c_int {
        self.number.as_raw_fd()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Locks a direction for one call; EAGAIN if another thread holds it and this one must not wait.
    pub(super) fn hold(direction: &Mutex<()>, nonblocking: bool) -> Result<MutexGuard<'_, ()>, c_int> {
        if nonblocking { direction.try_lock().ok_or(libc::EAGAIN) } else { Ok(direction.lock()) }
    }

    /// Whether a call with these flags returns instead of waiting.
    pub(super) fn nonblocking(&self, flags: c_int) -> bool {
        flags & libc::MSG_DONTWAIT != 0 || self.lock().options.nonblocking()
    }

    /// Returns our address.
    pub(crate) fn local_address(&self) -> Result<Address, c_int> {
        let core = self.lock();
        let own = core.id()?.source();
        // An unbound stream has at least its family.
        Ok(if own.family() == 0 { Address::of_family(core.peer.family()) } else { own })
    }

    /// Returns the peer's address.
    pub(crate) fn peer_address(&self) -> Result<Address, c_int> {
        let core = self.lock();
        match core.state {
            State::Connected { .. } | State::Disconnected | State::Broken => Ok(core.id()?.destination()),
            _ => Err(libc::ENOTCONN),
        }
    }

    /// Shuts a direction, and waits until all sent data has arrived.
    pub(crate) fn shutdown(&self, how: Direction) -> Result<(), c_int> {
        self.service.let_die(self.key);
        let mut core = self.lock();
        if !core.state.connected() {
            return if core.state.over() { Ok(()) } else { Err(libc::ENOTCONN) };
        }
        let (state, told) = core.state.on_shutdown(how);
        core.state = state;
        core.wakers.wake();
        let Some(told) = told else { return Ok(()) };
        drop(core);
        self.tell(told)?;
        wait_to_the_end(|| {
            wait::until(&self.core, false, |core| {
                let idle = core.endpoint.as_ref().is_none_or(Endpoint::idle);
                (idle || !core.state.connected()).then_some(())
            })
            .map(drop)
        })
    }

    /// Sends a control message as soon as there is room for one.
    fn tell(&self, told: Control) -> Result<(), c_int> {
        wait_to_the_end(|| {
            let (mut core, ()) = wait::until(&self.core, false, |core| {
                let free = core.endpoint.as_ref().is_none_or(|endpoint| endpoint.control.available());
                (free || !core.state.connected()).then_some(())
            })?;
            let connected = core.state.connected();
            match &mut core.endpoint {
                Some(endpoint) if connected => endpoint.post_control(told),
                _ => Ok(()),
            }
        })
    }

    /// Closes the stream. Threads that wait for it wake up, and find it closed.
    pub(crate) fn close(&self) {
        // If the message cannot be sent, the connection manager notifies the peer.
        let _ = self.shutdown(Direction::Both);
        self.service.leave(self.key);
        let mut core = self.lock();
        if core.state.connected() {
            core.state = State::Disconnected;
        }
        let queue = std::mem::take(&mut core.queue);
        let (mappings, endpoint, id) = (std::mem::take(&mut core.mappings), core.endpoint.take(), core.id.take());
        core.wakers.wake();
        drop(core);
        drop((queue, endpoint, mappings, id));
    }

    /// Returns the ready ones of `events`.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        let mut core = self.lock();
        wait::Progress::progress(&mut *core);
        ready(&mut core, events)
    }

    /// As [`Stream::ready`]; if none is ready, registers the thread to be woken by a change, and adds the descriptors
    /// to sleep on to `fds`.
    pub(crate) fn ready_or_register(&self, events: i16, waker: &Waker, fds: &mut Vec<pollfd>) -> i16 {
        let mut core = self.lock();
        wait::Progress::arm(&mut *core);
        wait::Progress::progress(&mut *core);
        let now = ready(&mut core, events);
        core.wakers.register(waker);
        wait::Progress::watch(&*core, fds);
        now
    }

    /// Unregisters after a sleep that [`Stream::ready_or_register`] prepared.
    pub(crate) fn unregister(&self, waker: &Waker, readable: bool) {
        let mut core = self.lock();
        core.wakers.unregister(waker);
        if readable {
            wait::Progress::drain(&mut *core);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.service.leave(self.key);
    }
}

/// Repeats a wait that signals interrupted.
fn wait_to_the_end(mut wait: impl FnMut() -> Result<(), c_int>) -> Result<(), c_int> {
    loop {
        match wait() {
            Err(libc::EINTR) => {}
            other => return other,
        }
    }
}

/// Returns the ready events of a stream, as poll(2) reports them.
fn ready(core: &mut Core, events: i16) -> i16 {
    const IN: i16 = libc::POLLIN | libc::POLLRDNORM;
    const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM;
    match core.state {
        State::Init | State::Bound | State::Opening(_) => 0,
        State::Listening => {
            if core.queue.ready.is_empty() {
                0
            } else {
                events & IN
            }
        }
        State::Failed => events & (IN | OUT) | libc::POLLERR,
        State::Connected { .. } | State::Disconnected | State::Broken => {
            let mut ready = 0;
            if core.has_data() || !core.state.readable() {
                ready |= events & IN;
            }
            if !core.state.readable() {
                ready |= events & libc::POLLRDHUP;
            }
            if core.can_send() {
                ready |= events & OUT;
            }
            match core.state {
                // Programs take a hang-up for the end, and would not read the data before it.
                State::Disconnected if core.has_data() && events & IN != 0 => ready,
                State::Disconnected => ready | libc::POLLHUP,
                State::Broken => ready | libc::POLLERR,
                _ => ready,
            }
        }
    }
}
