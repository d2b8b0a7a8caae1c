//! The client: connects, pings, checks the answers, disconnects.

use std::time::{Duration, Instant};

use weft_abi_types::{
    RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_CONNECT_RESPONSE,
    RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED,
    RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_UNREACHABLE,
};

use super::connection::Connection;
use super::options::Options;
use super::state::State;
use super::status::{FATAL, Status, debug};
use crate::cm_tools::perror;
use crate::output::print;
use weft_client::rdmacm::{CmId, EventChannel, readable};

/// Timeout for resolving an address or a route, in milliseconds.
const RESOLVE_MS: i32 = 2000;
/// Time limit for a peer to confirm a disconnect.
const DISCONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// The client.
pub struct Client<'a> {
    options: &'a Options,
    channel: EventChannel,
    id: CmId,
    /// State before there is a connection.
    state: State,
    connection: Option<Connection<'a>>,
    /// Events that no wait has consumed yet.
    wakes: u32,
}

impl<'a> Client<'a> {
    /// Creates a client that will connect `id`.
    pub fn new(options: &'a Options, channel: EventChannel, id: CmId) -> Client<'a> {
        Client { options, channel, id, state: State::Idle, connection: None, wakes: 0 }
    }

    /// Runs the pings.
    ///
    /// # Errors
    /// The exit status.
    pub fn run(mut self) -> Result<(), Status> {
        self.resolve()?;
        self.connection = Some(Connection::new(self.options, &self.id)?);
        self.connect().inspect_err(|status| crate::errln!("connect error {status}"))?;
        let result = self.ping();
        let result = if self.state() == State::Disconnected { Ok(()) } else { result };
        if let Err(status) = result {
            crate::errln!("rping client failed: {status}");
        }
        self.disconnect();
        result
    }

    fn state(&self) -> State {
        self.connection.as_ref().map_or(self.state, |connection| connection.state)
    }

    fn set_state(&mut self, state: State) {
        match &mut self.connection {
            Some(connection) => connection.state = state,
            None => self.state = state,
        }
    }

    fn resolve(&mut self) -> Result<(), Status> {
        let resolving = self.id.resolve_addr(self.options.source.as_ref(), &self.options.addr, RESOLVE_MS);
        resolving.map_err(|e| failed("rdma_resolve_addr", &e))?;
        self.wait()?;
        if self.state() != State::RouteResolved {
            crate::errln!("waiting for addr/route resolution state {}", self.state().number());
            return Err(-1);
        }
        debug!(self.options, "rdma_resolve_addr - rdma_resolve_route successful");
        Ok(())
    }

    fn connect(&mut self) -> Result<(), Status> {
        let Some(connection) = &self.connection else { return Err(-1) };
        self.id.connect(&connection.param()).map_err(|e| failed("rdma_connect", &e))?;
        self.wait()?;
        self.state().expect(State::Connected)?;
        if self.options.own_qp
            && let Some(connection) = &self.connection
        {
            connection.modify_own_qp().map_err(|e| failed("rping_modify_qp", &e))?;
            self.id.establish().map_err(|e| failed("rdma_establish", &e))?;
        }
        debug!(self.options, "rdma_connect successful");
        Ok(())
    }

    fn ping(&mut self) -> Result<(), Status> {
        let mut number = 0;
        while self.options.count == 0 || number < self.options.count {
            let sent = text(number, self.options.size);
            self.set_state(State::ReadAdv);
            let Some(connection) = &self.connection else { return Err(-1) };
            let Some(source) = &connection.source else { return Err(-1) };
            source.write(0, &sent);
            connection.announce(source)?;
            self.wait()?;
            self.state().expect(State::WriteAdv)?;
            let Some(connection) = &self.connection else { return Err(-1) };
            connection.announce(&connection.sink)?;
            self.wait()?;
            self.state().expect(State::WriteComplete)?;
            self.compare(&sent)?;
            number = number.wrapping_add(1);
        }
        Ok(())
    }

    fn compare(&self, sent: &[u8]) -> Result<(), Status> {
        let Some(connection) = &self.connection else { return Err(-1) };
        if self.options.validate {
            let mut back = vec![0; sent.len()];
            connection.sink.read(0, &mut back);
            if back != sent {
                crate::errln!("data mismatch!");
                return Err(-1);
            }
        }
        if self.options.verbose {
            let text = connection.text(&connection.sink);
            print(&format!("ping data: {}\n", String::from_utf8_lossy(&text)));
        }
        Ok(())
    }

    /// Disconnects, and waits until all requests are flushed and the peer has disconnected.
    fn disconnect(&mut self) {
        let end = Instant::now() + DISCONNECTS_WITHIN;
        if let Some(connection) = &self.connection {
            connection.disconnect();
        }
        let over = |client: &Client<'_>| {
            client.connection.as_ref().is_none_or(|c| c.flushed && c.state == State::Disconnected)
        };
        while !over(self) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.turn(Some(left.as_millis() as u32 + 1)).is_err() {
                return;
            }
        }
    }

    /// Sleeps until the next event that advances the test.
    fn wait(&mut self) -> Result<(), Status> {
        while self.wakes == 0 {
            self.turn(None)?;
        }
        self.wakes -= 1;
        Ok(())
    }

    fn turn(&mut self, timeout_ms: Option<u32>) -> Result<(), Status> {
        let mut fds = vec![self.channel.fd()];
        fds.extend(self.connection.as_ref().and_then(Connection::fd));
        let ready = readable(&fds, timeout_ms).map_err(|_| FATAL)?;
        if ready.get(1) == Some(&true)
            && let Some(connection) = &mut self.connection
        {
            self.wakes += connection.on_completions();
        }
        if ready[0] { self.on_event() } else { Ok(()) }
    }

    fn on_event(&mut self) -> Result<(), Status> {
        let event = self.channel.next().map_err(|e| failed("rdma_get_cm_event", &e))?;
        let name = || self.channel.library().event_name(event.kind);
        debug!(self.options, "cma_event type {} cma_id {:#x} (parent)", name(), event.id);
        match event.kind {
            RDMA_CM_EVENT_ADDR_RESOLVED => {
                self.set_state(State::AddrResolved);
                if let Err(e) = self.id.resolve_route(RESOLVE_MS) {
                    self.set_state(State::Error);
                    return Err(failed("rdma_resolve_route", &e));
                }
                return Ok(());
            }
            RDMA_CM_EVENT_ROUTE_RESOLVED => self.set_state(State::RouteResolved),
            RDMA_CM_EVENT_CONNECT_RESPONSE => {
                debug!(self.options, "CONNECT_RESPONSE");
                self.set_state(State::Connected);
            }
            RDMA_CM_EVENT_ESTABLISHED => {
                debug!(self.options, "ESTABLISHED");
                self.set_state(State::Connected);
            }
            RDMA_CM_EVENT_ADDR_ERROR
            | RDMA_CM_EVENT_ROUTE_ERROR
            | RDMA_CM_EVENT_CONNECT_ERROR
            | RDMA_CM_EVENT_UNREACHABLE
            | RDMA_CM_EVENT_REJECTED => {
                crate::errln!("cma event {}, error {}", name(), event.status);
                return Err(FATAL);
            }
            RDMA_CM_EVENT_DISCONNECTED => {
                crate::errln!("client DISCONNECT EVENT...");
                self.set_state(State::Disconnected);
            }
            RDMA_CM_EVENT_DEVICE_REMOVAL => {
                crate::errln!("cma detected device removal!!!!");
                return Err(FATAL);
            }
            _ => {
                crate::errln!("unhandled event: {}, ignoring", name());
                return Ok(());
            }
        }
        self.wakes += 1;
        Ok(())
    }
}

fn failed(what: &str, error: &std::io::Error) -> Status {
    perror(what, error);
    -1
}

/// The text of a ping: its number, letters whose start advances by one each time, and a zero.
fn text(number: i32, size: usize) -> Vec<u8> {
    let letters = b'A'..=b'z';
    let count = letters.len();
    let head = format!("rdma-ping-{number}: ").into_bytes();
    let first = number.unsigned_abs() as usize % count;
    let mut text: Vec<u8> = head.into_iter().chain(letters.cycle().skip(first)).take(size).collect();
    if let Some(last) = text.last_mut() {
        *last = 0;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_the_guides() {
        let line = |number| {
            let text = text(number, 64);
            assert_eq!((text.len(), text[63]), (64, 0));
            String::from_utf8(text[..63].to_vec()).unwrap()
        };
        assert_eq!(line(0), r"rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefghijklmnopqr");
        assert_eq!(line(10), r"rdma-ping-10: KLMNOPQRSTUVWXYZ[\]^_`abcdefghijklmnopqrstuvwxyzA");
        assert_eq!(line(19), r"rdma-ping-19: TUVWXYZ[\]^_`abcdefghijklmnopqrstuvwxyzABCDEFGHIJ");
        assert_eq!(&line(58)[..20], "rdma-ping-58: ABCDEF");
    }
}
