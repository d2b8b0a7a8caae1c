//! The transport's thread: one connection, and the calls on it. If the connection breaks, or a call has no reply in time,
//! it connects again and repeats the calls in their order, as Linux's client does: RPC-over-RDMA knows no repetition on
//! the same connection.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rustix::io::Errno;
use weft_client::Which;
use weft_client::rdmacm::{Event, EventChannel, SockAddr};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_tool::errln;

use super::inbox::{Done, Inbox, Submission};
use super::options::TransportOptions;
use crate::caller::{self, Answer, Connection, Heard, Lost};

const CHANNEL: u64 = 0;
const BELL: u64 = 1;
const COMPLETIONS: u64 = 2;
/// Pauses between attempts to connect: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// A call without an answer.
struct Open {
    message: Arc<Vec<u8>>,
    done: Done,
    order: u64,
    deadline: Instant,
    tries: u32,
}

/// The thread's state.
pub struct Engine {
    // Dropped before the channel of its id.
    connection: Option<Connection>,
    channel: EventChannel,
    epoll: Epoll,
    server: SockAddr,
    options: TransportOptions,
    inbox: Arc<Inbox>,
    calls: BTreeMap<u32, Open>,
    order: u64,
    /// Time of the next attempt to connect.
    retry_at: Option<Instant>,
    pause: Duration,
    /// The server does not answer, and a line said so.
    is_silent: bool,
    has_more: bool,
}

impl Engine {
    /// Runs until the transport is dropped; `connected` gets the outcome of the first attempt to connect.
    pub fn run(options: TransportOptions, inbox: Arc<Inbox>, connected: &mpsc::Sender<Result<()>>) {
        // A caller that is gone needs no outcome.
        match Engine::start(options, inbox) {
            Ok(mut engine) => {
                let _ = connected.send(Ok(()));
                engine.serve();
                engine.end();
            }
            Err(error) => drop(connected.send(Err(error))),
        }
    }

    fn start(options: TransportOptions, inbox: Arc<Inbox>) -> Result<Engine> {
        let channel = caller::open_channel(if options.system { Which::System } else { Which::Ours })?;
        let server = caller::resolve(&options.server.host, options.server.port)?;
        let epoll = Epoll::new()?;
        epoll.add(&channel, CHANNEL, Interest::READ)?;
        epoll.add(&inbox.bell, BELL, Interest::READ)?;
        let mut engine = Engine {
            connection: None,
            channel,
            epoll,
            server,
            options,
            inbox,
            calls: BTreeMap::new(),
            order: 0,
            retry_at: None,
            pause: PAUSES.0,
            is_silent: false,
            has_more: false,
        };
        let name = engine.options.server.clone();
        let why = |lost: &Lost| anyhow!("{name}: no connection over RDMA: {lost}");
        let mut connection =
            Connection::start(&engine.channel, &engine.server, engine.options.credits).map_err(|lost| why(&lost))?;
        while !connection.is_ready() {
            let left = connection.deadline().map(|at| at.saturating_duration_since(Instant::now())).unwrap_or_default();
            if !weft_sys::epoll::wait_readable(&engine.channel, left)? {
                return Err(why(&Lost::Timeout));
            }
            while let Some(event) = engine.channel.poll()? {
                connection.on_event(&event).map_err(|lost| why(&lost))?;
            }
        }
        engine.connection = Some(connection);
        engine.on_ready();
        Ok(engine)
    }

    fn serve(&mut self) {
        let mut ready: Vec<Ready> = Vec::new();
        while !self.inbox.is_stopped() {
            if self.epoll.wait(&mut ready, self.timeout()).is_err() {
                return;
            }
            for event in &ready {
                match event.token {
                    CHANNEL => self.on_channel(),
                    BELL => self.on_bell(),
                    _ => self.with(|connection, _| connection.on_readable().map(|()| true)),
                }
            }
            if std::mem::take(&mut self.has_more) {
                self.with(Connection::on_completions);
            }
            self.on_time(Instant::now());
        }
    }

    fn end(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.disconnect();
        }
        let left = std::mem::take(&mut self.calls).into_values().map(|open| open.done);
        left.chain(self.inbox.take().into_iter().map(|call| call.done)).for_each(|done| done(Err(Errno::NOTCONN)));
    }

    fn timeout(&self) -> Option<Duration> {
        if self.has_more {
            return Some(Duration::ZERO);
        }
        let calls = self.calls.values().map(|open| open.deadline).min();
        let connects = self.connection.as_ref().and_then(Connection::deadline);
        let next = [calls, connects, self.retry_at].into_iter().flatten().min();
        next.map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn on_channel(&mut self) {
        while let Ok(Some(event)) = self.channel.poll() {
            self.on_event(&event);
        }
    }

    fn on_event(&mut self, event: &Event) {
        // Events of an earlier connection come late.
        let Some(connection) = self.connection.as_mut().filter(|connection| connection.key() == event.id) else {
            return;
        };
        match connection.on_event(event) {
            Ok(false) => {}
            Ok(true) => self.on_ready(),
            Err(lost) => self.on_lost(&lost),
        }
    }

    /// Sends all calls in their order.
    fn on_ready(&mut self) {
        self.pause = PAUSES.0;
        if std::mem::take(&mut self.is_silent) {
            errln!("weft nfs: server {}: OK", self.options.server);
        }
        if let Some(completions) = self.connection.as_ref().and_then(Connection::completions)
            && let Err(error) = self.epoll.add(completions, COMPLETIONS, Interest::READ)
        {
            return self.on_lost(&Lost::Call(error));
        }
        let mut again: Vec<(u64, Arc<Vec<u8>>)> =
            self.calls.values().map(|open| (open.order, open.message.clone())).collect();
        again.sort_unstable_by_key(|(order, _)| *order);
        self.with(|connection, _| {
            again.into_iter().try_for_each(|(_, message)| connection.call(message))?;
            Ok(true)
        });
    }

    fn on_bell(&mut self) {
        let now = Instant::now();
        for Submission { xid, message, done } in self.inbox.take() {
            let deadline = now + self.options.timeout_after(0);
            let open = Open { message: message.clone(), done, order: self.order, deadline, tries: 0 };
            self.order += 1;
            self.calls.insert(xid, open);
            self.with(|connection, _| connection.call(message).map(|()| false));
        }
        self.connect();
    }

    /// Begins to connect, if there are calls and it is time.
    fn connect(&mut self) {
        let is_time = self.retry_at.is_none_or(|at| at <= Instant::now());
        if self.connection.is_some() || self.calls.is_empty() || !is_time {
            return;
        }
        self.retry_at = None;
        match Connection::start(&self.channel, &self.server, self.options.credits) {
            Ok(connection) => self.connection = Some(connection),
            Err(lost) => self.on_lost(&lost),
        }
    }

    /// Lets the connection do something; `step` returns whether there may be more completions.
    fn with(&mut self, step: impl FnOnce(&mut Connection, &mut Vec<Heard>) -> Result<bool, Lost>) {
        let Some(connection) = &mut self.connection else { return };
        let mut heard = Vec::new();
        let result = step(connection, &mut heard);
        for message in heard {
            match message {
                Heard::Answer(answer) => self.on_answer(answer),
                Heard::Refused(xid) => self.finish(xid, Err(Errno::IO)),
                // NFSv3 has none.
                Heard::Callback(_) => {}
            }
        }
        match result {
            Ok(has_more) => self.has_more |= has_more,
            Err(lost) => self.on_lost(&lost),
        }
    }

    fn on_answer(&mut self, answer: Answer) {
        self.finish(answer.xid, Ok(answer));
    }

    fn finish(&mut self, xid: u32, answer: Result<Answer, Errno>) {
        if let Some(open) = self.calls.remove(&xid) {
            (open.done)(answer);
        }
    }

    fn on_lost(&mut self, lost: &Lost) {
        if let Some(connection) = self.connection.take() {
            if let Some(completions) = connection.completions() {
                let _ = self.epoll.delete(completions);
            }
            connection.disconnect();
        }
        self.has_more = false;
        if !self.calls.is_empty() && !std::mem::replace(&mut self.is_silent, true) {
            errln!("weft nfs: server {}: not responding, still trying: {lost}", self.options.server);
        }
        self.retry_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    /// Repeats calls without a reply on a new connection, and fails those of `soft` mounts.
    fn on_time(&mut self, now: Instant) {
        let is_late = self.connection.as_ref().and_then(Connection::deadline).is_some_and(|at| at <= now);
        let mut late: Vec<u32> = Vec::new();
        for (xid, open) in self.calls.iter_mut().filter(|(_, open)| open.deadline <= now) {
            open.tries += 1;
            open.deadline = now + self.options.timeout_after(open.tries);
            late.push(*xid);
        }
        let is_ready = self.connection.as_ref().is_some_and(Connection::is_ready);
        if is_late || is_ready && !late.is_empty() {
            self.on_lost(&Lost::Timeout);
        }
        if let Some(retries) = self.options.soft_retries {
            late.retain(|xid| self.calls.get(xid).is_some_and(|open| open.tries > retries));
            late.into_iter().for_each(|xid| self.finish(xid, Err(Errno::IO)));
        }
        self.connect();
    }
}
