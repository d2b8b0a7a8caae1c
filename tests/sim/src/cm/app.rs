//! The owners of the connections: how they react to events, by a seed's chance, and a check that the communication
//! manager permits exactly what its state allows.

use weft_cm::ib::{ApStatus, CmError, ConnId, Event, EventKind, RejectReason, RepParams, ReqParams, State};
use weft_cm::ib::{SidrRepParams, SidrReqParams};
use weft_verbs::{Duration, Instant, QpType};

use super::plan::{CURFEW, Mood, Plan, SERVICE_BASE, SERVICES};
use super::side::{Role, Side, name};
use super::world::CmWorld;
use crate::rng::Rng;

/// Q_Key of the datagram services.
pub const QKEY: u32 = 0x0123_4567;
/// First byte of a rejection's private data, before the attempt's number.
const REFUSAL: u8 = 0xee;

/// An action of an owner on one of its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Answer a request.
    Accept,
    /// Reject; either side may.
    Refuse,
    /// Send an MRA: ask for 4.096 us * 2^n more time.
    Dawdle(u8),
    /// Send the RTU.
    Ready,
    /// Report data that arrived before the RTU.
    Establish,
    /// Disconnect.
    HangUp,
    /// Agree to a disconnect.
    Agree,
    /// Propose another alternate path.
    Reroute,
    /// Answer a proposed alternate path.
    Approve,
    /// Answer a request for a datagram service.
    Serve,
    /// Destroy the connection.
    Destroy,
}

/// Purpose of a wake-up.
#[derive(Clone, Copy, Debug)]
enum Task {
    Ask(usize),
    Do(usize, Deed),
    PowerOff(usize),
    PowerOn(usize),
}

/// An event delivered to an owner; the trace is a list of these.
pub type Told = (Instant, usize, usize, Role, &'static str);

/// All owners.
pub struct Apps {
    /// The seed's decisions.
    pub plan: Plan,
    /// Every end of every attempt.
    pub sides: Vec<Side>,
    /// All events in order.
    pub trace: Vec<Told>,
    rng: Rng,
    tasks: Vec<Task>,
    /// Queue pair numbers that each host has given out since it started.
    qpns: [u32; 2],
}

/// `Ok`, or a description of the broken rule.
pub(super) type Checked = Result<(), String>;

impl Apps {
    /// Builds the owners before any action and requests their wake-ups.
    pub fn new(plan: Plan, world: &mut CmWorld) -> Apps {
        let rng = Rng::new(plan.seed ^ 0x0a99);
        let mut apps = Apps { plan, sides: Vec::new(), trace: Vec::new(), rng, tasks: Vec::new(), qpns: [0; 2] };
        for host in 0..world.hosts.len() {
            listen(world, host);
        }
        for attempt in 0..apps.plan.attempts.len() {
            apps.later(world, apps.plan.attempts[attempt].at, Task::Ask(attempt));
        }
        if let Some((host, at, down)) = apps.plan.crash {
            apps.later(world, at, Task::PowerOff(host));
            apps.later(world, at + down, Task::PowerOn(host));
        }
        apps
    }

    fn later(&mut self, world: &mut CmWorld, after: Duration, task: Task) {
        world.net.wake(world.now + after, self.tasks.len() as u64);
        self.tasks.push(task);
    }

    fn plan_deed(&mut self, world: &mut CmWorld, side: usize, after: Duration, deed: Deed) {
        self.later(world, after, Task::Do(side, deed));
    }

    /// Handles a wake-up.
    pub fn wake(&mut self, world: &mut CmWorld, number: u64) -> Checked {
        match self.tasks[number as usize] {
            Task::Ask(attempt) => self.ask(world, attempt),
            Task::Do(side, deed) => self.act(world, side, deed),
            Task::PowerOff(host) => {
                let boot = world.hosts[host].boots;
                world.crash(host);
                self.sides.iter_mut().filter(|s| s.host == host && s.boot == boot).for_each(|s| s.crashed = true);
                // Restart the queue pair numbers: a reused number is how the peer notices a stale connection.
                self.qpns[host] = 0;
                Ok(())
            }
            Task::PowerOn(host) => {
                world.hosts[host].off = false;
                listen(world, host);
                Ok(())
            }
        }
    }

    fn new_side(&mut self, world: &CmWorld, host: usize, conn: ConnId, attempt: usize, role: Role) -> usize {
        self.qpns[host] += 1;
        self.sides.push(Side {
            host,
            boot: world.hosts[host].boots,
            conn,
            attempt,
            role,
            qpn: 0x100 + self.qpns[host],
            psn: self.rng.bits() as u32 & 0xff_ffff,
            agreed: false,
            refused: false,
            partner: None,
            destroyed: false,
            crashed: false,
            dawdled: false,
            told: Vec::new(),
            reason: None,
        });
        self.sides.len() - 1
    }

    fn ask(&mut self, world: &mut CmWorld, number: usize) -> Checked {
        let attempt = self.plan.attempts[number];
        if world.hosts[attempt.from].off {
            return Ok(());
        }
        let side = self.new_side(world, attempt.from, ConnId(0), number, Role::Active);
        let (to, service_id) = (world.gmp_address(attempt.from, attempt.to), SERVICE_BASE + attempt.service);
        let private_data = vec![number as u8; 40];
        let (now, cm) = (world.now, &mut world.hosts[attempt.from].cm);
        let conn = if attempt.datagram {
            let timeout_ms = self.plan.try_time().as_millis() as u32;
            let max_cm_retries = self.plan.retries;
            cm.send_sidr_req(
                now,
                &SidrReqParams { to, service_id, pkey: 0xffff, timeout_ms, max_cm_retries, private_data },
            )
        } else {
            let params = self.req_params(world, side, private_data);
            world.hosts[attempt.from].cm.send_req(now, &params)
        };
        self.sides[side].conn = conn.map_err(|error| format!("attempt {number}: {error}"))?;
        world.flush(attempt.from);
        if self.is_wild() && self.rng.chance(1, 12) {
            let after = Duration::from_micros(self.rng.below(3_000_000));
            let deed = if self.rng.chance(1, 2) { Deed::Destroy } else { Deed::Refuse };
            self.plan_deed(world, side, after, deed);
        }
        Ok(())
    }

    fn req_params(&self, world: &CmWorld, side: usize, private_data: Vec<u8>) -> ReqParams {
        let side = &self.sides[side];
        let attempt = self.plan.attempts[side.attempt];
        ReqParams {
            to: world.gmp_address(attempt.from, attempt.to),
            service_id: SERVICE_BASE + attempt.service,
            primary: world.path(attempt.from, attempt.to, self.plan.life_time),
            alternate: None,
            qpn: side.qpn,
            qp_type: QpType::Rc,
            starting_psn: side.psn,
            responder_resources: 7,
            initiator_depth: 5,
            flow_control: true,
            retry_count: 7,
            rnr_retry_count: 6,
            srq: false,
            remote_cm_response_timeout: self.plan.timeout,
            local_cm_response_timeout: self.plan.timeout,
            max_cm_retries: self.plan.retries,
            peer_to_peer: false,
            ece: weft_cm::ib::Ece::default(),
            private_data,
        }
    }

    /// Handles an event at a host.
    pub fn on_event(&mut self, world: &mut CmWorld, host: usize, event: Event) -> Checked {
        let boot = world.hosts[host].boots;
        let known = self.sides.iter().position(|s| s.host == host && s.boot == boot && s.conn == event.conn);
        let side = match (known, &event.kind) {
            (Some(side), _) => side,
            (None, EventKind::ReqReceived(_) | EventKind::SidrReqReceived(_)) => {
                let attempt = usize::from(event.private_data.first().copied().unwrap_or(u8::MAX));
                let Some(plan) = self.plan.attempts.get(attempt).filter(|a| a.to == host && a.is_listened()) else {
                    return Err(format!("a request at host {host} that nobody sent: {event:?}"));
                };
                if event.private_data[..40] != [attempt as u8; 40] || event.private_data[40..].iter().any(|b| *b != 0) {
                    return Err(format!("private data of attempt {attempt} is damaged: {event:?}"));
                }
                if plan.datagram != matches!(event.kind, EventKind::SidrReqReceived(_)) {
                    return Err(format!("attempt {attempt} is of another kind: {event:?}"));
                }
                self.new_side(world, host, event.conn, attempt, Role::Passive)
            }
            (None, _) => return Err(format!("an event for a connection that nobody has: {event:?}")),
        };
        self.check(world, side, &event)?;
        let told = name(&event.kind);
        self.sides[side].told.push(told);
        let (attempt, role) = (self.sides[side].attempt, self.sides[side].role);
        self.trace.push((world.now, host, attempt, role, told));
        self.react(world, side, &event);
        Ok(())
    }

    /// Returns the passive ends of an attempt: more than one if the request came again after the first was over.
    pub fn passive_of(&self, attempt: usize) -> impl Iterator<Item = usize> + '_ {
        let passive = move |s: &&Side| s.role == Role::Passive && s.attempt == attempt;
        (0..self.sides.len()).filter(move |n| passive(&&self.sides[*n]))
    }

    fn is_wild(&self) -> bool {
        self.plan.mood == Mood::Wild
    }

    fn micros(&mut self, below: Duration) -> Duration {
        Duration::from_micros(self.rng.below(below.as_micros() as u64))
    }

    fn react(&mut self, world: &mut CmWorld, side: usize, event: &Event) {
        let brief = self.micros(self.plan.try_time() / 8);
        let long = self.micros(self.plan.try_time() * 4);
        let patience = self.rng.range(14, 22) as u8;
        let luck = if self.is_wild() { self.rng.below(16) } else { 0 };
        let then = if self.rng.chance(1, 2) { Deed::Refuse } else { Deed::Destroy };
        match &event.kind {
            EventKind::ReqReceived(_) | EventKind::RepReceived(_) => {
                let yes = if matches!(event.kind, EventKind::ReqReceived(_)) { Deed::Accept } else { Deed::Ready };
                match luck {
                    0 if self.plan.mood == Mood::Calm && self.rng.chance(1, 3) => {
                        // Perhaps longer than all tries together, but not longer than the MRA asked for.
                        let patience = self.rng.range(self.plan.timeout.into(), u64::from(self.plan.timeout) + 4);
                        self.plan_deed(world, side, Duration::ZERO, Deed::Dawdle(patience as u8));
                        self.plan_deed(world, side, Duration::from_nanos(3 << (10 + patience)), yes);
                    }
                    0..=6 => self.plan_deed(world, side, Duration::ZERO, yes),
                    7 | 8 => self.plan_deed(world, side, brief, yes),
                    9 => self.plan_deed(world, side, long, yes),
                    10 | 11 => {
                        self.plan_deed(world, side, brief, Deed::Dawdle(patience));
                        self.plan_deed(world, side, brief + long, yes);
                    }
                    12 => self.plan_deed(world, side, brief, Deed::Refuse),
                    13 => self.plan_deed(world, side, brief, Deed::Destroy),
                    14 => self.plan_deed(world, side, CURFEW / 2, Deed::Destroy),
                    _ => {
                        self.plan_deed(world, side, Duration::ZERO, yes);
                        self.plan_deed(world, side, long, then);
                    }
                }
            }
            EventKind::SidrReqReceived(_) => match luck {
                0..=9 => self.plan_deed(world, side, brief, Deed::Serve),
                10 | 11 => self.plan_deed(world, side, long, Deed::Serve),
                _ => self.plan_deed(world, side, long, Deed::Destroy),
            },
            EventKind::RtuReceived | EventKind::UserEstablished => self.on_standing(world, side),
            EventKind::LapReceived(_) => {
                if luck > 8 {
                    self.plan_deed(world, side, brief, Deed::Dawdle(patience));
                }
                if luck < 14 {
                    self.plan_deed(world, side, if luck > 4 { long } else { brief }, Deed::Approve);
                }
            }
            EventKind::DreqReceived => match luck {
                0..=9 => self.plan_deed(world, side, Duration::ZERO, Deed::Agree),
                10..=13 => self.plan_deed(world, side, long, Deed::Agree),
                _ => self.plan_deed(world, side, brief, Deed::Destroy),
            },
            EventKind::TimewaitExit => self.plan_deed(world, side, brief, Deed::Destroy),
            EventKind::DrepReceived | EventKind::DreqError if luck > 12 => {
                self.plan_deed(world, side, brief, Deed::Destroy)
            }
            EventKind::RejReceived(_) if luck < 8 => self.plan_deed(world, side, brief, Deed::Destroy),
            _ => {}
        }
    }

    /// Schedules the end of a standing connection: by one of its sides, or at the curfew.
    fn on_standing(&mut self, world: &mut CmWorld, side: usize) {
        let after = self.micros(Duration::from_secs(20));
        if self.is_wild() && self.rng.chance(1, 4) {
            let sooner = self.micros(after);
            self.plan_deed(world, side, sooner, Deed::Reroute);
        }
        match self.rng.below(6) {
            0..=2 => self.plan_deed(world, side, after, Deed::HangUp),
            3 if self.is_wild() => self.plan_deed(world, side, after, Deed::Destroy),
            _ => self.plan_deed(world, side, CURFEW, Deed::HangUp),
        }
    }

    /// Performs an action and checks that it succeeds exactly if the state allows it.
    fn act(&mut self, world: &mut CmWorld, side: usize, deed: Deed) -> Checked {
        let s = self.sides[side].clone();
        if s.destroyed || s.crashed {
            return Ok(());
        }
        let path = world.path(s.host, 1 - s.host, self.plan.life_time);
        let (now, cm) = (world.now, &mut world.hosts[s.host].cm);
        let Some(state) = cm.state(s.conn) else {
            return Err(format!("the connection is gone: {s:?}"));
        };
        let tag = s.attempt as u8;
        let done: Result<(), CmError> = match deed {
            Deed::Accept => cm.send_rep(
                now,
                s.conn,
                &RepParams {
                    qpn: s.qpn,
                    starting_psn: s.psn,
                    responder_resources: 5,
                    initiator_depth: 7,
                    flow_control: true,
                    rnr_retry_count: 6,
                    private_data: vec![!tag; 100],
                    ..RepParams::default()
                },
            ),
            Deed::Refuse => cm.send_rej(now, s.conn, RejectReason::CONSUMER_DEFINED, &[], &[REFUSAL, tag]),
            Deed::Dawdle(n) => cm.send_mra(now, s.conn, n, self.rng.chance(1, 3), &[tag]),
            Deed::Ready => cm.send_rtu(now, s.conn, &[tag]),
            Deed::Establish => cm.establish(now, s.conn),
            Deed::HangUp => cm.send_dreq(now, s.conn, &[tag]),
            Deed::Agree => cm.send_drep(now, s.conn, &[tag]),
            Deed::Reroute => cm.send_lap(now, s.conn, &path, &[tag]),
            Deed::Approve => cm.send_apr(now, s.conn, ApStatus::REJECTED, &[tag; 3], &[tag]),
            Deed::Serve => {
                let params = SidrRepParams { qpn: s.qpn, qkey: QKEY, ..SidrRepParams::default() };
                cm.send_sidr_rep(now, s.conn, &params)
            }
            Deed::Destroy => {
                cm.destroy(now, s.conn);
                Ok(())
            }
        };
        world.flush(s.host);
        if is_allowed(state, deed).is_some_and(|allowed| allowed != done.is_ok()) {
            return Err(format!("{deed:?} in state {state:?} gave {done:?}: {s:?}"));
        }
        if done.is_ok() {
            self.done(world, side, deed);
        }
        Ok(())
    }

    fn done(&mut self, world: &mut CmWorld, side: usize, deed: Deed) {
        match deed {
            Deed::Accept => self.sides[side].agreed = true,
            Deed::Ready => {
                self.sides[side].agreed = true;
                self.on_standing(world, side);
                // The first packet on the queue pair may overtake the RTU.
                if let Some(partner) = self.sides[side].partner.filter(|_| self.is_wild() && self.rng.chance(1, 4)) {
                    let after = self.micros(Duration::from_millis(50));
                    self.plan_deed(world, partner, after, Deed::Establish);
                }
            }
            Deed::Refuse => self.sides[side].refused = true,
            Deed::Dawdle(_) => self.sides[side].dawdled = true,
            // Answering a SIDR request destroys its connection.
            Deed::Serve | Deed::Destroy => self.sides[side].destroyed = true,
            Deed::Establish | Deed::HangUp | Deed::Agree | Deed::Reroute | Deed::Approve => {}
        }
    }

    /// Destroys every connection of every owner.
    pub fn destroy_all(&mut self, world: &mut CmWorld) {
        for side in self.sides.iter_mut().filter(|s| !s.destroyed && !s.crashed) {
            world.hosts[side.host].cm.destroy(world.now, side.conn);
            side.destroyed = true;
        }
        for host in 0..world.hosts.len() {
            world.flush(host);
        }
    }
}

fn listen(world: &mut CmWorld, host: usize) {
    for service in 0..SERVICES {
        world.hosts[host].cm.listen(SERVICE_BASE + service, u64::MAX).expect("a free service ID");
    }
}

/// Returns whether a state allows an action, by the rules of `ib_cm`; `None` where that depends on what else happens on
/// the path.
fn is_allowed(state: State, deed: Deed) -> Option<bool> {
    use State::*;
    let refusable = [ReqSent, MraReqRcvd, ReqRcvd, MraReqSent, RepRcvd, MraRepSent, RepSent, MraRepRcvd];
    Some(match deed {
        Deed::Reroute | Deed::Approve | Deed::Dawdle(_) if state == Established => return None,
        Deed::Reroute | Deed::Approve => false,
        Deed::Accept => matches!(state, ReqRcvd | MraReqSent),
        Deed::Refuse => refusable.contains(&state),
        Deed::Dawdle(_) => matches!(state, ReqRcvd | RepRcvd),
        Deed::Ready => matches!(state, RepRcvd | MraRepSent),
        Deed::Establish => matches!(state, RepSent | MraRepRcvd),
        Deed::HangUp => state == Established,
        Deed::Agree => state == DreqRcvd,
        Deed::Serve => state == SidrReqRcvd,
        Deed::Destroy => true,
    })
}
