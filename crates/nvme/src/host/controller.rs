//! Controller as a host has it: the queues, the requests, and the times.
//!
//! ```text
//!            all queues connected            a connection is lost
//!   setup ──────────────────────▶ ready ─────────────────────────▶ waiting ──▶ setup (again)
//!     │ the first one fails         │ shutdown                       │ too many attempts
//!     │                             ▼                                ▼
//!     └──────────────▶ ended ◀── draining ─▶ shutting down ─▶ ended
//! ```
//!
//! In each state a breach of the protocol ends the controller. While it waits, requests wait, too; commands that were in
//! progress are sent again, as Linux's host does.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::action::{CommandData, Content};
use super::action::{HostAction, HostEvent, LostReason, Outcome, RequestFailure, RequestKey, SlotKey};
use super::backlog::Backlog;
use super::config::HostConfig;
use super::identity::{ControllerInfo, NamespaceInfo};
use super::queues::{Completed, Purpose, Queues};
use super::request::Request;
use super::setup::{Setup, SetupStep, is_shut_down, keep_alive_command, shutdown_command, status_command};
use crate::limits::{COMMAND_TIMEOUT, READY_POLLS_EVERY, SHUTDOWN_WITHIN, TIMEOUT_CHECKS_EVERY};
use crate::wire::{Command, Completion};
use crate::{Operation, Status};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The setup, whose next step waits until a time.
    Setup {
        step_at: Option<Duration>,
    },
    Ready,
    Waiting {
        until: Duration,
    },
    Draining {
        until: Duration,
    },
    ShuttingDown {
        until: Duration,
        poll_at: Option<Duration>,
    },
    Ended,
}

/// Namespace that the owner knows.
#[derive(Clone, Copy, Debug)]
struct Known {
    info: NamespaceInfo,
    /// It was not found again after the host connected again.
    is_gone: bool,
}

/// Controller of a host.
#[derive(Debug)]
pub struct HostController {
    config: HostConfig,
    phase: Phase,
    setup: Setup,
    /// Begin of the setup's current step.
    step_since: Duration,
    /// Completion whose structure the owner has to hand in.
    page_of: Option<Completion>,
    queues: Queues,
    backlog: Backlog,
    info: Option<ControllerInfo>,
    namespaces: BTreeMap<u32, Known>,
    /// Attempts to connect again since the controller was ready.
    attempts: u32,
    keep_alive_at: Option<Duration>,
    /// Time at which the Keep Alive in progress was sent.
    keep_alive_since: Option<Duration>,
    next_check: Duration,
    actions: VecDeque<HostAction>,
}

impl HostController {
    /// Creates a controller, and begins to connect.
    pub fn new(now: Duration, config: HostConfig) -> HostController {
        let mut controller = HostController {
            config,
            phase: Phase::Setup { step_at: None },
            setup: Setup::new(),
            step_since: now,
            page_of: None,
            queues: Queues::default(),
            backlog: Backlog::default(),
            info: None,
            namespaces: BTreeMap::new(),
            attempts: 0,
            keep_alive_at: None,
            keep_alive_since: None,
            next_check: now + TIMEOUT_CHECKS_EVERY,
            actions: VecDeque::new(),
        };
        controller.step(now);
        controller
    }

    /// Returns the next action.
    pub fn poll(&mut self) -> Option<HostAction> {
        self.actions.pop_front()
    }

    /// Controller as Identify describes it, once it was ready.
    pub fn info(&self) -> Option<&ControllerInfo> {
        self.info.as_ref()
    }

    /// Namespaces of the first time that the controller was ready, with their current sizes.
    pub fn namespaces(&self) -> impl Iterator<Item = &NamespaceInfo> {
        self.namespaces.values().map(|known| &known.info)
    }

    /// Whether commands are sent now.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Notes that the queue pair of the last [`HostAction::Open`] is connected.
    pub fn queue_opened(&mut self, now: Duration, queue: u16) {
        if !matches!(self.phase, Phase::Setup { .. }) || usize::from(queue) != self.queues.len() {
            return;
        }
        self.queues.open(self.setup.entries(queue, &self.config));
        self.setup.on_opened();
        self.step(now);
    }

    /// Notes that a connection could not be made, or broke.
    pub fn connection_lost(&mut self, now: Duration, reason: String) {
        self.lose(now, LostReason::Connection(reason));
        self.report();
    }

    /// Notes the key of the memory that a command lends, before the owner sends it.
    pub fn lent(&mut self, slot: SlotKey, key: u32) {
        self.queues.lent(slot, key);
    }

    /// Handles a capsule of the target. `invalidated` is the key that its SEND invalidated.
    pub fn handle_capsule(&mut self, now: Duration, queue: u16, capsule: &[u8], invalidated: Option<u32>) {
        match self.queues.complete(queue, capsule, invalidated) {
            Ok(None) => return,
            Ok(Some(completed)) => self.on_completed(now, completed),
            Err(breach) => self.end(LostReason::Breach(breach)),
        }
        self.pump(now);
    }

    /// Handles the structure that an [`HostAction::Release`] gave the owner.
    pub fn handle_page(&mut self, now: Duration, page: &[u8]) {
        if let Some(completion) = self.page_of.take() {
            self.on_setup(now, &completion, page);
            self.pump(now);
        }
    }

    /// Takes a request for a namespace.
    pub fn submit(&mut self, now: Duration, key: RequestKey, namespace: u32, operation: Operation) {
        match self.check(namespace, operation) {
            Ok(request) => self.backlog.submit(key, request),
            Err(failure) => self.backlog.refuse(key, failure),
        }
        self.pump(now);
    }

    fn check(&self, namespace: u32, operation: Operation) -> Result<Request, RequestFailure> {
        if matches!(self.phase, Phase::Draining { .. } | Phase::ShuttingDown { .. } | Phase::Ended) {
            return Err(RequestFailure::Ended);
        }
        let unknown = RequestFailure::Status(Status::INVALID_NAMESPACE);
        let known = self.namespaces.get(&namespace).filter(|known| !known.is_gone).ok_or(unknown)?;
        Request::new(operation, &known.info, self.info.as_ref().ok_or(unknown)?)
    }

    /// Ends the controller: commands in progress may complete for some seconds, then the controller is told.
    pub fn shutdown(&mut self, now: Duration) {
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Draining { until: now + SHUTDOWN_WITHIN };
                self.pump(now);
            }
            Phase::Setup { .. } | Phase::Waiting { .. } => {
                self.end(LostReason::Shutdown);
                self.report();
            }
            Phase::Draining { .. } | Phase::ShuttingDown { .. } | Phase::Ended => {}
        }
    }

    /// Returns the time of the next [`HostController::handle_timeout`].
    pub fn deadline(&self) -> Option<Duration> {
        let of_phase = match self.phase {
            Phase::Setup { step_at } => step_at.or(Some(self.step_since + COMMAND_TIMEOUT)),
            Phase::Waiting { until } | Phase::Draining { until } => Some(until),
            Phase::ShuttingDown { until, poll_at } => Some(poll_at.unwrap_or(until)),
            Phase::Ready => None,
            Phase::Ended => return None,
        };
        let retry = self.backlog.next_retry().filter(|_| self.sends_requests());
        let check = (self.queues.in_progress() > 0).then_some(self.next_check);
        [of_phase, retry, check, self.keep_alive_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Duration) {
        match self.phase {
            Phase::Setup { step_at: Some(at) } if at <= now => self.step(now),
            Phase::Setup { .. } if self.step_since + COMMAND_TIMEOUT <= now => {
                self.lose(now, LostReason::Timeout(self.setup.name(), COMMAND_TIMEOUT));
            }
            Phase::Waiting { until } if until <= now => {
                self.setup = Setup::new();
                self.step(now);
            }
            Phase::Draining { until } if until <= now => self.begin_shutdown(now),
            Phase::ShuttingDown { until, .. } if until <= now => self.end(LostReason::Shutdown),
            Phase::ShuttingDown { until, poll_at: Some(at) } if at <= now => {
                self.phase = Phase::ShuttingDown { until, poll_at: None };
                self.send(now, 0, Purpose::Shutdown, status_command(), CommandData::None);
            }
            _ => {}
        }
        self.keep_alive(now);
        if self.next_check <= now {
            self.next_check = now + TIMEOUT_CHECKS_EVERY;
            if self.queues.is_late(now, COMMAND_TIMEOUT) {
                self.lose(now, LostReason::Timeout("a command", COMMAND_TIMEOUT));
            }
        }
        self.pump(now);
    }

    /// Keeps the controller alive: a command each half of its timeout, which has to complete within the whole.
    fn keep_alive(&mut self, now: Duration) {
        if self.keep_alive_at.is_none_or(|at| at > now) {
            return;
        }
        let timeout = self.config.keep_alive;
        self.keep_alive_at = Some(now + timeout / 2);
        match self.keep_alive_since {
            Some(since) if since + timeout <= now => self.lose(now, LostReason::Timeout("Keep Alive", timeout)),
            Some(_) => {}
            None => {
                self.keep_alive_since = Some(now);
                self.send(now, 0, Purpose::KeepAlive, keep_alive_command(), CommandData::None);
            }
        }
    }
}

// Setup and commands.
impl HostController {
    fn step(&mut self, now: Duration) {
        self.phase = Phase::Setup { step_at: None };
        self.step_since = now;
        match self.setup.next(&self.config) {
            SetupStep::Open { request, capsule_bytes } => {
                self.actions.push_back(HostAction::Open { request, capsule_bytes });
            }
            SetupStep::Command(queue, command, data) => self.send(now, queue, Purpose::Setup, command, data),
            SetupStep::Done => self.on_ready(now),
        }
    }

    fn send(&mut self, now: Duration, queue: u16, purpose: Purpose, command: Command, data: CommandData) {
        if let Some(outgoing) = self.queues.send(now, queue, purpose, command, data) {
            self.actions.push_back(HostAction::Send(outgoing));
        }
    }

    fn on_completed(&mut self, now: Duration, completed: Completed) {
        let Completed { purpose, completion, release, slot } = completed;
        let is_page = matches!(&release, Some((_, Outcome::Take(Content::Page(_)))));
        if let Some((is_invalid, outcome)) = release {
            self.actions.push_back(HostAction::Release { slot, is_invalid, outcome });
        }
        match purpose {
            Purpose::Setup if is_page => self.page_of = Some(completion),
            Purpose::Setup => self.on_setup(now, &completion, &[]),
            Purpose::KeepAlive => {
                self.keep_alive_since = None;
                if !completion.status.is_success() {
                    self.lose(now, LostReason::Setup("Keep Alive", completion.status));
                }
            }
            Purpose::Shutdown => self.on_shutdown(now, &completion),
            Purpose::Piece(piece) => self.backlog.end(now, piece, completion.status),
        }
    }

    fn on_setup(&mut self, now: Duration, completion: &Completion, page: &[u8]) {
        match self.setup.on_completion(now, &self.config, completion, page) {
            Ok(Duration::ZERO) => self.step(now),
            Ok(wait) => self.phase = Phase::Setup { step_at: Some(now + wait) },
            Err(LostReason::Breach(breach)) => self.end(LostReason::Breach(breach)),
            Err(reason) => self.lose(now, reason),
        }
    }

    fn on_ready(&mut self, now: Duration) {
        let is_first = self.info.is_none();
        self.info = self.setup.info().cloned();
        let (found, unusable) = self.setup.take_namespaces();
        for (namespace, reason) in unusable.into_iter().filter(|_| is_first) {
            self.actions.push_back(HostAction::Log(HostEvent::Unusable { namespace, reason }));
        }
        if is_first {
            self.namespaces = found.into_iter().map(|info| (info.id, Known { info, is_gone: false })).collect();
        } else {
            self.compare(&found);
        }
        self.phase = Phase::Ready;
        self.keep_alive_since = None;
        self.keep_alive_at = (!self.config.keep_alive.is_zero()).then(|| now + self.config.keep_alive / 2);
        let (controller, io_queues) = (self.setup.controller(), self.setup.granted());
        let attempts = std::mem::take(&mut self.attempts);
        self.actions.push_back(HostAction::Log(HostEvent::Ready { controller, io_queues, attempts }));
    }

    /// Compares the known namespaces with those that are found after the host connected again.
    fn compare(&mut self, found: &[NamespaceInfo]) {
        for known in self.namespaces.values_mut() {
            let same = found.iter().find(|info| info.id == known.info.id && info.is_same(&known.info));
            match same {
                Some(info) => *known = Known { info: *info, is_gone: false },
                None if known.is_gone => {}
                None => {
                    known.is_gone = true;
                    self.actions.push_back(HostAction::Log(HostEvent::Changed(known.info)));
                }
            }
        }
    }

    fn sends_requests(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Draining { .. })
    }

    /// Sends what can be sent, and reports what is done.
    fn pump(&mut self, now: Duration) {
        while self.sends_requests()
            && let Some(queue) = self.queues.io_with_room()
            && let Some(info) = &self.info
            && let Some(piece) = self.backlog.next(now, info)
        {
            let namespace = self.backlog.namespace(&piece).and_then(|id| self.namespaces.get(&id));
            let command = self.backlog.command(&piece, info.in_capsule_bytes);
            match command.filter(|_| namespace.is_some_and(|known| !known.is_gone)) {
                Some((command, data)) => self.send(now, queue, Purpose::Piece(piece), command, data),
                None => self.backlog.end(now, piece, Status::INVALID_NAMESPACE.final_one()),
            }
        }
        if matches!(self.phase, Phase::Draining { .. }) && self.backlog.is_empty() {
            self.begin_shutdown(now);
        }
        self.report();
    }

    fn report(&mut self) {
        let done = self.backlog.take_done();
        self.actions.extend(done.into_iter().map(|(key, result)| HostAction::Done(key, result)));
    }
}

// Ends.
impl HostController {
    /// Gives the connections up, and connects again later.
    fn lose(&mut self, now: Duration, reason: LostReason) {
        match self.phase {
            Phase::Ended | Phase::Waiting { .. } => return,
            Phase::Draining { .. } | Phase::ShuttingDown { .. } => return self.end(LostReason::Shutdown),
            Phase::Setup { .. } if self.info.is_none() => return self.end(reason),
            Phase::Setup { .. } | Phase::Ready => {}
        }
        if self.config.reconnects_max().is_some_and(|most| self.attempts >= most) {
            return self.end(reason);
        }
        self.close(now);
        self.attempts += 1;
        self.phase = Phase::Waiting { until: now + self.config.reconnect_delay };
        self.actions.push_back(HostAction::Log(HostEvent::Lost(reason)));
    }

    /// Ends all connections; commands in progress will be sent again.
    fn close(&mut self, now: Duration) {
        self.page_of = None;
        self.keep_alive_at = None;
        self.keep_alive_since = None;
        for piece in self.queues.drain() {
            self.backlog.lost(now, piece);
        }
        self.actions.push_back(HostAction::Close);
    }

    fn end(&mut self, reason: LostReason) {
        if self.phase == Phase::Ended {
            return;
        }
        self.close(Duration::ZERO);
        self.phase = Phase::Ended;
        self.backlog.end_all(RequestFailure::Ended);
        self.report();
        self.actions.push_back(HostAction::Ended(reason));
    }

    fn begin_shutdown(&mut self, now: Duration) {
        self.keep_alive_at = None;
        self.phase = Phase::ShuttingDown { until: now + SHUTDOWN_WITHIN, poll_at: None };
        self.send(now, 0, Purpose::Shutdown, shutdown_command(&self.setup), CommandData::None);
    }

    fn on_shutdown(&mut self, now: Duration, completion: &Completion) {
        let Phase::ShuttingDown { until, .. } = self.phase else { return };
        if is_shut_down(completion.status, completion.result) {
            return self.end(LostReason::Shutdown);
        }
        self.phase = Phase::ShuttingDown { until, poll_at: Some(now + READY_POLLS_EVERY) };
    }
}
