//! The loop: one thread waits for events of the connection manager, of all queue pairs, of backends and of the threads
//! that execute calls, and lets each session handle its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weft_abi_types::{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED};
use weft_client::Which;
use weft_client::rdmacm::{CmId, Event, EventChannel, IdKey};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::signals::SignalQueue;
use weft_tool::{errln, errno};

use super::args::ServeArgs;
use super::backend::Backend;
use super::end::End;
use super::service::Service;
use super::session::Session;
use crate::limits::IDLE_MAX;

const CHANNEL: u64 = 0;
const SIGNALS: u64 = 1;
const WORKERS: u64 = 2;
/// Key of the first session. A session has two tokens: twice its key, and one more for its backend.
const FIRST_SESSION: u64 = 2;

/// The server.
#[derive(Debug)]
pub struct Server {
    // Dropped first: sessions end before the channel of their ids.
    sessions: BTreeMap<u64, Session>,
    ids: BTreeMap<IdKey, u64>,
    /// Sessions that may have more completions.
    busy: BTreeSet<u64>,
    next: u64,
    _listener: CmId,
    channel: EventChannel,
    epoll: Epoll,
    signals: SignalQueue,
    service: Service,
    credits: u32,
    connections_max: usize,
}

impl Server {
    /// Listens for connections.
    ///
    /// # Errors
    /// There is no RDMA device, or the port is in use.
    pub fn listen(which: Which, args: &ServeArgs, port: u16, service: Service, signals: SignalQueue) -> Result<Server> {
        let channel = weft_rdma_service::channel(which)?;
        let listener = weft_rdma_service::listen(&channel, args.bind, port)?;
        let epoll = Epoll::new()?;
        epoll.add(&channel, CHANNEL, Interest::READ)?;
        epoll.add(&signals, SIGNALS, Interest::READ)?;
        if let Service::Export(workers) = &service {
            epoll.add(workers.ready(), WORKERS, Interest::READ)?;
        }
        errln!("weft nfs serve: listening on port {}, {}", listener.local_port(), described(args, &service));
        Ok(Server {
            sessions: BTreeMap::new(),
            ids: BTreeMap::new(),
            busy: BTreeSet::new(),
            next: FIRST_SESSION,
            _listener: listener,
            channel,
            epoll,
            signals,
            service,
            credits: args.credits,
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
                    token => self.on_session(token),
                }
            }
            for key in std::mem::take(&mut self.busy) {
                self.with(key, |session, service| session.on_completions(service));
            }
            self.expire();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        self.sessions.values().map(deadline).min().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Ends sessions whose backend does not answer, and idle ones.
    fn expire(&mut self) {
        let now = Instant::now();
        let late = self.sessions.iter().filter(|(_, session)| deadline(session) <= now);
        let late: Vec<(u64, bool)> = late.map(|(key, session)| (*key, session.is_accepted())).collect();
        for (key, is_accepted) in late {
            let silent = || End::Backend(std::io::ErrorKind::TimedOut.into());
            self.end(key, &if is_accepted { End::Idle } else { silent() });
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
            if let Some(id) = event.incoming.take()
                && let Err(error) = self.request(&id, &event)
            {
                let client = id.peer_addr().map_or_else(|| "unknown".to_owned(), |addr| format!("{addr:?}"));
                errln!("weft nfs serve: client {client}: refused: {}", errno::text(&error));
                let _ = id.reject();
            }
            return;
        }
        let Some(key) = self.ids.get(&event.id).copied() else { return };
        if event.kind == RDMA_CM_EVENT_ESTABLISHED {
            if let Some(session) = self.sessions.get(&key) {
                let (now, max) = (self.sessions.len(), self.connections_max);
                errln!("weft nfs serve: client {}: connected ({now} of {max} connections)", session.client);
            }
            return;
        }
        let name = self.channel.library().event_name(event.kind);
        self.end(key, &End::Event(name.trim_start_matches("RDMA_CM_EVENT_").to_lowercase().replace('_', " ")));
    }

    /// Handles a connection request.
    fn request(&mut self, id: &CmId, event: &Event) -> std::io::Result<()> {
        if self.sessions.len() >= self.connections_max {
            return Err(std::io::Error::other("too many connections; raise --connections"));
        }
        let key = self.next;
        let peer = event.peer.clone().unwrap_or_default();
        let mut session = Session::new(key, id, &peer, &self.service, self.credits)?;
        self.epoll.add(session.endpoint(), 2 * key, Interest::READ)?;
        match &session.backend {
            Some(backend) => self.epoll.add(backend, 2 * key + 1, Interest::BOTH)?,
            None => session.accept()?,
        }
        self.next += 1;
        self.ids.insert(id.key(), key);
        self.sessions.insert(key, session);
        Ok(())
    }

    fn on_session(&mut self, token: u64) {
        let key = token / 2;
        if token.is_multiple_of(2) {
            self.with(key, |session, service| {
                session.endpoint().on_readable()?;
                session.on_completions(service)
            });
        } else {
            self.with(key, |session, service| session.on_backend(service).map(|()| false));
        }
    }

    fn on_executed(&mut self) {
        let Service::Export(workers) = &self.service else { return };
        for done in workers.take() {
            self.with(done.session, |session, service| session.on_executed(done, service).map(|()| false));
        }
    }

    /// Lets a session handle something. `turn` returns whether there may be more completions.
    fn with(&mut self, key: u64, turn: impl FnOnce(&mut Session, &Service) -> Result<bool, End>) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match turn(session, &self.service) {
            Ok(has_more) => {
                if has_more {
                    self.busy.insert(key);
                }
                self.watch_backend(key);
            }
            Err(end) => self.end(key, &end),
        }
    }

    /// Watches a backend's socket for the events that matter now.
    fn watch_backend(&mut self, key: u64) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let is_full = session.is_full();
        let Some(backend) = &mut session.backend else { return };
        let wanted = backend.interest(is_full);
        if wanted != backend.watched && self.epoll.modify(&*backend, 2 * key + 1, wanted).is_ok() {
            backend.watched = wanted;
        }
    }

    /// Ends a session: disconnects, or rejects a request that was not accepted.
    fn end(&mut self, key: u64, end: &End) {
        let Some(session) = self.sessions.remove(&key) else { return };
        let id = session.endpoint().id();
        self.ids.remove(&id.key());
        // Disconnecting fails if the client was first.
        let _ = if session.is_accepted() { id.disconnect() } else { id.reject() };
        let _ = self.epoll.delete(session.endpoint());
        if let Some(backend) = &session.backend {
            let _ = self.epoll.delete(backend);
        }
        if let Service::Export(workers) = &self.service {
            workers.forget(key);
        }
        errln!("weft nfs serve: client {}: {end}; {}", session.client, session.statistics);
    }

    fn shut_down(&mut self) {
        for key in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.end(key, &End::Shutdown);
        }
    }
}

/// Returns the time at which a session ends unless something happens.
fn deadline(session: &Session) -> Instant {
    let connects_by = session.backend.as_ref().and_then(Backend::deadline);
    connects_by.unwrap_or(session.heard + IDLE_MAX)
}

fn described(args: &ServeArgs, service: &Service) -> String {
    match (service, &args.export) {
        (Service::Backend(address), _) => format!("for the NFS server at {address}"),
        (Service::Export(_), Some(dir)) if args.mount_port == 0 => format!("exporting {}", dir.display()),
        (Service::Export(_), Some(dir)) => {
            format!("exporting {}; MOUNT on TCP port {}", dir.display(), args.mount_port)
        }
        (Service::Export(_), None) => String::new(),
    }
}
