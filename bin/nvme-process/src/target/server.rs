//! The loop: one thread waits for events of the connection manager, of all queue pairs and of the threads that execute
//! operations, and feeds the state machines.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weft_abi_types::{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED};
use weft_client::Which;
use weft_client::rdmacm::{CmId, Event, EventChannel, IdKey, SockAddr};
use weft_nvme::wire::RequestError;
use weft_nvme::{Action, CommandKey, LocalAddress, Operation, QueueKey, Status, Target};
use weft_rdma_service::{Data, Store, TransferError, TurnBudget, Workers};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::signals::SignalQueue;
use weft_tool::{errln, errno};

use super::args::TargetArgs;
use super::config::{Listen, Setup, Stores};
use super::execute::{execute, execute_at_once};
use super::session::{Job, Session, SessionEvent};

const CHANNEL: u64 = 0;
const SIGNALS: u64 = 1;
const WORKERS: u64 = 2;
/// Key of the first queue.
const FIRST_QUEUE: QueueKey = 3;

/// Executed operation: the command, whether it left data, and its end.
type Done = (CommandKey, bool, Result<(), Status>);

/// The target.
#[derive(Debug)]
pub struct Server {
    // Dropped first: sessions end before the channel of their ids.
    sessions: BTreeMap<QueueKey, Session>,
    ids: BTreeMap<IdKey, QueueKey>,
    /// Queues that may have more completions.
    busy: BTreeSet<QueueKey>,
    next: QueueKey,
    target: Target,
    /// Stores of each subsystem's namespaces.
    stores: Arc<[Stores]>,
    workers: Workers<Job, Done>,
    budget: TurnBudget,
    listens: Vec<Listen>,
    _listeners: Vec<CmId>,
    channel: EventChannel,
    epoll: Epoll,
    signals: SignalQueue,
    started: Instant,
    connections_max: usize,
}

impl Server {
    /// Listens on all ports.
    ///
    /// # Errors
    /// There is no RDMA device, or a port is in use.
    pub fn listen(which: Which, args: &TargetArgs, setup: Setup, signals: SignalQueue) -> Result<Server> {
        let channel = weft_rdma_service::channel(which)?;
        let mut listeners = Vec::new();
        for listen in &setup.listens {
            listeners.push(weft_rdma_service::listen(&channel, listen.address, listen.service)?);
        }
        let stores: Arc<[Stores]> = setup.stores.into();
        let of_workers = stores.clone();
        let workers = Workers::start("nvme", move |job: Job| {
            let store = store_of(&of_workers, &job).ok_or(Status::INVALID_NAMESPACE);
            let done = store.and_then(|store| execute(store, &job.operation, &job.data));
            let is_read = done.is_ok() && matches!(job.operation, Operation::Read { .. });
            (job.command, is_read, done)
        })
        .context("cannot start the threads that read and write files")?;
        let epoll = Epoll::new()?;
        epoll.add(&channel, CHANNEL, Interest::READ)?;
        epoll.add(&signals, SIGNALS, Interest::READ)?;
        epoll.add(workers.ready(), WORKERS, Interest::READ)?;
        for subsystem in &setup.target.subsystems {
            let count = subsystem.namespaces.len();
            let namespaces = if count == 1 { "namespace" } else { "namespaces" };
            errln!("weft nvme target: {}: {count} {namespaces}", subsystem.nqn);
        }
        let ports: Vec<_> = listeners.iter().map(|listener| listener.local_port().to_string()).collect();
        errln!("weft nvme target: listening on port {}", ports.join(", "));
        Ok(Server {
            sessions: BTreeMap::new(),
            ids: BTreeMap::new(),
            busy: BTreeSet::new(),
            next: FIRST_QUEUE,
            target: Target::new(setup.target),
            stores,
            workers,
            budget: TurnBudget::default(),
            listens: setup.listens,
            _listeners: listeners,
            channel,
            epoll,
            signals,
            started: Instant::now(),
            connections_max: args.connections,
        })
    }

    /// Serves until a signal comes.
    ///
    /// # Errors
    /// The connection manager fails.
    pub fn run(mut self) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        loop {
            self.epoll.wait(&mut ready, self.timeout())?;
            self.budget = TurnBudget::default();
            for event in &ready {
                match event.token {
                    CHANNEL => self.on_channel()?,
                    SIGNALS => {
                        if self.signals.take().is_some() {
                            self.shut_down();
                            return Ok(());
                        }
                    }
                    WORKERS => self.on_executed(),
                    key => self.on_readable(key),
                }
            }
            for key in std::mem::take(&mut self.busy) {
                self.on_completions(key);
            }
            self.target.handle_timeout(self.now());
            self.act();
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        self.target.deadline().map(|deadline| deadline.saturating_sub(self.now()))
    }

    fn on_channel(&mut self) -> Result<()> {
        while let Some(event) = self.channel.poll().context("the RDMA connection manager")? {
            self.on_event(event);
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
        let Some(key) = self.ids.get(&event.id).copied() else { return };
        if event.kind != RDMA_CM_EVENT_ESTABLISHED {
            let name = self.channel.library().event_name(event.kind);
            self.end(key, &name.trim_start_matches("RDMA_CM_EVENT_").to_lowercase().replace('_', " "));
            self.act();
        }
    }

    /// Takes or refuses a connection request.
    fn on_request(&mut self, id: &CmId, event: &Event) {
        let host = id.peer_addr().as_ref().map_or_else(|| "unknown".to_owned(), text);
        let key = self.next;
        let peer = event.peer.clone().unwrap_or_default();
        let refused = match self.admit(key, id, &peer.private_data) {
            Ok(admitted) => match self.accept(key, id, Session::new(id, &peer, host.clone(), &admitted)) {
                Ok(()) => return,
                Err(error) => {
                    self.target.queue_closed(key);
                    self.sessions.remove(&key);
                    errln!("weft nvme target: host {host}: refused: {}", errno::text(&error));
                    RequestError::Resources
                }
            },
            Err(refused) => {
                let hint = if refused == RequestError::Resources { "; raise --connections" } else { "" };
                errln!("weft nvme target: host {host}: refused: {refused}{hint}");
                refused
            }
        };
        let _ = id.reject_with(&refused.to_bytes());
    }

    fn admit(&mut self, key: QueueKey, id: &CmId, private_data: &[u8]) -> Result<weft_nvme::Admitted, RequestError> {
        if self.sessions.len() >= self.connections_max {
            return Err(RequestError::Resources);
        }
        let ip = id.local_addr().and_then(|address| address.ip());
        let service = id.local_port();
        let is_here = |listen: &Listen| listen.service == service && listen.address.is_none_or(|at| Some(at) == ip);
        let port = self.listens.iter().position(is_here).ok_or(RequestError::Resources)?;
        let address = ip.map_or_else(String::new, |ip| ip.to_string());
        let local = LocalAddress { is_ipv6: matches!(ip, Some(IpAddr::V6(_))), address, service: service.to_string() };
        self.target.admit(self.now(), key, port, local, private_data)
    }

    fn accept(&mut self, key: QueueKey, id: &CmId, session: std::io::Result<Session>) -> std::io::Result<()> {
        let session = session?;
        self.epoll.add(session.endpoint(), key, Interest::READ)?;
        session.accept()?;
        self.next += 1;
        self.ids.insert(id.key(), key);
        self.sessions.insert(key, session);
        Ok(())
    }

    fn on_readable(&mut self, key: QueueKey) {
        let Some(session) = self.sessions.get(&key) else { return };
        match session.endpoint().on_readable() {
            Ok(()) => self.on_completions(key),
            Err(broken) => self.fail(key, &TransferError::Broken(broken)),
        }
    }

    fn on_completions(&mut self, key: QueueKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let mut events = Vec::new();
        match session.poll(&mut events) {
            Ok(has_more) => {
                if has_more {
                    self.busy.insert(key);
                }
                self.on_session_events(key, events);
                self.act();
            }
            Err(error) => self.fail(key, &error),
        }
    }

    fn on_session_events(&mut self, key: QueueKey, events: Vec<SessionEvent>) {
        for event in events {
            match event {
                SessionEvent::Message(bytes) => self.target.handle_capsule(self.now(), key, &bytes),
                SessionEvent::Fetched(command, bytes) => self.target.handle_data(self.now(), command, &bytes),
                SessionEvent::Ready(mut job, memory) => {
                    if let Some(memory) = memory {
                        job.data = Data::Registered(memory);
                    }
                    let store = store_of(&self.stores, &job);
                    if store.is_some_and(|store| execute_at_once(store, &job.operation, &job.data, &mut self.budget)) {
                        let is_read = matches!(job.operation, Operation::Read { .. });
                        self.executed((job.command, is_read, Ok(())));
                    } else {
                        self.workers.submit(key, job);
                    }
                }
            }
        }
    }

    fn on_executed(&mut self) {
        for done in self.workers.take() {
            self.executed(done);
            self.act();
        }
    }

    fn executed(&mut self, (command, is_read, done): Done) {
        let Some(session) = self.sessions.get_mut(&command.queue) else { return };
        match session.on_executed(command, is_read) {
            Ok(()) => self.target.handle_executed(command, done),
            Err(error) => self.fail(command.queue, &error),
        }
    }

    /// Carries out the state machines' actions.
    fn act(&mut self) {
        while let Some(action) = self.target.poll() {
            match action {
                Action::Close(key, reason) => self.end(key, &reason.to_string()),
                Action::Log(key, event) => {
                    self.sessions.get_mut(&key).into_iter().for_each(|session| session.log(key, &event));
                }
                Action::Fetch(key, host) => self.with(key.queue, |session, _| session.fetch(key, host)),
                Action::Respond(response) => {
                    self.with(response.command.queue, |session, _| session.respond(response));
                }
                Action::Execute { command, subsystem, namespace, operation, data } => {
                    let job = Job { command, subsystem, namespace, operation, data: Data::None };
                    self.with(command.queue, |session, events| session.execute(job, data, events));
                }
            }
        }
    }

    /// Lets a session handle something.
    fn with(
        &mut self,
        key: QueueKey,
        turn: impl FnOnce(&mut Session, &mut Vec<SessionEvent>) -> Result<(), TransferError>,
    ) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let mut events = Vec::new();
        match turn(session, &mut events) {
            Ok(()) => self.on_session_events(key, events),
            Err(error) => self.fail(key, &error),
        }
    }

    fn fail(&mut self, key: QueueKey, error: &TransferError) {
        self.end(key, &error.to_string());
    }

    /// Ends a connection. The state machines may end others for it.
    fn end(&mut self, key: QueueKey, reason: &str) {
        let Some(session) = self.sessions.remove(&key) else { return };
        let id = session.endpoint().id();
        self.ids.remove(&id.key());
        // Disconnecting fails if the host was first.
        let _ = id.disconnect();
        let _ = self.epoll.delete(session.endpoint());
        self.workers.forget(key);
        self.target.queue_closed(key);
        errln!("weft nvme target: host {}: queue {key}: {reason}; {}", session.host, session.statistics());
    }

    fn shut_down(&mut self) {
        for key in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.end(key, "the target ends");
        }
    }
}

fn store_of<'a>(stores: &'a [Stores], job: &Job) -> Option<&'a Store> {
    stores.get(job.subsystem)?.get(&job.namespace).map(Arc::as_ref)
}

fn text(address: &SockAddr) -> String {
    address.ip().map_or_else(|| format!("{address:?}"), |ip| ip.to_string())
}
