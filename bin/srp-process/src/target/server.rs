//! The loop: one thread waits for events of the connection manager, of all queue pairs and of the threads that execute
//! operations, and feeds the state machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use weft_abi_types::{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED};
use weft_client::Which;
use weft_client::rdmacm::{CmId, Event, EventChannel, IdKey, SockAddr};
use weft_rdma_service::{Data, Store, TransferError, TurnBudget, Workers};
use weft_srp::scsi::Fault;
use weft_srp::wire::{LoginCarrier, LogoutReason, TargetLogout};
use weft_srp::{Action, ChannelKey, CommandKey, LoginAnswer, LoginError, Refusal, Target};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::signals::SignalQueue;
use weft_tool::{errln, errno};

use super::args::TargetArgs;
use super::execute::{execute, execute_at_once};
use super::infiniband;
use super::session::{Job, Session, SessionEvent};
use super::setup::Setup;

const CHANNEL: u64 = 0;
const SIGNALS: u64 = 1;
const WORKERS: u64 = 2;
/// Key of the first channel.
const FIRST_CHANNEL: ChannelKey = 3;

/// Executed operation.
type Done = (CommandKey, Result<(), Fault>);

/// The target.
#[derive(Debug)]
pub struct Server {
    // Dropped first: sessions end before the channel of their ids.
    sessions: BTreeMap<ChannelKey, Session>,
    ids: BTreeMap<IdKey, ChannelKey>,
    /// Channels that may have more completions.
    busy: BTreeSet<ChannelKey>,
    next: ChannelKey,
    target: Target,
    /// Stores of the units, by their numbers.
    stores: Arc<[Arc<Store>]>,
    workers: Workers<Job, Done>,
    budget: TurnBudget,
    _listener: CmId,
    /// Listener at the service identifier, on a host with InfiniBand.
    _service: Option<CmId>,
    channel: EventChannel,
    epoll: Epoll,
    signals: SignalQueue,
    connections_max: usize,
}

impl Server {
    /// Listens on the port.
    ///
    /// # Errors
    /// There is no RDMA device, or the port is in use.
    pub fn listen(which: Which, args: &TargetArgs, setup: Setup, signals: SignalQueue) -> Result<Server> {
        let channel = weft_rdma_service::channel(which)?;
        let listener = weft_rdma_service::listen(&channel, args.bind, args.port)?;
        let stores: Arc<[Arc<Store>]> = setup.stores.into();
        let of_workers = stores.clone();
        let workers = Workers::start("srp", move |job: Job| {
            let store = of_workers.get(usize::from(job.lun)).ok_or(Fault::Dropped);
            (job.command, store.and_then(|store| execute(store, &job.operation, &job.data)))
        })
        .context("cannot start the threads that read and write files")?;
        let epoll = Epoll::new()?;
        epoll.add(&channel, CHANNEL, Interest::READ)?;
        epoll.add(&signals, SIGNALS, Interest::READ)?;
        epoll.add(workers.ready(), WORKERS, Interest::READ)?;
        let (guid, port) = (setup.guid, listener.local_port());
        let address = args.bind.map_or_else(|| "ADDRESS".to_owned(), |ip| AddressText(ip).to_string());
        errln!("weft srp target: log in with id_ext={guid:016x},ioc_guid={guid:016x},dest={address}:{port}");
        let service = infiniband::listen(which, &channel, &listener, args, guid)?;
        errln!("weft srp target: listening on port {port}");
        Ok(Server {
            sessions: BTreeMap::new(),
            ids: BTreeMap::new(),
            busy: BTreeSet::new(),
            next: FIRST_CHANNEL,
            target: Target::new(setup.target),
            stores,
            workers,
            budget: TurnBudget::default(),
            _listener: listener,
            _service: service,
            channel,
            epoll,
            signals,
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
            let timeout = if self.busy.is_empty() { None } else { Some(Duration::ZERO) };
            self.epoll.wait(&mut ready, timeout)?;
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
        }
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

    /// Takes or refuses a login.
    fn on_request(&mut self, id: &CmId, event: &Event) {
        let host = id.peer_addr().as_ref().map_or_else(|| "unknown".to_owned(), text);
        let is_ib = id.peer_addr().is_some_and(|address| address.gid().is_some());
        let carrier = if is_ib { LoginCarrier::IbCm } else { LoginCarrier::RdmaCm };
        let key = self.next;
        let peer = event.peer.clone().unwrap_or_default();
        let refused = match self.login(key, carrier, &peer.private_data) {
            Ok(answer) => {
                // A login may end other channels: they go first, for their memory.
                self.act();
                match self.accept(key, id, Session::new(id, &peer, host.clone(), &answer)) {
                    Ok(()) => {
                        errln!("weft srp target: host {host}: channel {key}: login of initiator {}", answer.initiator);
                        return;
                    }
                    Err(error) => {
                        self.target.channel_closed(key);
                        errln!("weft srp target: host {host}: login refused: {}", errno::text(&error));
                        LoginError::no_resources(carrier, &peer.private_data)
                    }
                }
            }
            Err(refused) => {
                let hint = if refused.refusal == Refusal::Resources { "; raise --connections" } else { "" };
                errln!("weft srp target: host {host}: login refused: {}{hint}", refused.refusal);
                refused
            }
        };
        let _ = id.reject_with(&refused.to_bytes());
    }

    fn login(
        &mut self,
        key: ChannelKey,
        carrier: LoginCarrier,
        private_data: &[u8],
    ) -> Result<LoginAnswer, LoginError> {
        if self.sessions.len() >= self.connections_max {
            return Err(LoginError::no_resources(carrier, private_data));
        }
        self.target.login(key, carrier, private_data)
    }

    fn accept(&mut self, key: ChannelKey, id: &CmId, session: std::io::Result<Session>) -> std::io::Result<()> {
        let session = session?;
        self.epoll.add(session.endpoint(), key, Interest::READ)?;
        session.accept()?;
        self.next += 1;
        self.ids.insert(id.key(), key);
        self.sessions.insert(key, session);
        Ok(())
    }

    fn on_readable(&mut self, key: ChannelKey) {
        let Some(session) = self.sessions.get(&key) else { return };
        match session.endpoint().on_readable() {
            Ok(()) => self.on_completions(key),
            Err(broken) => self.fail(key, &TransferError::Broken(broken)),
        }
    }

    fn on_completions(&mut self, key: ChannelKey) {
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

    fn on_session_events(&mut self, key: ChannelKey, events: Vec<SessionEvent>) {
        for event in events {
            match event {
                SessionEvent::Message(bytes) => self.target.handle_iu(key, &bytes),
                SessionEvent::Fetched(command, bytes) => self.target.handle_data(command, &bytes),
                SessionEvent::Ready(mut job, memory) => {
                    if self.target.start(job.command) {
                        if let Some(memory) = memory {
                            job.data = Data::Registered(memory);
                        }
                        let store = self.stores.get(usize::from(job.lun));
                        if store
                            .is_some_and(|store| execute_at_once(store, &job.operation, &job.data, &mut self.budget))
                        {
                            self.target.handle_executed(job.command, Ok(()));
                        } else {
                            self.workers.submit(key, job);
                        }
                    }
                }
            }
        }
    }

    fn on_executed(&mut self) {
        for (command, done) in self.workers.take() {
            self.target.handle_executed(command, done);
            self.act();
        }
    }

    /// Carries out the state machine's actions.
    fn act(&mut self) {
        while let Some(action) = self.target.poll() {
            match action {
                Action::Close(key, reason) => self.end(key, &reason.to_string()),
                Action::Log(key, event) => {
                    self.sessions.get_mut(&key).into_iter().for_each(|session| session.log(&event));
                }
                Action::Fetch { command, pieces, .. } => {
                    self.with(command.channel, |session, _| session.fetch(command, &pieces));
                }
                Action::Execute { command, lun, operation, data } => {
                    let job = Job { command, lun, operation, data: Data::None };
                    self.with(command.channel, |session, events| session.execute(job, data, events));
                }
                Action::Respond(response) => {
                    self.with(response.command.channel, |session, _| session.respond(response));
                }
                Action::Forget(command) => {
                    self.sessions.get_mut(&command.channel).into_iter().for_each(|session| session.forget(command));
                }
                Action::Send(key, iu) => self.with(key, |session, _| session.send(iu)),
            }
        }
    }

    /// Lets a session handle something.
    fn with(
        &mut self,
        key: ChannelKey,
        turn: impl FnOnce(&mut Session, &mut Vec<SessionEvent>) -> Result<(), TransferError>,
    ) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let mut events = Vec::new();
        match turn(session, &mut events) {
            Ok(()) => self.on_session_events(key, events),
            Err(error) => self.fail(key, &error),
        }
    }

    fn fail(&mut self, key: ChannelKey, error: &TransferError) {
        self.end(key, &error.to_string());
    }

    /// Ends a connection. Operations that run go on, and the state machine waits for them.
    fn end(&mut self, key: ChannelKey, reason: &str) {
        let Some(session) = self.sessions.remove(&key) else { return };
        let id = session.endpoint().id();
        self.ids.remove(&id.key());
        // Disconnecting fails if the initiator was first.
        let _ = id.disconnect();
        let _ = self.epoll.delete(session.endpoint());
        self.target.channel_closed(key);
        for job in self.workers.forget(key) {
            self.target.handle_executed(job.command, Err(Fault::Dropped));
        }
        let (host, initiator) = (&session.host, session.initiator);
        errln!(
            "weft srp target: host {host}: channel {key} of initiator {initiator}: {reason}; {}",
            session.statistics()
        );
    }

    /// Tells all initiators, and ends.
    fn shut_down(&mut self) {
        let logout = TargetLogout { reason: LogoutReason::Unspecified }.to_bytes();
        for key in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.with(key, |session, _| session.send(logout.to_vec()));
            self.end(key, "the target ends");
        }
    }
}

fn text(address: &SockAddr) -> String {
    let ip = address.ip().or_else(|| address.gid().map(|gid| Ipv6Addr::from(gid).into()));
    ip.map_or_else(|| format!("{address:?}"), |ip| ip.to_string())
}

/// An address as initiators write it before a port.
struct AddressText(std::net::IpAddr);

impl std::fmt::Display for AddressText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            std::net::IpAddr::V4(ip) => write!(f, "{ip}"),
            std::net::IpAddr::V6(ip) => write!(f, "[{ip}]"),
        }
    }
}
