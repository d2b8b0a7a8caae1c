//! Both sides of the test: the client sends messages to all peers, and all peers answer.

use std::collections::BTreeMap;
use std::io;

use weft_abi_types::{
    RAI_PASSIVE, RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR,
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ROUTE_ERROR,
    RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_UNREACHABLE,
};

use super::options::{Options, PORT};
use crate::cm_tools::{Datagrams, perror};
use crate::outln;
use weft_client::rdmacm::{AddrInfo, CmId, ConnParam, Event, EventChannel, Hints, IdKey};

/// Timeout for resolving an address or a route, in milliseconds.
const RESOLVE_MS: i32 = 2000;

/// One side. Errors are exit statuses.
pub struct Test<'a> {
    options: &'a Options,
    nodes: Vec<Datagrams>,
    by_id: BTreeMap<IdKey, usize>,
    accepted: usize,
    connects_left: usize,
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
            address: AddrInfo::default(),
            channel,
        };
        for index in 0..options.connections {
            test.nodes.push(match options.dst {
                Some(_) => {
                    let id = CmId::new(&test.channel, options.hints.port_space).map_err(|_| -1)?;
                    test.by_id.insert(id.key(), index);
                    Datagrams::new(id)
                }
                None => Datagrams::default(),
            });
        }
        Ok(test)
    }

    /// The server's part: waits for messages and answers.
    pub fn run_server(&mut self) -> Result<(), i32> {
        outln!("udaddy: starting server");
        let listener = CmId::new(&self.channel, self.options.hints.port_space)
            .map_err(|e| failure("udaddy: listen request failed", &e))?;
        let hints = Hints { flags: self.options.hints.flags | RAI_PASSIVE, ..self.options.hints };
        self.resolve(hints)?;
        let src = self.address.src.ok_or(-1)?;
        listener.bind(&src).map_err(|e| failure("udaddy: bind address failed", &e))?;
        listener.listen(0).map_err(|e| failure("udaddy: failure trying to listen", &e))?;
        // A failed request ends the wait, but not the test.
        let _ = self.connect_events();
        if self.options.messages.count > 0 {
            outln!("receiving data transfers");
            self.complete()?;
            outln!("sending replies");
            self.nodes.iter().try_for_each(|node| node.post_sends(self.options.messages, true))?;
            self.complete()?;
            outln!("data transfers complete");
        }
        Ok(())
    }

    /// The client's part: sends messages and waits for the answers.
    pub fn run_client(&mut self) -> Result<(), i32> {
        outln!("udaddy: starting client");
        self.resolve(self.options.hints)?;
        outln!("udaddy: connecting");
        let (src, dst) = (self.address.src, self.address.dst.ok_or(-1)?);
        for id in self.nodes.iter().filter_map(|node| node.id.as_ref()) {
            if let Err(e) = id.resolve_addr(src.as_ref(), &dst, RESOLVE_MS) {
                return Err(failure("udaddy: failure getting addr", &e));
            }
        }
        self.connect_events()?;
        if self.options.messages.count > 0 {
            outln!("initiating data transfers");
            self.nodes.iter().try_for_each(|node| node.post_sends(self.options.messages, false))?;
            outln!("receiving data transfers");
            self.complete()?;
            outln!("data transfers complete");
        }
        Ok(())
    }

    fn resolve(&mut self, hints: Hints) -> Result<(), i32> {
        let Options { src, dst, .. } = self.options;
        let found = AddrInfo::resolve(self.channel.library(), src.as_deref(), dst.as_deref(), PORT, hints);
        self.address = found.map_err(|error| {
            let call = if dst.is_some() { "getaddrinfo" } else { "getrdmaaddr" };
            outln!("udaddy: {call} error: {error}");
            error.0
        })?;
        Ok(())
    }

    fn complete(&mut self) -> Result<(), i32> {
        let messages = self.options.messages;
        self.nodes.iter_mut().try_for_each(|node| node.complete(messages))
    }

    fn connect_events(&mut self) -> Result<(), i32> {
        while self.connects_left > 0 {
            let event = self.channel.next().map_err(|_| -1)?;
            self.on_event(event)?;
        }
        Ok(())
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
                let param = event.ud.ok_or(-1)?;
                self.nodes[index].set_target(&param, "udaddy").inspect(|()| self.connects_left -= 1)
            }
            RDMA_CM_EVENT_ADDR_ERROR
            | RDMA_CM_EVENT_ROUTE_ERROR
            | RDMA_CM_EVENT_CONNECT_ERROR
            | RDMA_CM_EVENT_UNREACHABLE
            | RDMA_CM_EVENT_REJECTED => {
                let name = self.channel.library().event_name(event.kind);
                outln!("udaddy: event: {name}, error: {}", event.status);
                if event.status == 0 { Ok(()) } else { Err(event.status) }
            }
            _ => Ok(()),
        };
        if result.is_err() {
            self.connects_left = self.connects_left.saturating_sub(1);
        }
        result
    }

    fn on_address(&mut self, index: usize) -> Result<(), i32> {
        let Some(id) = &self.nodes[index].id else { return Ok(()) };
        if let Some(Err(e)) = self.options.tos.map(|tos| id.set_tos(tos)) {
            perror("udaddy: set TOS option failed", &e);
        }
        id.resolve_route(RESOLVE_MS).map_err(|e| failure("udaddy: resolve route failed", &e))
    }

    fn on_route(&mut self, index: usize) -> Result<(), i32> {
        let node = &mut self.nodes[index];
        node.prepare(self.options.messages)?;
        node.post_recvs(self.options.messages)?;
        let param = ConnParam { private_data: self.address.connect.clone(), ..ConnParam::default() };
        let connected = node.id.as_ref().map_or(Ok(()), |id| id.connect(&param));
        connected.map_err(|e| failure("udaddy: failure connecting", &e))
    }

    fn on_request(&mut self, id: CmId) -> Result<(), i32> {
        let accepted = self.accept(&id);
        if accepted.is_err() {
            outln!("udaddy: failing connection request");
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
        self.connects_left -= 1;
        let mut node = Datagrams::new(id.clone());
        node.prepare(self.options.messages)?;
        node.post_recvs(self.options.messages)?;
        let param = ConnParam { qp_num: node.qp_num().unwrap_or(0), ..ConnParam::default() };
        id.accept(Some(&param)).map_err(|e| failure("udaddy: failure accepting", &e))?;
        node.connected = true;
        self.nodes[index] = node;
        self.by_id.insert(id.key(), index);
        Ok(())
    }
}

/// Prints the error and returns -1, as librdmacm's calls do.
fn failure(what: &str, error: &io::Error) -> i32 {
    perror(what, error);
    -1
}
