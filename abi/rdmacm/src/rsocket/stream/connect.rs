//! Connection setup: binding, listening, connecting, accepting. The service thread takes every step that follows an
//! event; calls only start the first, and wait.

use libc::c_int;
use std::sync::Arc;
use weft_abi_types::{
    RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_CONNECT_REQUEST,
    RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED,
    RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_UNREACHABLE,
};

use super::endpoint::Endpoint;
use super::{Core, Stream};
use crate::rsocket::address::Address;
use crate::rsocket::cm_id::CmId;
use crate::rsocket::event::{Event, NO_PARAM};
use crate::rsocket::proto::connect_data::ConnectData;
use crate::rsocket::proto::message::Control;
use crate::rsocket::proto::state::{Opening, State};
use crate::rsocket::service::Handler;
use crate::rsocket::wait::{self, Progress};

/// Maximum number of attempts to resolve an address or a route, each with twice the time limit of the previous one.
const ATTEMPTS_MAX: u32 = 7;
/// Time limit of the first attempt.
const RESOLVE_MS: c_int = 1000;
/// Minimum number of connections that a listener keeps for the program, whatever its backlog: beyond the backlog, TCP
/// lets a peer try again, but the connection manager refuses it.
const WAITING_MIN: c_int = 1024;
/// Retry count of requests; as RNR retry count it means unlimited.
const RETRY_COUNT: u8 = 7;

impl Stream {
    pub(crate) fn bind(&self, address: &Address) -> Result<(), c_int> {
        let mut core = self.lock();
        if core.state != State::Init {
            return Err(libc::EINVAL);
        }
        core.id()?.bind(address)?;
        core.state = State::Bound;
        Ok(())
    }

    pub(crate) fn listen(&self, backlog: c_int) -> Result<(), c_int> {
        let mut core = self.lock();
        let backlog = backlog.max(WAITING_MIN);
        core.queue.limit = backlog as usize;
        match core.state {
            State::Listening => Ok(()),
            State::Init | State::Bound => {
                core.id()?.listen(backlog)?;
                core.state = State::Listening;
                Ok(())
            }
            _ => Err(libc::EINVAL),
        }
    }

    /// Takes a ready connection, or waits for one.
    pub(crate) fn accept(&self) -> Result<Arc<Stream>, c_int> {
        let nonblocking = self.nonblocking(0);
        let (_, taken) = wait::until(&self.core, nonblocking, |core| match (core.state, &core.id) {
            (State::Listening, Some(_)) => core.queue.ready.pop_front().map(Ok),
            (State::Listening, None) => Some(Err(libc::EBADF)),
            (_, _) => Some(Err(libc::EINVAL)),
        })?;
        taken
    }

    /// Starts to connect, and waits until that ends; a non-blocking stream returns EINPROGRESS.
    pub(crate) fn connect(&self, peer: &Address) -> Result<(), c_int> {
        let mut core = self.lock();
        match core.state {
            State::Init | State::Bound => {
                core.peer = *peer;
                core.attempts = 0;
                core.resolve_address()?;
            }
            State::Opening(_) if core.options.nonblocking() => return Err(libc::EALREADY),
            State::Opening(_) => {}
            State::Connected { .. } => return Err(libc::EISCONN),
            State::Failed | State::Disconnected | State::Broken => return Err(libc::ENOTCONN),
            State::Listening => return Err(libc::EINVAL),
        }
        let nonblocking = core.options.nonblocking();
        drop(core);
        self.wait_opened(nonblocking).map_err(|errno| if errno == libc::EAGAIN { libc::EINPROGRESS } else { errno })
    }

    /// Waits until connection setup has succeeded or failed.
    pub(super) fn wait_opened(&self, nonblocking: bool) -> Result<(), c_int> {
        let (_, opened) = wait::until(&self.core, nonblocking, |core| match core.state {
            _ if core.id.is_none() => Some(Err(libc::EBADF)),
            State::Opening(_) => None,
            State::Failed => Some(Err(match core.take_error() {
                0 => libc::ECONNREFUSED,
                errno => errno,
            })),
            _ => Some(Ok(())),
        })?;
        opened
    }

    /// Moves a listener's connection to the program's queue, or drops it if its setup failed.
    fn hand_over(&self, connected: bool) {
        let Some(listener) = self.listener.upgrade() else { return };
        let mut core = listener.lock();
        let this = core.queue.opening.remove(&self.key);
        if connected {
            core.queue.ready.extend(this.clone());
            core.wakers.wake();
        }
        drop(core);
        drop(this);
    }

    /// Handles a peer's connection request.
    fn on_request(&self, mut event: Event) {
        let Some(id) = event.request.take().map(CmId::adopt) else { return };
        let mut core = self.lock();
        let waiting = core.queue.opening.len() + core.queue.ready.len();
        if core.state != State::Listening || core.id.is_none() || waiting >= core.queue.limit {
            drop(core);
            return id.reject();
        }
        let Some(data) = ConnectData::decode(&event.private) else {
            drop(core);
            return id.reject();
        };
        let mut options = core.options.clone();
        options.keep_alive = false;
        // Like accept(2): an accepted stream blocks, whatever its listener's flags.
        (options.file_flags, options.descriptor_flags) = (0, 0);
        let new = Core::new(options, core.peer.family(), id);
        let key = self.service.new_key();
        let Ok(stream) = Stream::with(self.service.clone(), key, self.me.clone(), new) else { return };
        core.queue.opening.insert(key, stream.clone());
        drop(core);
        let accepted = stream.lock().accept(key, &event, &data);
        if accepted.is_err() {
            self.lock().queue.opening.remove(&key);
            if let Ok(id) = stream.lock().id() {
                id.reject();
            }
        }
    }
}

impl Handler for Stream {
    fn on_event(&self, event: Event) -> Option<Event> {
        if event.kind == RDMA_CM_EVENT_CONNECT_REQUEST {
            self.on_request(event);
            return None;
        }
        let mut core = self.lock();
        let before = core.state;
        match (core.state, event.kind) {
            (State::Opening(opening), kind) => {
                if let Err(errno) = core.on_step(opening, kind, &event) {
                    core.error = errno;
                    core.state = State::Failed;
                }
            }
            (State::Connected { .. }, RDMA_CM_EVENT_DISCONNECTED) => core.on_disconnected(),
            // Without the daemon there are no new connections; established ones continue.
            (State::Init | State::Bound | State::Listening, RDMA_CM_EVENT_DEVICE_REMOVAL) => {
                core.error = libc::ENODEV;
                core.state = State::Failed;
            }
            _ => {}
        }
        let after = core.state;
        core.wakers.wake();
        drop(core);
        if before == State::Opening(Opening::Accepting) && after != before {
            self.hand_over(after.connected());
        }
        None
    }

    fn send_keepalive(&self) {
        let mut core = self.lock();
        core.progress();
        let connected = core.state.connected();
        let posted = match &mut core.endpoint {
            Some(endpoint) if connected && endpoint.control.available() => endpoint.post_control(Control::KeepAlive),
            _ => Ok(()),
        };
        if let Err(errno) = posted {
            core.break_with(errno);
        }
    }
}

impl Core {
    fn resolve_address(&mut self) -> Result<(), c_int> {
        let limit = RESOLVE_MS << self.attempts;
        self.attempts += 1;
        let peer = self.peer;
        self.id()?.resolve_addr(None, &peer, limit)?;
        self.state = State::Opening(Opening::Address);
        Ok(())
    }

    fn resolve_route(&mut self) -> Result<(), c_int> {
        let limit = RESOLVE_MS << self.attempts;
        self.attempts += 1;
        match self.options.route.take() {
            Some(mut path) => self.id()?.set_path(&mut path)?,
            None => self.id()?.resolve_route(limit)?,
        }
        self.state = State::Opening(Opening::Route);
        Ok(())
    }

    /// Handles an event during connection setup.
    fn on_step(&mut self, opening: Opening, kind: u32, event: &Event) -> Result<(), c_int> {
        let again = event.errno == libc::ETIMEDOUT && self.attempts < ATTEMPTS_MAX;
        match (opening, kind) {
            (Opening::Address, RDMA_CM_EVENT_ADDR_RESOLVED) => {
                self.attempts = 0;
                self.resolve_route()
            }
            (Opening::Address, RDMA_CM_EVENT_ADDR_ERROR) if again => self.resolve_address(),
            (Opening::Route, RDMA_CM_EVENT_ROUTE_RESOLVED) => self.ask(),
            (Opening::Route, RDMA_CM_EVENT_ROUTE_ERROR) if again => self.resolve_route(),
            (Opening::Answer, RDMA_CM_EVENT_ESTABLISHED) => self.on_answer(&event.private),
            (Opening::Accepting, RDMA_CM_EVENT_ESTABLISHED) => {
                self.state = State::OPEN;
                Ok(())
            }
            (_, RDMA_CM_EVENT_REJECTED) => Err(libc::ECONNREFUSED),
            (_, RDMA_CM_EVENT_DEVICE_REMOVAL) => Err(libc::ENODEV),
            (
                _,
                RDMA_CM_EVENT_ADDR_ERROR
                | RDMA_CM_EVENT_ROUTE_ERROR
                | RDMA_CM_EVENT_CONNECT_ERROR
                | RDMA_CM_EVENT_UNREACHABLE
                | RDMA_CM_EVENT_DISCONNECTED,
            ) => Err(if event.errno == 0 { libc::ECONNRESET } else { event.errno }),
            _ => Ok(()),
        }
    }

    /// Sends the connection request.
    fn ask(&mut self) -> Result<(), c_int> {
        let Core { id, options, .. } = self;
        let id = id.as_ref().ok_or(libc::EBADF)?;
        let endpoint = Endpoint::new(id, options)?;
        let mut param = NO_PARAM;
        param.flow_control = 1;
        param.retry_count = RETRY_COUNT;
        param.rnr_retry_count = RETRY_COUNT;
        let private = endpoint.connect_data().encode();
        let asked = id.connect(&mut param, &private);
        self.endpoint = Some(endpoint);
        asked?;
        self.state = State::Opening(Opening::Answer);
        Ok(())
    }

    /// Handles the peer's acceptance.
    fn on_answer(&mut self, private: &[u8]) -> Result<(), c_int> {
        let data = ConnectData::decode(private).ok_or(libc::ENOTSUP)?;
        self.endpoint.as_mut().ok_or(libc::EBADF)?.set_peer(&data);
        self.state = State::OPEN;
        Ok(())
    }

    /// Accepts a peer's connection request.
    fn accept(&mut self, key: u64, event: &Event, data: &ConnectData) -> Result<(), c_int> {
        let Core { id, options, .. } = self;
        let id = id.as_ref().ok_or(libc::EBADF)?;
        id.set_key(key);
        let mut endpoint = Endpoint::new(id, options)?;
        endpoint.set_peer(data);
        let private = endpoint.connect_data().encode();
        let mut param = event.param;
        self.endpoint = Some(endpoint);
        self.state = State::Opening(Opening::Accepting);
        let accepted = self.id()?.accept(&mut param, &private);
        if accepted.is_err() {
            self.state = State::Failed;
        }
        accepted
    }

    /// Handles the peer's disconnect: all data that it had sent has arrived.
    fn on_disconnected(&mut self) {
        self.progress();
        if self.state.connected() {
            self.state = State::Disconnected;
        }
        if let Ok(id) = self.id() {
            id.disconnect();
        }
    }
}
