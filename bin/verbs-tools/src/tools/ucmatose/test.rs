//! Both sides of the test: opens all connections, exchanges messages over each, then disconnects all.

use std::collections::BTreeMap;
use std::io;

use weft_abi_types::{
    RAI_PASSIVE, RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR,
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED,
    RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_UNREACHABLE,
};

use super::node::{Direction, Node};
use super::options::Options;
use crate::cm_tools::perror;
use crate::outln;
use weft_client::rdmacm::{AddrInfo, CmId, ConnParam, Event, EventChannel, Hints, IdKey};

/// Timeout for resolving an address or a route, in milliseconds.
const RESOLVE_MS: i32 = 2000;

/// One side. Errors are exit statuses.
pub struct Test<'a> {
    options: &'a Options,
    nodes: Vec<Node>,
    by_id: BTreeMap<IdKey, usize>,
    accepted: usize,
    connects_left: usize,
    disconnects_left: usize,
    address: AddrInfo,
    channel: EventChannel,
}

impl<'a> Test<'a> {
    /// Creates the test; a client creates an id for each connection immediately.
    pub fn new(options: &'a Options, channel: EventChannel) -> Result<Test<'a>, i32> {
        let mut test = Test {
            options,
            nodes: Vec::new(),
            by_id: BTreeMap::new(),
            accepted: 0,
            connects_left: options.connections,
            disconnects_left: 0,
            address: AddrInfo::default(),
            channel,
        };
        for index in 0..options.connections {
            test.nodes.push(match options.dst {
                Some(_) => {
                    let id = CmId::new(&test.channel, options.hints.port_space).map_err(|_| -1)?;
                    test.by_id.insert(id.key(), index);
                    Node::new(id)
                }
                None => Node::default(),
            });
        }
        Ok(test)
    }

    /// The server's part: waits for connections and sends first.
    pub fn run_server(&mut self) -> Result<(), i32> {
        outln!("cmatose: starting server");
        let listener = CmId::new(&self.channel, self.options.hints.port_space)
            .map_err(|e| failure("cmatose: listen request failed", &e))?;
        let hints = Hints { flags: self.options.hints.flags | RAI_PASSIVE, ..self.options.hints };
        self.resolve(hints)?;
        let src = self.address.src.ok_or(-1)?;
        listener.bind(&src).map_err(|e| failure("cmatose: bind address failed", &e))?;
        listener.listen(0).map_err(|e| failure("cmatose: failure trying to listen", &e))?;
        self.connect_events()?;
        if self.options.message_count > 0 {
            outln!("initiating data transfers");
            self.nodes.iter().try_for_each(|node| node.post_sends(self.options))?;
            outln!("completing sends");
            self.complete(Direction::Send)?;
            outln!("receiving data transfers");
            self.complete(Direction::Recv)?;
            outln!("data transfers complete");
        }
        if self.options.migrate {
            self.migrate(Some(&listener))?;
        }
        outln!("cmatose: disconnecting");
        for node in self.nodes.iter_mut().filter(|node| node.connected) {
            node.connected = false;
            // The peer may have disconnected first.
            let _ = node.id.as_ref().map(CmId::disconnect);
        }
        let result = self.disconnect_events();
        outln!("disconnected");
        result
    }

    /// The client's part: connects and answers.
    pub fn run_client(&mut self) -> Result<(), i32> {
        outln!("cmatose: starting client");
        self.resolve(self.options.hints)?;
        outln!("cmatose: connecting");
        let (src, dst) = (self.address.src, self.address.dst.ok_or(-1)?);
        for id in self.nodes.iter().filter_map(|node| node.id.as_ref()) {
            if let Err(e) = id.resolve_addr(src.as_ref(), &dst, RESOLVE_MS) {
                return Err(failure("cmatose: failure getting addr", &e));
            }
        }
        let talked = self.connect_events().and_then(|()| self.answer());
        if talked.is_ok() && self.options.migrate {
            self.migrate(None)?;
        }
        self.disconnect_events().and(talked)
    }

    fn answer(&mut self) -> Result<(), i32> {
        if self.options.message_count > 0 {
            outln!("receiving data transfers");
            self.complete(Direction::Recv)?;
            outln!("sending replies");
            self.nodes.iter().try_for_each(|node| node.post_sends(self.options))?;
            outln!("data transfers complete");
        }
        Ok(())
    }

    fn resolve(&mut self, hints: Hints) -> Result<(), i32> {
        let Options { src, dst, port, .. } = self.options;
        let found = AddrInfo::resolve(self.channel.library(), src.as_deref(), dst.as_deref(), port, hints);
        self.address = found.map_err(|error| {
            let call = if self.options.dst.is_some() { "getaddrinfo" } else { "getrdmaaddr" };
            outln!("cmatose: {call} error: {error}");
            error.0
        })?;
        Ok(())
    }

    fn complete(&self, direction: Direction) -> Result<(), i32> {
        self.nodes.iter().try_for_each(|node| node.complete(self.options, direction))
    }

    fn connect_events(&mut self) -> Result<(), i32> {
        while self.connects_left > 0 {
            self.next_event("cmatose: failure in rdma_get_cm_event in connect events")?;
        }
        Ok(())
    }

    fn disconnect_events(&mut self) -> Result<(), i32> {
        while self.disconnects_left > 0 {
            self.next_event("cmatose: failure in rdma_get_cm_event in disconnect events")?;
        }
        Ok(())
    }

    fn next_event(&mut self, what: &str) -> Result<(), i32> {
        let event = self.channel.next().map_err(|e| {
            perror(what, &e);
            e.raw_os_error().unwrap_or(libc::EIO)
        })?;
        self.on_event(event)
    }

    fn on_event(&mut self, mut event: Event) -> Result<(), i32> {
        if event.kind == RDMA_CM_EVENT_CONNECT_REQUEST {
            return event.incoming.take().map_or(Ok(()), |id| self.on_request(id));
        }
        let Some(&index) = self.by_id.get(&event.id) else { return Ok(()) };
        let result = match event.kind {
            RDMA_CM_EVENT_ADDR_RESOLVED => self.on_address(index),
            RDMA_CM_EVENT_ROUTE_RESOLVED => self.on_route(index),
            RDMA_CM_EVENT_ESTABLISHED => {
                self.nodes[index].connected = true;
                self.connects_left -= 1;
                self.disconnects_left += 1;
                return Ok(());
            }
            RDMA_CM_EVENT_DISCONNECTED => {
                // Completes the peer's disconnect; has no effect if this side disconnected first.
                let _ = self.nodes[index].id.as_ref().map(CmId::disconnect);
                self.disconnects_left = self.disconnects_left.saturating_sub(1);
                return Ok(());
            }
            RDMA_CM_EVENT_ADDR_ERROR
            | RDMA_CM_EVENT_ROUTE_ERROR
            | RDMA_CM_EVENT_CONNECT_ERROR
            | RDMA_CM_EVENT_UNREACHABLE
            | RDMA_CM_EVENT_REJECTED => {
                let name = self.channel.library().event_name(event.kind);
                outln!("cmatose: event: {name}, error: {}", event.status);
                if event.status == 0 { Ok(()) } else { Err(event.status) }
            }
            _ => return Ok(()),
        };
        if result.is_err() {
            self.connects_left = self.connects_left.saturating_sub(1);
        }
        result
    }

    fn on_address(&mut self, index: usize) -> Result<(), i32> {
        let Some(id) = &self.nodes[index].id else { return Ok(()) };
        if let Some(Err(e)) = self.options.tos.map(|tos| id.set_tos(tos)) {
            perror("cmatose: set TOS option failed", &e);
        }
        self.set_ack_timeout(id);
        id.resolve_route(RESOLVE_MS).map_err(|e| failure("cmatose: resolve route failed", &e))
    }

    fn set_ack_timeout(&self, id: &CmId) {
        if let Some(Err(e)) = self.options.ack_timeout.map(|timeout| id.set_ack_timeout(timeout)) {
            perror("cmatose: set ack timeout option failed", &e);
        }
    }

    fn on_route(&mut self, index: usize) -> Result<(), i32> {
        let node = &mut self.nodes[index];
        node.prepare(self.options)?;
        let param = ConnParam {
            private_data: self.address.connect.clone(),
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 5,
            ..ConnParam::default()
        };
        let connected = node.id.as_ref().map_or(Ok(()), |id| id.connect(&param));
        connected.map_err(|e| failure("cmatose: failure connecting", &e))
    }

    fn on_request(&mut self, id: CmId) -> Result<(), i32> {
        let accepted = self.accept(&id);
        if accepted.is_err() {
            outln!("cmatose: failing connection request");
            let _ = id.reject();
        }
        accepted
    }

    fn accept(&mut self, id: &CmId) -> Result<(), i32> {
        let index = self.accepted;
        if index == self.nodes.len() {
            return Err(-libc::ENOMEM);
        }
        self.accepted += 1;
        let mut node = Node::new(id.clone());
        let prepared = node.prepare(self.options).and_then(|()| {
            self.set_ack_timeout(id);
            id.accept(None).map_err(|e| failure("cmatose: failure accepting", &e))
        });
        match prepared {
            Ok(()) => {
                self.nodes[index] = node;
                self.by_id.insert(id.key(), index);
            }
            Err(_) => self.connects_left -= 1,
        }
        prepared
    }

    fn migrate(&mut self, listener: Option<&CmId>) -> Result<(), i32> {
        outln!("migrating to new event channel");
        let channel = EventChannel::new(self.channel.library())
            .map_err(|e| failure("cmatose: failed to create event channel", &e))?;
        let ids = self.nodes.iter().filter_map(|node| node.id.as_ref());
        for id in listener.into_iter().chain(ids) {
            id.migrate(&channel).map_err(|e| failure("cmatose: failure migrating to channel", &e))?;
        }
        self.channel = channel;
        Ok(())
    }
}

/// Prints the error and returns -1, as librdmacm's calls do.
fn failure(what: &str, error: &io::Error) -> i32 {
    perror(what, error);
    -1
}
