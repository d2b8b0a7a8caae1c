//! Other managers: election of the master, polling and handover (IBA 14.4). The states are those of
//! [`crate::handover`].

use std::collections::BTreeMap;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::subn::{HOPS_MAX, SmControl, SmInfo, SmState, Smp};
use weft_wire::mad::{Method, Status};

use super::{Event, Manager};
use crate::handover::{SmEvent, greater, step};
use crate::io;
use crate::subnet::{NodeIx, PortIx};
use crate::sweep::{Ask, Phase, What};

/// Wait before a master asks a discovering manager again.
const DISCOVERING_AGAIN: Duration = Duration::from_millis(500);

/// Wait before a master again reads a port from which SMInfo was requested.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Upper limit of missed polls, for computing the time of each.
const POLLS_MAX: u32 = 1 << 10;
/// Upper limit of tries of a poll, for computing the time of each.
const TRIES_MAX: u32 = 1 << 5;
/// Shortest timeout of a try.
const TRY_MIN: Duration = Duration::from_millis(2);

/// Last known state of another manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Other {
    pub guid: u64,
    pub priority: u8,
    pub state: SmState,
}

/// All other managers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    /// Ports that advertise an SM, each with its last SMInfo.
    ports: BTreeMap<PortIx, Option<Other>>,
    /// The master that this standby polls.
    polled: Option<PortIx>,
    pub next_poll: Option<Instant>,
    /// Consecutive polls without the answer of a master.
    missed: u32,
    /// Number of polls so far, a part of this manager's ActCount.
    act_count: u32,
    /// This manager is leaving and accepts no handover.
    pub leaving: bool,
    /// When the manager last read a port because it might run another manager.
    looked: Option<Instant>,
    /// The manager to hand over to at the end of the sweep.
    handing_to: Option<PortIx>,
}

impl Peers {
    /// Records a port that advertises an SM.
    pub fn seen(&mut self, at: PortIx) {
        self.ports.entry(at).or_default();
    }

    /// Removes the manager behind a port, and returns its last known state.
    pub fn forget(&mut self, at: PortIx) -> Option<Other> {
        self.ports.remove(&at).flatten()
    }

    pub fn forget_node(&mut self, node: NodeIx) {
        self.ports.retain(|at, _| at.node != node);
    }

    /// Yields the known managers as SMInfo records.
    pub fn infos(&self) -> impl Iterator<Item = SmInfo> + '_ {
        self.ports.values().flatten().map(|other| SmInfo {
            guid: other.guid,
            priority: other.priority,
            state: other.state,
            ..SmInfo::default()
        })
    }

    /// Whether another manager is master too.
    pub fn rivals(&self) -> bool {
        self.ports.values().flatten().any(|other| other.state == SmState::MASTER)
    }

    /// Returns the manager believed to be master.
    pub fn master(&self) -> Option<Other> {
        let polled = self.polled.and_then(|at| self.ports.get(&at).copied().flatten());
        polled.or_else(|| self.ports.values().flatten().find(|other| other.state == SmState::MASTER).copied())
    }
}

impl Manager {
    /// Returns this manager's SMInfo; only other managers may see the SM_Key.
    pub(crate) fn sm_info_for(&self, manager: bool) -> SmInfo {
        SmInfo {
            guid: self.setup.own_guid,
            sm_key: if manager { self.setup.sm_key } else { 0 },
            // ActCount counts all activity (IBA 14.2.5.13): polls, and SMPs sent.
            act_count: self.peers.act_count.wrapping_add(self.wire.counts.sent as u32),
            priority: self.setup.sm_priority & 0xf,
            state: self.state,
        }
    }

    /// Requests SMInfo from every other known manager.
    pub(crate) fn ask_managers(&mut self) {
        if self.setup.ignore_other_sm {
            return;
        }
        let ports: Vec<PortIx> = self.peers.ports.keys().copied().collect();
        for at in ports {
            self.wire.ask(Ask { what: What::SmInfo, at, arg: 0 });
        }
    }

    /// Whether another manager outranks this one.
    fn is_greater(&self, other: &Other) -> bool {
        greater(other.priority, other.guid, self.setup.sm_priority, self.setup.own_guid)
    }

    pub(crate) fn on_sm_info(&mut self, ask: Ask, info: &SmInfo) {
        if info.guid == self.setup.own_guid || self.subnet.port(ask.at).is_none() {
            // The LID that the master had now belongs to this port.
            if ask.what == What::Poll {
                self.on_missed();
            }
            return;
        }
        let other = Other { guid: info.guid, priority: info.priority, state: info.state };
        let known = self.peers.ports.insert(ask.at, Some(other)).flatten();
        if known.is_none_or(|known| (known.state, known.priority) != (other.state, other.priority)) {
            let name = self.subnet.node(ask.at.node).map(|node| self.subnet.name(node).into_owned());
            let (guid, priority, state) = (other.guid, other.priority, other.state);
            self.tell(Event::OtherManager { guid, name: name.unwrap_or_default(), priority, state });
        }
        if ask.what == What::Poll {
            return match other.state {
                SmState::MASTER => self.peers.missed = 0,
                _ => self.on_missed(),
            };
        }
        if self.state == SmState::MASTER && other.state == SmState::DISCOVERING {
            self.peers.next_poll = Some(self.now + DISCOVERING_AGAIN);
        }
        if matches!(self.sweep.phase, Phase::Idle | Phase::Names) && self.sweep.is_up {
            self.look_for_greater();
            self.hand_over_if_greater();
        }
    }

    /// Handles a port that no longer runs a manager. A manager that was master or discovering may have written
    /// anything.
    pub(crate) fn on_peer_gone(&mut self, at: PortIx) {
        let gone = self.peers.forget(at);
        self.on_rival_gone(at, gone, false);
    }

    fn on_rival_gone(&mut self, at: PortIx, gone: Option<Other>, silent: bool) {
        let Some(gone) = gone else { return };
        let name = self.subnet.node(at.node).map(|node| self.subnet.name(node).into_owned());
        self.tell(Event::ManagerGone { guid: gone.guid, name: name.unwrap_or_default(), silent });
        let wrote = matches!(gone.state, SmState::MASTER | SmState::DISCOVERING);
        if self.state == SmState::MASTER && wrote {
            self.forget_all();
            self.sweep.wanted.heavy = true;
        }
    }

    /// Handles another manager that does not answer.
    pub(crate) fn on_peer_silent(&mut self, ask: Ask) {
        match ask.what {
            What::Poll => self.on_missed(),
            What::SmInfo => {
                let known = self.peers.ports.insert(ask.at, None).flatten();
                self.on_rival_gone(ask.at, known, true);
            }
            _ => self.peers.handing_to = None,
        }
    }

    pub(crate) fn on_missed(&mut self) {
        self.peers.missed += 1;
        if self.state == SmState::STANDBY {
            // The next polls follow quickly, so that all of them together fit into one polling interval.
            self.peers.next_poll = Some(self.now + self.doubt() / 2);
        }
        if self.state == SmState::STANDBY && self.peers.missed >= self.setup.polling_retry_number.max(1) {
            let guid = self.peers.master().map_or(0, |master| master.guid);
            self.tell(Event::MasterSilent { guid });
            self.happen(SmEvent::MasterSilent);
        }
    }

    /// Returns the time for each poll after the master has missed one: short enough that a standby detects a dead
    /// master within two polling intervals, however many polls that takes.
    fn doubt(&self) -> Duration {
        self.setup.sminfo_polling_timeout / (self.setup.polling_retry_number.clamp(1, POLLS_MAX) + 1)
    }

    /// Returns the timeout of one try of a request.
    pub(crate) fn try_timeout(&self, what: What) -> Duration {
        let usual = self.setup.transaction_timeout;
        match what {
            What::Poll => {
                usual.min(self.doubt() / (2 * (self.setup.transaction_retries.min(TRIES_MAX) + 1))).max(TRY_MIN)
            }
            What::SetSlToVl => usual.max(self.setup.long_transaction_timeout),
            _ => usual,
        }
    }

    /// Decides after discovery which manager becomes master.
    pub(crate) fn decide(&mut self) {
        let others: Vec<(PortIx, Other)> =
            self.peers.ports.iter().filter_map(|(at, other)| Some((*at, (*other)?))).collect();
        let others = if self.setup.ignore_other_sm { Vec::new() } else { others };
        if self.state == SmState::MASTER {
            self.look_for_greater();
            return self.begin_configuration();
        }
        let active = others.iter().filter(|(_, other)| other.state != SmState::NOT_ACTIVE);
        let first = active
            .filter(|(_, other)| other.state == SmState::MASTER || self.is_greater(other))
            .max_by_key(|(_, other)| (other.state == SmState::MASTER, other.priority, std::cmp::Reverse(other.guid)));
        match first {
            Some((at, _)) => {
                self.peers.polled = Some(*at);
                self.sweep.phase = Phase::Idle;
                self.happen(SmEvent::Greater);
            }
            None if self.setup.never_master => {
                self.sweep.phase = Phase::Idle;
                self.sweep.next = Some(self.now + self.setup.sminfo_polling_timeout);
            }
            None => {
                self.happen(SmEvent::Alone);
                self.begin_configuration();
            }
        }
    }

    /// Chooses the manager to which a master hands over at the end of its sweep.
    pub(crate) fn look_for_greater(&mut self) {
        let others = self.peers.ports.iter().filter_map(|(at, other)| Some((*at, (*other)?)));
        let greatest = others
            .filter(|_| self.state == SmState::MASTER && !self.setup.ignore_other_sm)
            .filter(|(_, other)| matches!(other.state, SmState::STANDBY | SmState::MASTER))
            .filter(|(_, other)| self.setup.yields || self.is_greater(other))
            .max_by_key(|(_, other)| (other.priority, std::cmp::Reverse(other.guid)));
        self.peers.handing_to = greatest.map(|(at, _)| at);
    }

    /// Hands over to the chosen manager, now that the sweep is over.
    pub(crate) fn hand_over_if_greater(&mut self) {
        let Some(at) = self.peers.handing_to.take() else { return };
        if self.state == SmState::MASTER {
            self.peers.polled = Some(at);
            self.wire.ask(Ask { what: What::Control, at, arg: SmControl::HANDOVER.0 });
        }
    }

    /// Stops being master: hands over to a standby, if there is one.
    pub fn shut_down(&mut self) {
        self.peers.leaving = true;
        if self.state != SmState::MASTER {
            return;
        }
        let standing = self.peers.ports.iter().filter_map(|(at, other)| Some((*at, (*other)?)));
        let next = standing
            .filter(|(_, other)| other.state == SmState::STANDBY)
            .max_by_key(|(_, other)| (other.priority, std::cmp::Reverse(other.guid)));
        if let Some((at, _)) = next {
            self.wire.ask(Ask { what: What::Control, at, arg: SmControl::HANDOVER.0 });
        }
    }

    /// Applies an event to the state machine; `false` if the event is invalid.
    pub(crate) fn happen(&mut self, event: SmEvent) -> bool {
        let Some(next) = step(self.state, event) else { return false };
        if self.setup.never_master && next == SmState::MASTER {
            return false;
        }
        let before = std::mem::replace(&mut self.state, next);
        if before == next {
            if event == SmEvent::Handover && next == SmState::MASTER {
                // Another manager was master too, and may have written anything.
                self.forget_all();
                self.sweep.wanted.heavy = true;
            }
            return true;
        }
        self.tell(Event::State(next));
        self.enter(before, next);
        true
    }

    fn enter(&mut self, before: SmState, state: SmState) {
        (self.peers.next_poll, self.peers.missed) = (None, 0);
        if before == SmState::MASTER {
            self.abdicate();
        }
        match state {
            SmState::MASTER => {
                if !self.setup.honor_guid2lid_file && before == SmState::STANDBY {
                    self.lids.clear();
                }
                self.sweep.reroute = true;
                self.sweep.wanted.heavy = before != SmState::DISCOVERING;
                let ends = self.subnet.end_ports().filter(|(_, node, _)| node.switch.is_none());
                self.reregister = ends.map(|(at, ..)| at).collect();
                if self.setup.options.misc.drop_event_subscriptions {
                    self.administration.sa.forget_registrations();
                }
            }
            SmState::DISCOVERING => {
                if before == SmState::STANDBY && !self.setup.honor_guid2lid_file {
                    self.lids.clear();
                }
                self.sweep.wanted.heavy = true;
            }
            SmState::STANDBY => self.peers.next_poll = Some(self.now + self.setup.sminfo_polling_timeout),
            _ => {}
        }
    }

    /// Stops all work as master: from now on another manager writes.
    fn abdicate(&mut self) {
        self.wire.clear();
        self.jobs.clear();
        self.computing = None;
        self.sweep.phase = Phase::Idle;
        self.sweep.next = None;
        self.sweep.wanted = Default::default();
        (self.sweep.is_up, self.sweep.mastered, self.sweep.written) = (false, false, false);
        self.sweep.unsure.clear();
        self.forget_all();
    }

    /// Forgets the tables of all switches, and which ports refused their configuration.
    pub(crate) fn forget_all(&mut self) {
        self.sweep.stubborn.clear();
        let nodes: Vec<NodeIx> = self.subnet.nodes().map(|(node, _)| node).collect();
        nodes.into_iter().for_each(|node| self.forget_tables(node));
    }

    /// Polls the master while in standby.
    pub(crate) fn on_peer_timer(&mut self) {
        if self.peers.next_poll.is_none_or(|next| next > self.now) {
            return;
        }
        self.peers.next_poll = None;
        if self.state == SmState::MASTER {
            return self.ask_managers();
        }
        if self.state != SmState::STANDBY {
            return;
        }
        self.peers.next_poll = Some(self.now + self.setup.sminfo_polling_timeout);
        self.peers.act_count = self.peers.act_count.wrapping_add(1);
        let Some(at) = self.peers.polled else { return self.on_missed() };
        // LIDs survive a change of route; before any are assigned, only the directed route works.
        let lid = self.subnet.port(at).map_or(0, |port| port.info.lid);
        let arg = if self.peers.missed.is_multiple_of(2) { lid.into() } else { 0 };
        self.wire.ask(Ask { what: What::Poll, at, arg });
    }

    /// Answers a Get of SMInfo.
    pub(crate) fn on_sm_info_asked(&mut self, from: &io::Peer, smp: &Smp) {
        self.peers.act_count = self.peers.act_count.wrapping_add(1);
        let asks_as_manager = self.setup.m_key == 0 || smp.mkey() == self.setup.m_key;
        self.look_who_asks(from.lid, smp);
        self.answer(from, smp, Status::SUCCESS, self.sm_info_for(asks_as_manager));
    }

    /// Reads the port that requested SMInfo, since it may run a manager that the master has not heard of. The read is
    /// wasted if the requester is just a program, so it is rate-limited.
    fn look_who_asks(&mut self, lid: u16, smp: &Smp) {
        let lately = self.peers.looked.is_some_and(|looked| self.now.since(looked) < LOOK_AGAIN);
        if self.state != SmState::MASTER || lately || self.setup.ignore_other_sm {
            return;
        }
        let (at, known) = match smp.is_directed() {
            true => self.way_back(smp),
            false => (self.subnet.at_lid(lid), true),
        };
        let Some(at) = at.filter(|at| !(self.is_own(*at) || known && self.peers.ports.contains_key(at))) else {
            return;
        };
        self.peers.looked = Some(self.now);
        match known {
            true => self.sweep.wanted.ports.insert(at),
            false => self.sweep.wanted.switches.insert(at.node),
        };
    }

    /// Follows the route of a request back to its source. Returns the source, or the last known port of the route, and
    /// whether that is the source. An unknown source may be behind a link that came up while its switch reported to
    /// another master.
    fn way_back(&self, smp: &Smp) -> (Option<PortIx>, bool) {
        let hops = usize::from(smp.hop_count()).min(usize::from(HOPS_MAX));
        let mut at = self.subnet.own;
        for hop in (1..=hops).rev() {
            let Some(here) = at else { return (None, false) };
            // The entry of this manager's own port, then that of each switch before it.
            let out = PortIx { node: here.node, port: smp.return_path[hop] };
            match self.subnet.port(out).map(|port| port.neighbor) {
                None => return (None, false),
                Some(None) => return (Some(out), false),
                Some(next) => at = next,
            }
        }
        (at, true)
    }

    fn answer(&mut self, from: &io::Peer, smp: &Smp, status: Status, info: SmInfo) {
        let mut answer = *smp;
        answer.header.set_method(Method::GET_RESP);
        answer.set_status(status);
        if answer.is_directed() {
            answer.set_returning(true);
        }
        answer.set_attribute(&info);
        self.reply(from.lid, answer.to_mad());
    }

    /// Handles a Set of SMInfo by another manager.
    pub(crate) fn on_control(&mut self, from: &io::Peer, smp: &Smp) {
        let info = SmInfo::parse(&smp.data);
        let control = SmControl(smp.header.attr_mod());
        let trusted = info.sm_key == self.setup.sm_key || info.sm_key == 0 && self.setup.sm_key == 0;
        let event = SmEvent::from_control(control).filter(|_| trusted && info.state != SmState::NOT_ACTIVE);
        let event = event.filter(|event| step(self.state, *event).is_some());
        // A yielding manager accepts no handover: mastership would pass back and forth forever.
        let takes = !(self.setup.never_master || self.setup.yields || self.peers.leaving);
        let refused = !takes && event == Some(SmEvent::Handover);
        let Some(event) = event.filter(|_| !refused) else {
            let own = self.sm_info_for(trusted);
            return self.answer(from, smp, Status::INVALID_FIELD, own);
        };
        let own = self.sm_info_for(true);
        self.answer(from, smp, Status::SUCCESS, own);
        let teller = self.subnet.by_port_guid.get(&info.guid).copied();
        self.happen(event);
        if let Some(at) = teller.filter(|_| event == SmEvent::Handover && self.state == SmState::MASTER) {
            self.wire.ask(Ask { what: What::Control, at, arg: SmControl::ACKNOWLEDGE.0 });
        }
        if event == SmEvent::Acknowledge && self.state == SmState::STANDBY {
            self.peers.polled = teller.or(self.peers.polled);
        }
    }

    pub(crate) fn on_control_answered(&mut self, ask: Ask, info: &SmInfo) {
        if info.guid != self.setup.own_guid {
            let other = Other { guid: info.guid, priority: info.priority, state: info.state };
            self.peers.ports.insert(ask.at, Some(other));
        }
        // OpenSM takes over a subnet without a Set of ACKNOWLEDGE: its answer is the only sign. A later ACKNOWLEDGE
        // changes nothing.
        let taken = matches!(info.state, SmState::STANDBY | SmState::MASTER);
        if ask.arg == SmControl::HANDOVER.0 && taken && self.state == SmState::MASTER {
            self.happen(SmEvent::Acknowledge);
        }
    }
}
