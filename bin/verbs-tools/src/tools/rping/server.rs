//! The server: serves one connection, or any number of them concurrently.

use std::collections::BTreeMap;

use weft_abi_types::{
    RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DEVICE_REMOVAL,
    RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ROUTE_ERROR,
    RDMA_CM_EVENT_UNREACHABLE,
};

use super::connection::Connection;
use super::options::Options;
use super::state::State;
use super::status::{FATAL, Status, debug};
use crate::cm_tools::perror;
use crate::output::print;
use weft_client::rdmacm::{CmId, Event, EventChannel, IdKey, readable};

/// Maximum number of pending connection requests.
const BACKLOG: i32 = 3;

/// The server.
pub struct Server<'a> {
    options: &'a Options,
    channel: EventChannel,
    listener: CmId,
    sessions: BTreeMap<IdKey, Session<'a>>,
}

/// The event that a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Accepting,
    ReadAdv,
    ReadComplete,
    WriteAdv,
    WriteComplete,
    /// The server has disconnected, but the queue pair has not flushed all requests yet.
    Ending(Result<(), Status>),
}

struct Session<'a> {
    options: &'a Options,
    phase: Phase,
    connection: Connection<'a>,
}

impl<'a> Server<'a> {
    /// Creates a server that will listen on `listener`.
    pub fn new(options: &'a Options, channel: EventChannel, listener: CmId) -> Server<'a> {
        Server { options, channel, listener, sessions: BTreeMap::new() }
    }

    /// Serves connections.
    ///
    /// # Errors
    /// The exit status.
    pub fn run(mut self) -> Result<(), Status> {
        self.listen()?;
        loop {
            let mut fds = vec![self.channel.fd()];
            let keys: Vec<_> = self.sessions.iter().filter_map(|(key, s)| Some((*key, s.connection.fd()?))).collect();
            fds.extend(keys.iter().map(|(_, fd)| *fd));
            let ready = readable(&fds, None).map_err(|_| FATAL)?;
            for ((key, _), _) in keys.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
                let Some(session) = self.sessions.get_mut(key) else { continue };
                for _ in 0..session.connection.on_completions() {
                    session.wake();
                }
            }
            if ready[0] {
                let event = self.channel.next().map_err(|e| {
                    perror("rdma_get_cm_event", &e);
                    FATAL
                })?;
                self.on_event(event)?;
            }
            if let Some(result) = self.remove_ended() {
                return result;
            }
        }
    }

    fn listen(&self) -> Result<(), Status> {
        let failed = |what: &str, e: &std::io::Error| {
            perror(what, e);
            -1
        };
        self.listener.bind(&self.options.addr).map_err(|e| failed("rdma_bind_addr", &e))?;
        debug!(self.options, "rdma_bind_addr successful\nrdma_listen");
        self.listener.listen(BACKLOG).map_err(|e| failed("rdma_listen", &e))
    }

    fn on_event(&mut self, mut event: Event) -> Result<(), Status> {
        let name = || self.channel.library().event_name(event.kind);
        let whose = if event.id == self.listener.key() { "parent" } else { "child" };
        debug!(self.options, "cma_event type {} cma_id {:#x} ({whose})", name(), event.id);
        match event.kind {
            RDMA_CM_EVENT_CONNECT_REQUEST => {
                if let Some(id) = event.incoming.take() {
                    debug!(self.options, "child cma {:#x}", id.key());
                    self.accept(&id)?;
                }
            }
            RDMA_CM_EVENT_ESTABLISHED => {
                debug!(self.options, "ESTABLISHED");
                self.wake(event.id, None);
            }
            RDMA_CM_EVENT_DISCONNECTED => {
                crate::errln!("server DISCONNECT EVENT...");
                self.wake(event.id, Some(State::Disconnected));
            }
            RDMA_CM_EVENT_ADDR_ERROR
            | RDMA_CM_EVENT_ROUTE_ERROR
            | RDMA_CM_EVENT_CONNECT_ERROR
            | RDMA_CM_EVENT_UNREACHABLE
            | RDMA_CM_EVENT_REJECTED => {
                crate::errln!("cma event {}, error {}", name(), event.status);
                return Err(FATAL);
            }
            RDMA_CM_EVENT_DEVICE_REMOVAL => {
                crate::errln!("cma detected device removal!!!!");
                return Err(FATAL);
            }
            _ => crate::errln!("unhandled event: {}, ignoring", name()),
        }
        Ok(())
    }

    fn wake(&mut self, id: IdKey, state: Option<State>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            if let Some(state) = state {
                session.connection.state = state;
            }
            session.wake();
        }
    }

    /// Accepts a connection request. A server for one connection leaves later requests pending.
    fn accept(&mut self, id: &CmId) -> Result<(), Status> {
        if !self.options.persistent && !self.sessions.is_empty() {
            return Ok(());
        }
        match Session::new(self.options, id) {
            Ok(session) => drop(self.sessions.insert(id.key(), session)),
            Err(status) if !self.options.persistent => return Err(status),
            Err(_) => {}
        }
        Ok(())
    }

    /// Removes ended connections. Without persistence, the first one ends the server with its result.
    fn remove_ended(&mut self) -> Option<Result<(), Status>> {
        let mut first = None;
        self.sessions.retain(|_, session| match session.phase {
            Phase::Ending(result) if session.connection.flushed => {
                first.get_or_insert(result);
                false
            }
            _ => true,
        });
        first.filter(|_| !self.options.persistent)
    }
}

impl<'a> Session<'a> {
    fn new(options: &'a Options, id: &CmId) -> Result<Session<'a>, Status> {
        let mut connection = Connection::new(options, id)?;
        connection.state = State::ConnectRequest;
        debug!(options, "accepting client connection request");
        let accepted = if options.own_qp {
            connection.modify_own_qp().and_then(|()| id.accept(Some(&connection.param())))
        } else {
            id.accept(None)
        };
        accepted.map_err(|e| {
            perror("rdma_accept", &e);
            crate::errln!("connect error -1");
            -1
        })?;
        Ok(Session { options, phase: Phase::Accepting, connection })
    }

    /// Handles an event that this connection waits for, up to its next wait.
    fn wake(&mut self) {
        self.phase = match self.step() {
            Ok(next) => next,
            Err(status) => self.end(status),
        };
    }

    fn step(&mut self) -> Result<Phase, Status> {
        let connection = &self.connection;
        let state = connection.state;
        match self.phase {
            Phase::Accepting if state == State::Error => {
                crate::errln!("wait for CONNECTED state {}", state.number());
                Err(-1)
            }
            Phase::Accepting => Ok(Phase::ReadAdv),
            Phase::ReadAdv => {
                state.expect(State::ReadAdv)?;
                debug!(self.options, "server received sink adv");
                connection.read()?;
                debug!(self.options, "server posted rdma read req ");
                Ok(Phase::ReadComplete)
            }
            Phase::ReadComplete => {
                state.expect(State::ReadComplete)?;
                debug!(self.options, "server received read complete");
                if self.options.verbose {
                    let text = connection.text(&connection.sink);
                    print(&format!("server ping data: {}\n", String::from_utf8_lossy(&text)));
                }
                connection.send()?;
                debug!(self.options, "server posted go ahead");
                Ok(Phase::WriteAdv)
            }
            Phase::WriteAdv => {
                state.expect(State::WriteAdv)?;
                debug!(self.options, "server received sink adv");
                connection.write_back()?;
                Ok(Phase::WriteComplete)
            }
            Phase::WriteComplete => {
                state.expect(State::WriteComplete)?;
                debug!(self.options, "server rdma write complete ");
                connection.send()?;
                debug!(self.options, "server posted go ahead");
                Ok(Phase::ReadAdv)
            }
            ending => Ok(ending),
        }
    }

    /// Ends the test; a disconnect by the client is not a failure.
    fn end(&mut self, status: Status) -> Phase {
        let result = if self.connection.state == State::Disconnected { Ok(()) } else { Err(status) };
        if let (Err(status), false) = (result, self.options.persistent) {
            let what = if self.phase == Phase::Accepting { "connect error" } else { "rping server failed:" };
            crate::errln!("{what} {status}");
        }
        self.connection.disconnect();
        Phase::Ending(result)
    }
}
