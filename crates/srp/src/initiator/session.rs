//! Initiator: the channel, the disks, the requests, and the times.
//!
//! ```text
//!            the disks are known          the connection is lost
//!   setup ──────────────────────▶ ready ─────────────────────────▶ waiting ──▶ setup (again)
//!     │ the first one fails         │ shutdown                       │ dev_loss_tmo
//!     │                             ▼                                ▼
//!     └──────────────▶ ended ◀── draining                          ended
//! ```
//!
//! A breach of the protocol ends the initiator in each state. From a loss of the connection on, requests wait, and those in
//! progress are sent again after the login; after `fast_io_fail_tmo` they fail until there is a connection.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::action::{
    CommandTag, DiskCommandData, DiskContent, DiskOutcome, InitiatorAction, InitiatorEvent, RequestKey,
};
use super::address::UnitAddress;
use super::backlog::Backlog;
use super::channel::{Channel, Ended, Purpose, Rescue};
use super::config::InitiatorConfig;
use super::disk::DiskInfo;
use super::failure::{Breach, CommandFailure, LostReason, RequestFailure};
use super::request::{DiskOperation, Request};
use super::setup::{Setup, SetupStep};
use crate::limits::{INITIATOR_IU_SENT, LOGOUT_WITHIN, RETRY_DELAY, TIMEOUT_CHECKS_EVERY};
use crate::scsi::{Cdb, Lun, Sense};
use crate::wire::{
    BufferFormats, IuError, LoginRequest, MultiChannel, ReceivedAccept, TargetIu, credit_response, event_response,
};

/// State of an initiator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The setup, whose next step waits until a time.
    Setup {
        step_at: Option<Duration>,
    },
    Ready,
    /// There is no connection; `None`: there will be no attempt.
    Waiting {
        reconnect_at: Option<Duration>,
    },
    Draining {
        until: Duration,
    },
    Ended,
}

/// Disk that the owner knows.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) info: DiskInfo,
    /// It was not found again after a login.
    pub(super) is_gone: bool,
}

/// Loss of the connection that is not repaired yet.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    pub(super) since: Duration,
    /// Attempts to log in again.
    pub(super) attempts: u32,
    /// Requests fail.
    pub(super) is_failing: bool,
    /// The latest reason.
    pub(super) reason: String,
}

/// Initiator with a channel to a target port.
#[derive(Debug)]
pub struct Initiator {
    pub(super) config: InitiatorConfig,
    pub(super) phase: Phase,
    pub(super) setup: Setup,
    /// Begin of the setup's current step.
    pub(super) step_since: Duration,
    /// The owner has to hand in the structure of the setup's command.
    pub(super) awaits_page: bool,
    pub(super) channel: Option<Channel>,
    pub(super) next_tag: CommandTag,
    /// Task management function in progress.
    pub(super) rescue: Option<Rescue>,
    /// A function was sent on this channel: late responses to the commands that it aborted may come.
    pub(super) had_aborts: bool,
    pub(super) backlog: Backlog,
    /// Disks of the first setup; `None`: it is not complete.
    pub(super) disks: Option<BTreeMap<Lun, Known>>,
    pub(super) loss: Option<Loss>,
    pub(super) next_check: Duration,
    pub(super) actions: VecDeque<InitiatorAction>,
}

impl Initiator {
    /// Creates an initiator, and begins to log in.
    pub fn new(now: Duration, config: InitiatorConfig) -> Initiator {
        let mut initiator = Initiator {
            config,
            phase: Phase::Setup { step_at: None },
            setup: Setup::new(),
            step_since: now,
            awaits_page: false,
            channel: None,
            next_tag: 0,
            rescue: None,
            had_aborts: false,
            backlog: Backlog::default(),
            disks: None,
            loss: None,
            next_check: now + TIMEOUT_CHECKS_EVERY,
            actions: VecDeque::new(),
        };
        initiator.step(now);
        initiator
    }

    /// Returns the next action.
    pub fn poll(&mut self) -> Option<InitiatorAction> {
        self.actions.pop_front()
    }

    /// Disks of the first setup.
    pub fn disks(&self) -> impl Iterator<Item = &DiskInfo> {
        self.disks.iter().flat_map(BTreeMap::values).map(|known| &known.info)
    }

    /// Whether commands are sent now.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Takes the private data of the accepted connection.
    pub fn logged_in(&mut self, now: Duration, private_data: &[u8]) {
        if !matches!(self.phase, Phase::Setup { .. }) || self.channel.is_some() {
            return;
        }
        match ReceivedAccept::parse(private_data) {
            None => self.end(LostReason::Breach(Breach::Login)),
            Some(accept) if accept.request_limit < 1 => self.lose(now, LostReason::Unusable("it takes no requests")),
            Some(accept) if accept.initiator_iu_len < INITIATOR_IU_SENT => {
                self.lose(now, LostReason::Unusable("it takes no information units of 64 bytes"));
            }
            Some(accept) => {
                self.channel = Some(Channel::new(accept.request_limit, self.config.commands()));
                self.setup.on_login();
                self.step(now);
            }
        }
        self.report();
    }

    /// Notes that the connection could not be made, or broke.
    pub fn connection_lost(&mut self, now: Duration, reason: String) {
        self.lose(now, LostReason::Connection(reason));
        self.report();
    }

    /// Notes that the owner sends a command now, with the key of the memory that it lends.
    pub fn sent(&mut self, now: Duration, tag: CommandTag, key: Option<u32>) {
        if let Some(channel) = &mut self.channel {
            channel.sent(now, tag, key);
        }
    }

    /// Handles an information unit of the target. `invalidated` is the key that its SEND invalidated.
    pub fn handle_iu(&mut self, now: Duration, bytes: &[u8], invalidated: Option<u32>) {
        let Some(channel) = &mut self.channel else { return };
        match TargetIu::parse(bytes) {
            Ok(TargetIu::Response(response)) => {
                channel.add_credits(response.limit_delta);
                if self.rescue.as_ref().is_some_and(|rescue| rescue.tag == response.tag) {
                    self.on_task(now, response.code);
                } else {
                    match channel.end(&response, invalidated) {
                        Ok(ended) => self.on_ended(now, ended),
                        // A function and the response to a command that it aborts may cross.
                        Err(Breach::UnknownCommand(tag)) if self.had_aborts && tag < self.next_tag => {}
                        Err(breach) => self.end(LostReason::Breach(breach)),
                    }
                }
            }
            Ok(TargetIu::CreditRequest(tag, delta)) => {
                channel.add_credits(delta);
                self.actions.push_back(InitiatorAction::SendUnit(credit_response(tag)));
            }
            Ok(TargetIu::EventRequest(tag, delta)) => {
                channel.add_credits(delta);
                self.actions.push_back(InitiatorAction::SendUnit(event_response(tag)));
            }
            Ok(TargetIu::Logout(reason)) => self.lose(now, LostReason::Logout(reason)),
            Err(IuError::Length | IuError::Format) => self.end(LostReason::Breach(Breach::Length)),
            Err(IuError::Type) => self.end(LostReason::Breach(Breach::Type)),
        }
        self.pump(now);
    }

    /// Handles the structure that an [`InitiatorAction::Release`] gave the owner.
    pub fn handle_page(&mut self, now: Duration, page: &[u8]) {
        if std::mem::take(&mut self.awaits_page) {
            self.on_setup(now, Ok(()), page);
            self.pump(now);
        }
    }

    /// Takes a request for a disk.
    pub fn submit(&mut self, now: Duration, key: RequestKey, lun: Lun, operation: DiskOperation) {
        match self.check(lun, operation) {
            Ok(request) => self.backlog.submit(key, request),
            Err(failure) => self.backlog.refuse(key, failure),
        }
        self.pump(now);
    }

    fn check(&self, lun: Lun, operation: DiskOperation) -> Result<Request, RequestFailure> {
        if matches!(self.phase, Phase::Draining { .. } | Phase::Ended) {
            return Err(RequestFailure::Ended);
        }
        if self.loss.as_ref().is_some_and(|loss| loss.is_failing) {
            return Err(RequestFailure::NoConnection);
        }
        let known = self.disks.as_ref().and_then(|disks| disks.get(&lun)).filter(|known| !known.is_gone);
        Request::new(operation, &known.ok_or(RequestFailure::NoDisk)?.info)
    }

    /// Ends the initiator: commands in progress may complete for some seconds.
    pub fn shutdown(&mut self, now: Duration) {
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Draining { until: now + LOGOUT_WITHIN };
                self.pump(now);
            }
            Phase::Setup { .. } | Phase::Waiting { .. } => self.end(LostReason::Shutdown),
            Phase::Draining { .. } | Phase::Ended => {}
        }
    }

    /// Returns the time of the next [`Initiator::handle_timeout`].
    pub fn deadline(&self) -> Option<Duration> {
        let of_phase = match self.phase {
            Phase::Setup { step_at } => step_at.or(Some(self.step_since + self.config.command_timeout)),
            Phase::Waiting { reconnect_at } => reconnect_at,
            Phase::Draining { until } => Some(until),
            Phase::Ready => None,
            Phase::Ended => return None,
        };
        let retry = self.backlog.next_retry().filter(|_| self.sends_requests());
        let is_busy = self.channel.as_ref().is_some_and(|channel| channel.in_progress() > 0);
        let check = (is_busy && self.phase == Phase::Ready).then_some(self.next_check);
        let [fails_at, ends_at] = self.loss_times();
        [of_phase, retry, check, fails_at, ends_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Duration) {
        match self.phase {
            Phase::Setup { .. } if self.step_since + self.config.command_timeout <= now => {
                self.lose(now, LostReason::Timeout(self.setup.name(), self.config.command_timeout));
            }
            Phase::Setup { step_at: Some(at) } if at <= now => self.step(now),
            Phase::Waiting { reconnect_at: Some(at) } if at <= now => self.log_in_again(now),
            Phase::Draining { until } if until <= now => self.end(LostReason::Shutdown),
            Phase::Ready if self.next_check <= now => {
                self.next_check = now + TIMEOUT_CHECKS_EVERY;
                self.check_late(now);
            }
            _ => {}
        }
        self.check_loss(now);
        self.pump(now);
    }
}

// Setup and commands.
impl Initiator {
    /// Takes the next step of the setup.
    pub(super) fn step(&mut self, now: Duration) {
        self.phase = Phase::Setup { step_at: None };
        match self.setup.next() {
            SetupStep::Open => {
                self.step_since = now;
                self.actions.push_back(InitiatorAction::Open(self.login()));
            }
            SetupStep::Command(..) if !self.channel.as_ref().is_some_and(Channel::has_room) => {
                self.phase = Phase::Setup { step_at: Some(now + RETRY_DELAY) };
            }
            SetupStep::Command(unit, cdb, length) => {
                self.step_since = now;
                self.send(Purpose::Setup, unit, cdb, DiskCommandData::Awaited(DiskContent::Page(length)));
            }
            SetupStep::Done => self.on_ready(now),
        }
    }

    fn login(&self) -> LoginRequest {
        LoginRequest {
            tag: self.next_tag.to_be_bytes(),
            buffer_formats: BufferFormats::DIRECT,
            iu_len: INITIATOR_IU_SENT,
            multi_channel: Some(MultiChannel::Terminate),
            immediate_offset: None,
            initiator: self.config.initiator,
            target: self.config.target,
        }
    }

    fn send(&mut self, purpose: Purpose, unit: UnitAddress, cdb: Cdb, data: DiskCommandData) {
        let Some(channel) = &mut self.channel else { return };
        let outgoing = channel.begin(self.next_tag, purpose, unit, cdb, data);
        self.next_tag += 1;
        self.actions.push_back(InitiatorAction::Send(outgoing));
    }

    fn on_ended(&mut self, now: Duration, ended: Ended) {
        let is_page = matches!(&ended.release, Some((_, DiskOutcome::Take(DiskContent::Page(_)))));
        if let Some((is_invalid, outcome)) = ended.release {
            self.actions.push_back(InitiatorAction::Release { tag: ended.tag, is_invalid, outcome });
        }
        match ended.purpose {
            Purpose::Setup if is_page => self.awaits_page = true,
            Purpose::Setup => self.on_setup(now, ended.result, &[]),
            Purpose::Piece(piece) => {
                self.notice(ended.lun, ended.result);
                let has_failed = self.backlog.end(now, piece, ended.result);
                if let (true, Err(failure)) = (has_failed, ended.result) {
                    let (lun, opcode) = (ended.lun, ended.opcode);
                    self.actions.push_back(InitiatorAction::Log(InitiatorEvent::Failed { lun, opcode, failure }));
                }
            }
        }
    }

    /// Tells of a unit attention condition that matters to people.
    fn notice(&mut self, lun: Lun, result: Result<(), CommandFailure>) {
        if let Err(CommandFailure::Sense(sense @ (Sense::CAPACITY_CHANGED | Sense::LUNS_CHANGED))) = result {
            self.actions.push_back(InitiatorAction::Log(InitiatorEvent::Attention { lun, sense }));
        }
    }

    fn on_setup(&mut self, now: Duration, result: Result<(), CommandFailure>, page: &[u8]) {
        match self.setup.on_end(result, page) {
            Ok(Duration::ZERO) => self.step(now),
            Ok(wait) => self.phase = Phase::Setup { step_at: Some(now + wait) },
            Err(reason) => self.lose(now, reason),
        }
    }

    fn on_ready(&mut self, now: Duration) {
        let (found, unusable) = self.setup.take();
        match &self.disks {
            Some(_) => self.compare(&found),
            None => {
                let unusable = unusable.into_iter().map(|(lun, reason)| InitiatorEvent::Unusable { lun, reason });
                self.actions.extend(unusable.map(InitiatorAction::Log));
                if self.setup.unknown() > 0 {
                    let event = InitiatorEvent::Unknown(self.setup.unknown());
                    self.actions.push_back(InitiatorAction::Log(event));
                }
                let known = found.into_iter().map(|info| (info.lun, Known { info, is_gone: false }));
                self.disks = Some(known.collect());
            }
        }
        self.phase = Phase::Ready;
        self.next_check = now + TIMEOUT_CHECKS_EVERY;
        let attempts = self.loss.take().map_or(0, |loss| loss.attempts);
        let disks = self.disks.iter().flat_map(BTreeMap::values).filter(|known| !known.is_gone).count();
        self.actions.push_back(InitiatorAction::Log(InitiatorEvent::Ready { disks, attempts }));
    }

    /// Compares the known disks with those that are found after a login.
    fn compare(&mut self, found: &[DiskInfo]) {
        for known in self.disks.iter_mut().flat_map(BTreeMap::values_mut) {
            let same = found.iter().find(|info| info.lun == known.info.lun && info.is_same(&known.info));
            match same {
                Some(info) => *known = Known { info: info.clone(), is_gone: false },
                None if known.is_gone => {}
                None => {
                    known.is_gone = true;
                    self.actions.push_back(InitiatorAction::Log(InitiatorEvent::Changed(known.info.clone())));
                }
            }
        }
    }

    fn sends_requests(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Draining { .. })
    }

    /// Sends what can be sent, and reports what is done.
    pub(super) fn pump(&mut self, now: Duration) {
        while self.sends_requests()
            && self.channel.as_ref().is_some_and(Channel::has_room)
            && let Some(disks) = &self.disks
        {
            let find = |lun: Lun| disks.get(&lun).filter(|known| !known.is_gone).map(|known| &known.info);
            let Some(command) = self.backlog.next(now, find) else { break };
            self.send(Purpose::Piece(command.piece), command.unit, command.cdb, command.data);
        }
        if matches!(self.phase, Phase::Draining { .. }) && self.backlog.is_empty() {
            self.end(LostReason::Shutdown);
        }
        self.report();
    }

    pub(super) fn report(&mut self) {
        let done = self.backlog.take_done();
        self.actions.extend(done.into_iter().map(|(key, result)| InitiatorAction::Done(key, result)));
    }
}
