//! The loop: one thread waits for programs, for completions and for events of the connection manager, and feeds the host's
//! state machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use weft_abi_types::RDMA_CM_EVENT_CONNECT_REQUEST;
use weft_client::Which;
use weft_client::rdmacm::{CmId, Event, EventChannel, IdKey};
use weft_rds::local::{Operation, service_name};
use weft_rds::wire::{PrivateData, RDS_PORT};
use weft_rds::{Action, InfoKind, Node, NodeConfig, Pair, RdmaStatus, RequestDecision, SocketError, SocketKey};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::signals::SignalQueue;
use weft_sys::unix;
use weft_tool::{errln, errno};

use super::link::{Link, LinkEvent, Progress};
use super::memory::ProgramMemory;
use super::program::{Call, Program, Request};
use crate::limits::{BACKLOG, IDLE, MESSAGES_PER_TURN};

const CHANNEL: u64 = 0;
const SIGNALS: u64 = 1;
const PROGRAMS: u64 = 2;
/// Token of the first program or link.
const FIRST: u64 = 3;
/// Sequence numbers of one second: those of a process that starts a second later are all greater.
const SEQUENCE_SHIFT: u32 = 24;

/// Time until which the service runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// Until it is stopped.
    UntilStopped,
    /// Until no program has used it for some time.
    OnDemand,
}

/// The service.
#[derive(Debug)]
pub struct Server {
    // Dropped first: connections end before the channel of their ids.
    links: BTreeMap<Pair, Link>,
    ids: BTreeMap<IdKey, Pair>,
    tokens: BTreeMap<u64, Pair>,
    /// Links that may have more completions.
    busy: BTreeSet<Pair>,
    pub(super) programs: BTreeMap<SocketKey, Program>,
    pub(super) memory: ProgramMemory,
    next: u64,
    pub(super) node: Node,
    _listener: CmId,
    channel: EventChannel,
    socket: OwnedFd,
    epoll: Epoll,
    signals: SignalQueue,
    started: Instant,
    lifetime: Lifetime,
    /// Time of the last program or message.
    used: Duration,
    is_stopping: bool,
    scratch: Vec<u8>,
}

impl Server {
    /// Begins to listen. `None`: a service of this user runs already.
    ///
    /// # Errors
    /// There is no RDMA device, or another user's service has the port.
    pub fn start(which: Which, lifetime: Lifetime, signals: SignalQueue) -> Result<Option<Server>> {
        let name = service_name(weft_sys::process::euid());
        let socket = match unix::listen_abstract(&name, BACKLOG) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            Err(error) => bail!("the socket for programs: {}", errno::text(&error)),
        };
        let channel = weft_rdma_service::channel(which)?;
        let listener = weft_rdma_service::listen(&channel, Some(Ipv4Addr::UNSPECIFIED.into()), RDS_PORT)
            .context("is this another user's RDS service, or the kernel's (lsmod)?")?;
        let epoll = Epoll::new()?;
        epoll.add(&channel, CHANNEL, Interest::READ)?;
        epoll.add(&signals, SIGNALS, Interest::READ)?;
        epoll.add(&socket, PROGRAMS, Interest::READ)?;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let config = NodeConfig {
            first_sequence: time.as_secs() << SEQUENCE_SHIFT | 1,
            seed: u64::from(time.subsec_nanos()) ^ u64::from(std::process::id()) << 32,
        };
        Ok(Some(Server {
            links: BTreeMap::new(),
            ids: BTreeMap::new(),
            tokens: BTreeMap::new(),
            busy: BTreeSet::new(),
            programs: BTreeMap::new(),
            memory: ProgramMemory::default(),
            next: FIRST,
            node: Node::new(config),
            _listener: listener,
            channel,
            socket,
            epoll,
            signals,
            started: Instant::now(),
            lifetime,
            used: Duration::ZERO,
            is_stopping: false,
            scratch: Vec::new(),
        }))
    }

    /// Serves until it is stopped, or no longer used.
    ///
    /// # Errors
    /// The connection manager fails.
    pub fn run(mut self) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        while !self.is_stopping && !self.is_unused() {
            self.epoll.wait(&mut ready, self.timeout())?;
            self.node.handle_timeout(self.started.elapsed());
            for event in &ready {
                match event.token {
                    CHANNEL => self.on_channel()?,
                    SIGNALS => self.is_stopping |= self.signals.take().is_some(),
                    PROGRAMS => self.on_programs(),
                    token => self.on_ready(token, event),
                }
            }
            for pair in std::mem::take(&mut self.busy) {
                self.on_completions(pair);
            }
            self.act();
        }
        Ok(())
    }

    fn is_unused(&mut self) -> bool {
        let now = self.started.elapsed();
        let is_used = !self.programs.is_empty() || self.node.connections().any(|(_, c)| c.has_messages());
        if is_used || self.lifetime == Lifetime::UntilStopped {
            self.used = now;
        }
        now > self.used + IDLE
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.busy.is_empty() && !self.node.is_full() {
            return Some(Duration::ZERO);
        }
        let now = self.started.elapsed();
        let retry = self.node.deadline().map(|at| at.saturating_sub(now));
        let idle = (self.lifetime == Lifetime::OnDemand).then_some(IDLE);
        retry.into_iter().chain(idle).min()
    }

    fn on_channel(&mut self) -> Result<()> {
        while let Some(event) = self.channel.poll().context("the RDMA connection manager")? {
            self.on_event(event);
            self.act();
        }
        Ok(())
    }

    fn on_event(&mut self, mut event: Event) {
        if event.kind == RDMA_CM_EVENT_CONNECT_REQUEST {
            if let Some(id) = event.incoming.take() {
                self.on_request(&id, &event);
            }
            return;
        }
        let Some(pair) = self.ids.get(&event.id).copied() else { return };
        let Some(link) = self.links.get_mut(&pair) else { return };
        let had_queue_pair = link.completions().is_some();
        match link.on_event(&event, &mut self.memory) {
            Ok(progress) => {
                if !had_queue_pair && link.completions().is_some() {
                    self.watch(pair);
                }
                if let Progress::Established(reply) = progress {
                    self.node.handle_established(pair, reply.as_ref());
                    self.busy.insert(pair);
                }
            }
            Err(error) => {
                // Completions may say more, such as which operation the peer refused.
                self.on_completions(pair);
                if self.links.contains_key(&pair) {
                    self.lose(pair, &format!("{error:#}"));
                }
            }
        }
    }

    /// Watches the completions of a link.
    fn watch(&mut self, pair: Pair) {
        let Some(link) = self.links.get(&pair) else { return };
        let Some(completions) = link.completions() else { return };
        match self.epoll.add(completions, link.token, Interest::READ) {
            Ok(()) => drop(self.tokens.insert(link.token, pair)),
            Err(error) => self.lose(pair, &errno::text(&error)),
        }
    }

    /// Takes or refuses a peer's request.
    fn on_request(&mut self, id: &CmId, event: &Event) {
        let peer = id.peer_addr().and_then(|address| address.ip());
        let local = id.local_addr().and_then(|address| address.ip());
        let bytes = event.peer.as_ref().map(|peer| &peer.private_data[..]).unwrap_or_default();
        let refuse = |reason: &str| {
            let peer = peer.map_or_else(|| "unknown".to_owned(), |ip| ip.to_string());
            errln!("weft rds: host {peer}: refused: {reason}");
            let _ = id.reject();
        };
        let data = match PrivateData::parse(bytes) {
            Ok(data) => data,
            Err(error) => return refuse(&error.to_string()),
        };
        if peer != Some(IpAddr::V4(data.source)) || local != Some(IpAddr::V4(data.destination)) {
            return refuse("its private data names other addresses than its request");
        }
        let pair = Pair { local: data.destination, peer: data.source };
        let RequestDecision::Accept(reply) = self.node.handle_request(pair, &data) else {
            let _ = id.reject();
            return;
        };
        self.drop_link(pair);
        // The device stays open for good by an id of its own, not by the connection's.
        self.memory.device_of(&self.channel, pair.local);
        let token = self.next;
        self.next += 1;
        match Link::accept(id, reply, token, &mut self.memory) {
            Ok(link) => {
                self.ids.insert(link.key(), pair);
                self.links.insert(pair, link);
                self.watch(pair);
            }
            Err(error) => {
                refuse(&format!("{error:#}"));
                self.node.handle_lost(pair, "it cannot be accepted");
            }
        }
    }

    fn connect(&mut self, pair: Pair, data: PrivateData) {
        self.drop_link(pair);
        // The device stays open for good by an id of its own, not by the connection's.
        self.memory.device_of(&self.channel, pair.local);
        let token = self.next;
        self.next += 1;
        match Link::connect(&self.channel, pair, data, token) {
            Ok(link) => {
                self.ids.insert(link.key(), pair);
                self.links.insert(pair, link);
            }
            Err(error) => self.node.handle_lost(pair, &format!("{error:#}")),
        }
    }

    /// Ends a connection, and tells the host.
    fn lose(&mut self, pair: Pair, reason: &str) {
        self.drop_link(pair);
        self.node.handle_lost(pair, reason);
    }

    fn drop_link(&mut self, pair: Pair) {
        let Some(link) = self.links.remove(&pair) else { return };
        self.ids.remove(&link.key());
        self.busy.remove(&pair);
        if self.tokens.remove(&link.token).is_some()
            && let Some(completions) = link.completions()
        {
            let _ = self.epoll.delete(completions);
        }
    }

    fn on_ready(&mut self, token: u64, event: &Ready) {
        if let Some(pair) = self.tokens.get(&token).copied() {
            match self.links.get(&pair).map(Link::on_readable) {
                Some(Ok(())) => drop(self.busy.insert(pair)),
                Some(Err(error)) => self.lose(pair, &format!("{error:#}")),
                None => {}
            }
            return;
        }
        if event.writable {
            self.deliver(token);
        }
        if event.readable || event.hung_up {
            self.read(token, event.hung_up);
        }
    }

    fn on_completions(&mut self, pair: Pair) {
        if self.node.is_full() {
            // Until programs have taken some, the peer finds no receives.
            self.busy.insert(pair);
            return;
        }
        let Some(link) = self.links.get_mut(&pair) else { return };
        let (token, mut events) = (link.token, Vec::new());
        let polled = link.poll(&mut events);
        for event in events {
            match event {
                LinkEvent::Frame(frame) => self.node.handle_frame(pair, &frame),
                LinkEvent::Transferred(id) => {
                    if let Some(operation) = self.memory.completed(id) {
                        self.node.handle_operation(pair, &operation, RdmaStatus::Success);
                    }
                }
            }
            self.act();
            if self.links.get(&pair).is_none_or(|link| link.token != token) {
                return;
            }
        }
        match polled {
            Ok(has_more) => {
                if has_more {
                    self.busy.insert(pair);
                }
                self.send_frames(pair);
            }
            Err(error) => {
                let failed = self.links.get(&pair).and_then(Link::failed_operation);
                if let Some((id, status)) = failed
                    && let Some(operation) = self.memory.operation(id)
                {
                    self.node.handle_operation(pair, &operation, status);
                }
                self.lose(pair, &format!("{error:#}"));
            }
        }
    }

    fn send_frames(&mut self, pair: Pair) {
        while let Some(link) = self.links.get_mut(&pair).filter(|link| link.has_room()) {
            if let Some(operation) = self.node.poll_operation(pair) {
                if let Some(Err(error)) = self.memory.post(operation.id).map(|transfer| link.post(transfer)) {
                    return self.lose(pair, &format!("{error:#}"));
                }
                continue;
            }
            let Some(frame) = self.node.poll_frame(pair) else { return };
            if let Err(error) = link.send(frame) {
                return self.lose(pair, &format!("{error:#}"));
            }
        }
    }

    /// Carries out the host's actions.
    fn act(&mut self) {
        while let Some(action) = self.node.poll() {
            match action {
                Action::Connect(pair, data) => self.connect(pair, data),
                Action::Disconnect(pair) => self.drop_link(pair),
                Action::Frames(pair) => self.send_frames(pair),
                Action::Ready(key) => self.deliver(key),
                Action::OperationOver(id) => self.memory.end(id),
                Action::KeyUsed(socket, key) => self.use_key(socket, key),
                Action::Log(line) => errln!("weft rds: {line}"),
            }
        }
    }

    fn on_programs(&mut self) {
        let Ok(socket) = unix::accept(&self.socket) else { return };
        let user = weft_sys::process::euid();
        let is_own = unix::peer_credentials(&socket).is_ok_and(|peer| peer.uid == user || peer.uid == 0);
        let key = self.next;
        self.next += 1;
        let program = Program::new(socket);
        if !is_own || self.node.open(key).is_err() || self.epoll.add(&program, key, Interest::READ).is_err() {
            // The program finds its socket closed.
            return self.node.close(key);
        }
        self.programs.insert(key, program);
    }

    fn close(&mut self, key: SocketKey) {
        let Some(program) = self.programs.remove(&key) else { return };
        let _ = self.epoll.delete(&program);
        self.memory.close(key);
        self.node.close(key);
        self.used = self.started.elapsed();
    }

    /// Reads messages of a program while its send buffer has room; all that it left, if it has closed its socket.
    fn read(&mut self, key: SocketKey, is_closed: bool) {
        for _ in 0..MESSAGES_PER_TURN {
            if !is_closed && !self.node.can_send(key) {
                break;
            }
            let Some(program) = self.programs.get(&key) else { return };
            match program.read(&mut self.scratch) {
                Ok(Some(Request::Send(request))) => self.send(key, request),
                Ok(Some(Request::Call(call))) => self.on_call(key, &call),
                Ok(None) => break,
                Err(_) => return self.close(key),
            }
        }
        self.act();
        self.deliver(key);
    }

    /// Hands datagrams to a program while they fit, and then waits for what is possible next.
    fn deliver(&mut self, key: SocketKey) {
        let Some(program) = self.programs.get_mut(&key) else { return };
        let mut fits = Ok(true);
        while let (Ok(true), Some(notification)) = (&fits, self.node.next_notification(key)) {
            fits = program.notify(notification);
            if matches!(fits, Ok(true)) {
                self.node.notified(key);
            }
        }
        while let (Ok(true), Some(datagram)) = (&fits, self.node.next_datagram(key)) {
            fits = program.deliver(datagram);
            if matches!(fits, Ok(true)) {
                self.node.delivered(key);
            }
        }
        // A program that has closed its socket is noticed by reading, once its last messages are read.
        let interest = Interest { readable: self.node.can_send(key), writable: matches!(fits, Ok(false)) };
        if program.interest != interest && self.epoll.modify(&*program, key, interest).is_ok() {
            program.interest = interest;
        }
    }

    fn on_call(&mut self, key: SocketKey, call: &Call) {
        let value = u32::try_from(call.value).unwrap_or(u32::MAX);
        let set = match call.operation {
            Operation::Bind => return self.bind(key, call),
            Operation::Info => return self.answer_info(call),
            Operation::Offer | Operation::Withdraw | Operation::Check => return self.on_memory_call(key, call),
            Operation::SendBuffer => self.node.set_options(key, |options| options.send_buffer = value),
            Operation::ReceiveBuffer => self.node.set_options(key, |options| options.receive_buffer = value),
            Operation::Cancel => {
                self.node.cancel(key, call.address);
                Ok(())
            }
            Operation::Stop => {
                self.is_stopping = true;
                Ok(())
            }
        };
        let errno = if set.is_ok() { 0 } else { number(Errno::INVAL) };
        let options = self.node.sockets().find(|(other, _)| *other == key).map(|(_, options)| *options);
        let size = match (call.operation, options) {
            (Operation::SendBuffer, Some(options)) => options.send_buffer,
            (Operation::ReceiveBuffer, Some(options)) => options.receive_buffer,
            _ => 0,
        };
        call.answer(errno, call.address, size.into(), &[]);
    }

    fn bind(&mut self, key: SocketKey, call: &Call) {
        let device = self.memory.device_of(&self.channel, *call.address.ip());
        let bound = match device {
            Some(_) => self.node.bind(key, call.address).map_err(|error| match error {
                SocketError::InUse => Errno::ADDRINUSE,
                SocketError::Bound | SocketError::Unknown | SocketError::TooMany => Errno::INVAL,
            }),
            None => Err(Errno::ADDRNOTAVAIL),
        };
        match bound {
            Ok(address) => {
                if let Some(program) = self.programs.get_mut(&key) {
                    program.device = device;
                }
                call.answer(0, address, 0, &[]);
            }
            Err(error) => call.answer(number(error), call.address, 0, &[]),
        }
    }

    fn answer_info(&self, call: &Call) {
        let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        match InfoKind::of(call.value) {
            Some(kind) => {
                let table = self.node.info(kind);
                call.answer(0, nowhere, table.entry_bytes as u64, &table.bytes);
            }
            None => call.answer(number(Errno::NOPROTOOPT), nowhere, 0, &[]),
        }
    }
}

fn number(error: Errno) -> u16 {
    error.raw_os_error() as u16
}
