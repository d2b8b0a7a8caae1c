//! The client: all connections complete one step before any begins the next.

use std::collections::BTreeMap;
use std::io;

use weft_abi_types::{
    IBV_QPT_RC, RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR,
    RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ROUTE_ERROR,
    RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_UNREACHABLE, RDMA_PS_TCP,
};

use super::options::{DEPTH, Options};
use super::times::{Step, Times, table};
use crate::cm_tools::perror;
use crate::outln;
use crate::output::print;
use weft_client::rdmacm::{AddrInfo, BareQp, CmId, ConnParam, Event, EventChannel, IdKey};

/// The client.
pub struct Client<'a> {
    options: &'a Options,
    nodes: Vec<Node>,
    by_id: BTreeMap<IdKey, usize>,
    times: Times,
    address: AddrInfo,
    /// Outstanding events of the current step.
    awaited: usize,
    channel: EventChannel,
}

/// A connection.
#[derive(Default)]
struct Node {
    times: Times,
    failed: bool,
    retries: i32,
    qp: Option<BareQp>,
    id: Option<CmId>,
}

/// The failed operation and its error.
type Failure = (&'static str, io::Error);

impl Node {
    fn id(&self) -> Result<&CmId, Failure> {
        self.id.as_ref().ok_or(("no id", io::ErrorKind::NotFound.into()))
    }
}

impl<'a> Client<'a> {
    /// Creates a client.
    pub fn new(options: &'a Options, channel: EventChannel) -> Client<'a> {
        Client {
            options,
            nodes: Vec::new(),
            by_id: BTreeMap::new(),
            times: Times::default(),
            address: AddrInfo::default(),
            awaited: 0,
            channel,
        }
    }

    /// Runs all steps and prints the table.
    ///
    /// # Errors
    /// The exit status.
    pub fn run(mut self) -> Result<(), i32> {
        self.nodes.resize_with(self.options.connections, Node::default);
        let created = self.create_ids();
        let result = created.and_then(|()| self.connect_all());
        self.step("destroying id", Step::Destroy, |node| {
            node.qp = None;
            node.id = None;
            node.times.end(Step::Destroy);
            Ok(false)
        });
        let each: Vec<_> = self.nodes.iter().map(|node| node.times).collect();
        print(&table(&self.times, &each, self.options.src.is_some()));
        result
    }

    fn create_ids(&mut self) -> Result<(), i32> {
        let channel = self.channel.clone();
        self.step("creating id", Step::CreateId, |node| {
            node.id = Some(CmId::new(&channel, RDMA_PS_TCP).map_err(|e| ("failure creating id", e))?);
            node.times.end(Step::CreateId);
            Ok(false)
        });
        self.by_id = self.nodes.iter().enumerate().filter_map(|(i, n)| Some((n.id.as_ref()?.key(), i))).collect();
        if self.by_id.len() < self.nodes.len() { Err(-1) } else { Ok(()) }
    }

    fn connect_all(&mut self) -> Result<(), i32> {
        self.address = self.options.resolve(self.channel.library())?;
        let (src, dst) = (self.address.src, self.address.dst.ok_or(-1)?);
        let timeout_ms = self.options.timeout_ms;
        if let Some(src) = src.filter(|_| self.options.src.is_some()) {
            self.step("binding source address", Step::Bind, |node| {
                node.id()?.bind(&src).map_err(|e| ("failure bind addr", e))?;
                node.times.end(Step::Bind);
                Ok(false)
            });
        }
        self.step("resolving address", Step::ResolveAddr, |node| {
            let asked = node.id()?.resolve_addr(src.as_ref(), &dst, timeout_ms);
            asked.map(|()| true).map_err(|e| ("failure getting addr", e))
        });
        self.step("resolving route", Step::ResolveRoute, |node| {
            node.id()?.resolve_route(timeout_ms).map(|()| true).map_err(|e| ("failure resolving route", e))
        });
        self.step("creating qp", Step::CreateQp, |node| {
            node.qp = Some(node.id()?.create_bare_qp(IBV_QPT_RC, DEPTH).map_err(|e| ("failure creating qp", e))?);
            node.times.end(Step::CreateQp);
            Ok(false)
        });
        let param = ConnParam {
            private_data: self.address.connect.clone(),
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: self.options.retries as u8,
            ..ConnParam::default()
        };
        self.step("connecting", Step::Connect, |node| {
            node.id()?.connect(&param).map(|()| true).map_err(|e| ("failure rconnecting", e))
        });
        self.step("disconnecting", Step::Disconnect, |node| {
            // If the peer disconnected first, the event comes all the same.
            let _ = node.id()?.disconnect();
            node.qp = None;
            Ok(true)
        });
        Ok(())
    }

    /// Runs a step on every connection that has not failed. A step that returns `true` completes with an event, which
    /// this function waits for.
    fn step(&mut self, what: &str, step: Step, mut take: impl FnMut(&mut Node) -> Result<bool, Failure>) {
        outln!("{what}");
        self.times.start(step);
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if node.failed && step != Step::Destroy {
                continue;
            }
            node.retries = self.options.retries;
            node.times.start(step);
            match take(node) {
                Ok(awaited) => self.awaited += usize::from(awaited),
                Err((what, error)) => {
                    perror(what, &error);
                    self.nodes[index].failed = true;
                }
            }
            // Handles events between connections, so that each is timed when it arrives.
            self.take_events(false);
        }
        while self.awaited > 0 {
            self.take_events(true);
        }
        self.times.end(step);
    }

    fn take_events(&mut self, sleep: bool) {
        let mut sleep = sleep;
        while self.awaited > 0 {
            let event = if sleep { self.channel.next().map(Some) } else { self.channel.poll() };
            match event {
                Ok(Some(event)) => self.on_event(&event),
                Ok(None) => return,
                Err(e) => {
                    perror("failure in rdma_get_cm_event in process_server_events", &e);
                    self.awaited = 0;
                }
            }
            sleep = false;
        }
    }

    fn on_event(&mut self, event: &Event) {
        let Some(&index) = self.by_id.get(&event.id) else { return };
        match event.kind {
            RDMA_CM_EVENT_ADDR_RESOLVED => self.done(index, Step::ResolveAddr),
            RDMA_CM_EVENT_ROUTE_RESOLVED => self.done(index, Step::ResolveRoute),
            RDMA_CM_EVENT_ESTABLISHED => self.done(index, Step::Connect),
            RDMA_CM_EVENT_DISCONNECTED => self.done(index, Step::Disconnect),
            RDMA_CM_EVENT_ADDR_ERROR => self.again(index, Step::ResolveAddr, event),
            RDMA_CM_EVENT_ROUTE_ERROR => self.again(index, Step::ResolveRoute, event),
            RDMA_CM_EVENT_CONNECT_ERROR | RDMA_CM_EVENT_UNREACHABLE | RDMA_CM_EVENT_REJECTED => {
                let name = self.channel.library().event_name(event.kind);
                outln!("event: {name}, error: {}", event.status);
                self.nodes[index].failed = true;
                self.done(index, Step::Connect);
            }
            _ => {}
        }
    }

    fn done(&mut self, index: usize, step: Step) {
        self.nodes[index].times.end(step);
        self.awaited = self.awaited.saturating_sub(1);
    }

    /// Retries a failed query, up to the number of retries in the options.
    fn again(&mut self, index: usize, step: Step, event: &Event) {
        let (src, dst, timeout_ms) = (self.address.src, self.address.dst, self.options.timeout_ms);
        let node = &mut self.nodes[index];
        let retry = node.retries != 0;
        node.retries -= 1;
        if let (true, Some(id)) = (retry, &node.id) {
            let asked = match (step, dst) {
                (Step::ResolveAddr, Some(dst)) => id.resolve_addr(src.as_ref(), &dst, timeout_ms),
                _ => id.resolve_route(timeout_ms),
            };
            if asked.is_ok() {
                return;
            }
        }
        let name = self.channel.library().event_name(event.kind);
        outln!("{name}, error: {}", event.status);
        self.nodes[index].failed = true;
        self.done(index, step);
    }
}
