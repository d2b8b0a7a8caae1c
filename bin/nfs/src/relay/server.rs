//! The loop: one thread waits for events of the connection manager, of all queue pairs and of all clients' sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weft_client::Which;
use weft_client::rdmacm::{Event, EventChannel, IdKey, SockAddr};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::signals::SignalQueue;
use weft_tool::errln;

use super::args::RelayArgs;
use super::session::{End, Session};
use crate::caller::{self, Lost};

const CHANNEL: u64 = 0;
const SIGNALS: u64 = 1;
const LISTENER: u64 = 2;
/// Key of the first session. A session has two tokens: twice its key for its client, and one more for its completions.
const FIRST_SESSION: u64 = 2;

/// The relay.
#[derive(Debug)]
pub struct Relay {
    // Dropped first: sessions end before the channel of their ids.
    sessions: BTreeMap<u64, Session>,
    ids: BTreeMap<IdKey, u64>,
    /// Sessions that may have more completions.
    busy: BTreeSet<u64>,
    next: u64,
    channel: EventChannel,
    listener: TcpListener,
    epoll: Epoll,
    signals: SignalQueue,
    server: SockAddr,
    credits: u32,
    connections_max: usize,
}

impl Relay {
    /// Listens for clients.
    ///
    /// # Errors
    /// There is no RDMA device, the server's name is unknown, or the address to listen on is in use.
    pub fn listen(args: &RelayArgs, signals: SignalQueue) -> Result<Relay> {
        let channel = caller::open_channel(if args.system { Which::System } else { Which::Ours })?;
        let server = caller::resolve(&args.server.host, args.server.port)?;
        let listener = TcpListener::bind(args.listen).with_context(|| format!("--listen {}", args.listen))?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new()?;
        epoll.add(&channel, CHANNEL, Interest::READ)?;
        epoll.add(&signals, SIGNALS, Interest::READ)?;
        epoll.add(&listener, LISTENER, Interest::READ)?;
        Ok(Relay {
            sessions: BTreeMap::new(),
            ids: BTreeMap::new(),
            busy: BTreeSet::new(),
            next: FIRST_SESSION,
            channel,
            listener,
            epoll,
            signals,
            server,
            credits: args.credits,
            connections_max: args.connections,
        })
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Relays until a signal comes.
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
                    LISTENER => self.on_listener(),
                    token => self.on_session(token, event),
                }
            }
            for key in std::mem::take(&mut self.busy) {
                self.with(key, Session::on_completions);
            }
            self.expire();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadline = self.sessions.values().filter_map(Session::deadline).min();
        deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Ends sessions whose server does not answer.
    fn expire(&mut self) {
        let now = Instant::now();
        let is_late = |session: &Session| session.deadline().is_some_and(|deadline| deadline <= now);
        let late: Vec<u64> =
            self.sessions.iter().filter(|(_, session)| is_late(session)).map(|(key, _)| *key).collect();
        late.into_iter().for_each(|key| self.end(key, &End::Server(Lost::Timeout)));
    }

    fn on_listener(&mut self) {
        while let Ok((socket, client)) = self.listener.accept() {
            if self.sessions.len() >= self.connections_max {
                errln!("weft nfs relay: client {client}: refused: too many connections; raise --connections");
                continue;
            }
            if let Err(end) = self.begin(socket, client) {
                errln!("weft nfs relay: client {client}: {end}");
            }
        }
    }

    fn begin(&mut self, socket: TcpStream, client: SocketAddr) -> Result<(), End> {
        let session = Session::new(socket, client, &self.channel, &self.server, self.credits)?;
        let key = self.next;
        // A client that goes away meanwhile is noticed by its hang-up.
        self.epoll.add(&session, 2 * key, Interest::NONE).map_err(End::Client)?;
        self.next += 1;
        self.ids.insert(session.connection.key(), key);
        self.sessions.insert(key, session);
        Ok(())
    }

    fn on_channel(&mut self) -> Result<()> {
        while let Some(event) = self.channel.poll().context("the RDMA connection manager")? {
            self.on_event(&event);
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Event) {
        let Some(key) = self.ids.get(&event.id).copied() else { return };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match session.on_event(event) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(completions) = session.connection.completions() {
                    let added = self.epoll.add(completions, 2 * key + 1, Interest::READ);
                    if let Err(error) = added {
                        return self.end(key, &End::Client(error));
                    }
                }
                self.with(key, Session::on_completions);
            }
            Err(end) => self.end(key, &end),
        }
    }

    fn on_session(&mut self, token: u64, event: &Ready) {
        let key = token / 2;
        if token.is_multiple_of(2) {
            self.with(key, |session| session.on_client(event.readable, event.hung_up).map(|()| false));
        } else {
            self.with(key, |session| {
                session.connection.on_readable()?;
                session.on_completions()
            });
        }
    }

    /// Lets a session handle something. `turn` returns whether there may be more completions.
    fn with(&mut self, key: u64, turn: impl FnOnce(&mut Session) -> Result<bool, End>) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match turn(session) {
            Ok(has_more) => {
                if has_more {
                    self.busy.insert(key);
                }
                let wanted = session.interest();
                if wanted != session.watched && self.epoll.modify(&*session, 2 * key, wanted).is_ok() {
                    session.watched = wanted;
                }
            }
            Err(end) => self.end(key, &end),
        }
    }

    fn end(&mut self, key: u64, end: &End) {
        let Some(session) = self.sessions.remove(&key) else { return };
        self.ids.remove(&session.connection.key());
        let _ = self.epoll.delete(&session);
        if let Some(completions) = session.connection.completions() {
            let _ = self.epoll.delete(completions);
        }
        session.connection.disconnect();
        let replies = if session.replies == 1 { "reply" } else { "replies" };
        errln!("weft nfs relay: client {}: {end}; {} {replies}", session.client, session.replies);
    }

    fn shut_down(&mut self) {
        for key in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.end(key, &End::Shutdown);
        }
    }
}
