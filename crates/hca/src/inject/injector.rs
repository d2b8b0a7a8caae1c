//! The failures that a process injects, and the decisions about calls and requests.

use std::fmt;

use weft_verbs::injection::{
    Call, CmFailure, Effect, Injection, errno_name, event_name, needs_acknowledgements, status_name,
};
use weft_verbs::{AsyncEvent, Duration, Instant, Op, QpId, QpType, Qpn, VerbsError, WcStatus};

use super::outage::{Outage, Outages};
use super::progress::Progress;
use super::report::InjectedFailure;

/// Events of one failure that a late turn makes up for. After a longer sleep, such as that of a stopped process, the
/// schedule goes on from now.
const CATCH_UP_MAX: u32 = 64;
/// Reports kept for the owner; further ones are dropped.
const REPORTS_MAX: usize = 1024;

/// A failure to inject.
#[derive(Debug)]
struct Active {
    number: u32,
    injection: Injection,
    progress: Progress,
    /// When its event is due next, if a clock decides.
    next: Option<Instant>,
    /// How often its event was raised or had no effect, if a clock decides.
    fired: u64,
    /// Its event is due, and waits for a queue pair that is ready to send.
    waits: bool,
    /// A report said that it has no effect on some object.
    excused: bool,
}

/// An event that is to be raised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DueEvent {
    pub(crate) number: u32,
    pub(crate) event: AsyncEvent,
    /// The only device concerned.
    pub(crate) device: Option<String>,
    /// End of the outage.
    pub(crate) until: Option<Instant>,
}

/// An effect that is due by the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// The end of an outage.
    End(Outage),
    /// An event.
    Event(DueEvent),
}

/// A request that is about to be posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posting<'a> {
    pub(crate) device: &'a str,
    pub(crate) qp: QpId,
    pub(crate) qpn: Qpn,
    pub(crate) qp_type: QpType,
    pub(crate) op: Op,
    pub(crate) wr_id: u64,
}

/// The failures of a process.
#[derive(Debug, Default)]
pub(crate) struct Injector {
    list: Vec<Active>,
    pub(crate) outages: Outages,
    pub(crate) reports: Vec<InjectedFailure>,
}

/// Returns when an event follows one that was due at `at`.
fn following(at: Instant, now: Instant, every: Duration) -> Instant {
    let is_in_reach = now.since(at) <= every * CATCH_UP_MAX;
    if is_in_reach { at + every } else { now + every }
}

impl Active {
    fn concerns(&self, device: &str) -> bool {
        self.concerns_any(Some(device))
    }

    /// As [`Active::concerns`], for a call that may have no device yet.
    fn concerns_any(&self, device: Option<&str>) -> bool {
        self.injection.scope.device.as_ref().is_none_or(|only| Some(only.as_str()) == device)
    }

    fn sees(&mut self, now: Instant, qp: Option<QpId>) -> bool {
        self.progress.sees(&self.injection, now, qp)
    }

    fn on_strike(&mut self, qp: Option<QpId>) {
        self.progress.on_strike(&self.injection, qp);
    }

    /// Returns when its event is due, unless that waits for a queue pair.
    fn due_at(&self) -> Option<Instant> {
        self.next.filter(|_| !self.waits)
    }

    /// Returns its event, which is due at this time.
    fn due_event(&self, event: AsyncEvent, at: Instant) -> DueEvent {
        let scope = &self.injection.scope;
        let until = (!scope.lasting.is_zero()).then(|| at + scope.lasting);
        DueEvent { number: self.number, event, device: scope.device.clone(), until }
    }
}

impl Injector {
    /// Adds a failure.
    pub(crate) fn add(&mut self, now: Instant, number: u32, injection: Injection) {
        let next = injection.is_timed().then(|| now + injection.scope.after);
        let progress = Progress::new(now, injection.scope.seed);
        self.list.push(Active { number, injection, progress, next, fired: 0, waits: false, excused: false });
    }

    /// Removes a failure; returns its outages.
    pub(crate) fn remove(&mut self, number: u32) -> Vec<Outage> {
        self.list.retain(|active| active.number != number);
        self.outages.take_of(number)
    }

    /// Whether nothing is left to inject or to report.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.reports.is_empty()
    }

    /// Returns how often each failure has struck.
    pub(crate) fn strikes(&self) -> impl Iterator<Item = (u32, u64)> {
        self.list.iter().map(|active| (active.number, active.progress.struck()))
    }

    /// Returns when an event is due, or an outage ends.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.list.iter().filter_map(Active::due_at).chain(self.outages.poll_timeout()).min()
    }

    /// Adds a report.
    pub(crate) fn report(&mut self, now: Instant, number: u32, qpn: Option<Qpn>, effect: fmt::Arguments<'_>) {
        self.add_report(now, number, qpn, true, effect);
    }

    /// Reports, once for each failure, why it has no effect.
    pub(crate) fn excuse(&mut self, now: Instant, number: u32, qpn: Option<Qpn>, why: &str) {
        if let Some(active) = self.list.iter_mut().find(|active| active.number == number)
            && !std::mem::replace(&mut active.excused, true)
        {
            self.add_report(now, number, qpn, false, format_args!("no-effect {why}"));
        }
    }

    fn add_report(&mut self, at: Instant, number: u32, qpn: Option<Qpn>, struck: bool, text: fmt::Arguments<'_>) {
        let cause = self.list.iter().find(|active| active.number == number);
        let cause = cause.map_or("", |active| active.injection.text.as_str());
        if self.reports.len() < REPORTS_MAX {
            let text = format!("{text} by=\"{cause}\"");
            self.reports.push(InjectedFailure { at, number, qpn, struck, text });
        }
    }

    /// Returns the effect of the first failure that may strike a request or call, of those that `effect` selects. All of them
    /// count it.
    fn strike<T>(
        &mut self,
        now: Instant,
        device: Option<&str>,
        qp: Option<QpId>,
        effect: impl Fn(Effect) -> Option<T>,
    ) -> Option<(u32, T)> {
        let mut verdict = None;
        for active in &mut self.list {
            if let Some(effect) = effect(active.injection.effect)
                && active.concerns_any(device)
                && active.sees(now, qp)
                && verdict.is_none()
            {
                active.on_strike(qp);
                verdict = Some((active.number, effect));
            }
        }
        verdict
    }

    /// Decides about a call.
    pub(crate) fn on_call(
        &mut self,
        now: Instant,
        device: Option<&str>,
        call: Call,
        qp: Option<(QpId, Qpn)>,
    ) -> Result<(), VerbsError> {
        let refusal = self.strike(now, device, qp.map(|(id, _)| id), |effect| match effect {
            Effect::Errno { errno, calls } => calls.has(call).then_some(errno),
            _ => None,
        });
        let Some((number, errno)) = refusal else { return Ok(()) };
        let qpn = qp.map(|(_, qpn)| qpn);
        self.report(now, number, qpn, format_args!("errno={} call={}", errno_name(errno), call.name()));
        Err(VerbsError::Injected(errno))
    }

    /// Decides about the work of a call of the RDMA connection manager: the event by which it fails instead of being done.
    pub(crate) fn on_connecting(&mut self, now: Instant, device: Option<&str>, call: Call) -> Option<CmFailure> {
        let (number, failure) = self.strike(now, device, None, |effect| match effect {
            Effect::Cm(failure) => (failure.call() == call).then_some(failure),
            _ => None,
        })?;
        self.report(now, number, None, format_args!("cm={} call={}", failure.name(), call.name()));
        Some(failure)
    }

    /// Decides about a receive: the status with which it completes instead of taking a message. One of a shared receive queue
    /// belongs to no queue pair.
    pub(crate) fn on_receive(
        &mut self,
        now: Instant,
        device: &str,
        qp: Option<(QpId, Qpn)>,
        wr_id: u64,
    ) -> Option<WcStatus> {
        let (number, status) = self.strike(now, Some(device), qp.map(|(id, _)| id), |effect| match effect {
            Effect::Status { status, only } => only.has_receives().then_some(status),
            _ => None,
        })?;
        let qpn = qp.map(|(_, qpn)| qpn);
        self.report(now, number, qpn, format_args!("status={} receive wr_id={wr_id}", status_name(status)));
        Some(status)
    }

    /// Decides about a request to a send queue: the status with which it completes instead of being carried out. All failures
    /// count it, the first that may strike it does.
    pub(crate) fn on_request(&mut self, now: Instant, posting: Posting<'_>) -> Option<WcStatus> {
        let Posting { device, qp, qpn, qp_type, op, wr_id } = posting;
        let (mut verdict, mut excused) = (None, None);
        for active in &mut self.list {
            let Effect::Status { status, only } = active.injection.effect else { continue };
            if !only.has(op) || !active.concerns(device) {
                continue;
            }
            if needs_acknowledgements(status) && !qp_type.is_reliable() {
                excused = Some((active.number, status));
            } else if active.sees(now, Some(qp)) && verdict.is_none() {
                active.on_strike(Some(qp));
                verdict = Some((active.number, status));
            }
        }
        if let Some((number, status)) = excused {
            let status = status_name(status);
            let why = format!("status={status} is for reliable queue pairs, this one is {qp_type:?}");
            self.excuse(now, number, Some(qpn), &why);
        }
        let (number, status) = verdict?;
        self.report(now, number, Some(qpn), format_args!("status={} wr_id={wr_id}", status_name(status)));
        Some(status)
    }

    /// Returns the events that the number of a posted request, or chance, asks for.
    /// `has_srq` says that the queue pair receives from a shared queue that works: SRQ_ERR counts no others.
    pub(crate) fn on_posted(&mut self, now: Instant, device: &str, qp: QpId, has_srq: bool) -> Vec<DueEvent> {
        let mut due = Vec::new();
        for active in &mut self.list {
            let Effect::Event(event) = active.injection.effect else { continue };
            let has_subject = has_srq || event != AsyncEvent::SrqErr;
            if !active.injection.is_timed() && has_subject && active.concerns(device) && active.sees(now, Some(qp)) {
                active.on_strike(Some(qp));
                due.push(active.due_event(event, now));
            }
        }
        due
    }

    /// Returns what is due by `now`, the earliest first: a turn that comes late lets all that it missed happen in order. After an
    /// event, the caller passes its outcome to [`Injector::on_due`].
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Due> {
        let due = self.list.iter().filter_map(|active| match active.injection.effect {
            Effect::Event(event) => Some((active.due_at()?, active, event)),
            _ => None,
        });
        let event = due.filter(|(at, ..)| *at <= now).min_by_key(|(at, ..)| *at);
        // An outage ends before another one begins at the same time.
        if let Some(outage) = self.outages.take_ended(event.as_ref().map_or(now, |(at, ..)| *at)) {
            return Some(Due::End(outage));
        }
        event.map(|(at, active, event)| Due::Event(active.due_event(event, at)))
    }

    /// Goes on after an event that was due: to the next one. If there was no queue pair to raise it on (`raised` is `false`), it
    /// stays due, and waits until one is ready to send.
    pub(crate) fn on_due(&mut self, now: Instant, number: u32, raised: bool) {
        let Some(active) = self.list.iter_mut().find(|active| active.number == number) else { return };
        active.waits = !raised;
        if raised {
            active.fired += 1;
            let is_used_up = active.injection.strikes_max().is_some_and(|max| active.fired >= max);
            let next = active.next.filter(|_| !is_used_up);
            active.next = next.map(|at| following(at, now, active.injection.scope.every));
        }
    }

    /// Notes that a queue pair is ready to send: events that waited for one are due now, and the next ones count from now.
    pub(crate) fn on_ready(&mut self, now: Instant) {
        for active in self.list.iter_mut().filter(|active| active.waits) {
            (active.waits, active.next) = (false, Some(now));
        }
    }

    /// Reports that an event was raised.
    pub(crate) fn report_event(&mut self, now: Instant, due: &DueEvent, qpn: Option<Qpn>, of: fmt::Arguments<'_>) {
        if let Some(active) = self.list.iter_mut().find(|active| active.number == due.number)
            && active.injection.is_timed()
        {
            active.progress.on_timed_strike();
        }
        self.report(now, due.number, qpn, format_args!("event={} {of}", event_name(due.event)));
    }

    /// Removes the counts of a destroyed queue pair.
    pub(crate) fn forget(&mut self, qp: QpId) {
        self.list.iter_mut().for_each(|active| active.progress.forget(qp));
    }
}
