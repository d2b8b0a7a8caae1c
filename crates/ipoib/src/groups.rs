//! Multicast groups of an interface.
//!
//! ```text
//!            want, send        joined
//!   absent ───────────▶ JOINING ─────▶ JOINED ──leave──▶ absent
//!                        ▲    │ refused
//!                   time │    ▼
//!                       REFUSED           the port goes down, clients reregister: JOINED ──▶ JOINING
//! ```

use std::collections::BTreeMap;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::sa::McMemberRecord;

use crate::frame::Frame;
use crate::held::Held;
use crate::limits::{GROUPS_MAX, JOIN_AGAIN, JOIN_AGAIN_MAX};
use crate::output::{Destination, Output};

/// GID of a group.
pub(crate) type Mgid = [u8; 16];

#[derive(Clone, Debug)]
enum State {
    Joining,
    Refused { until: Instant },
    Joined(McMemberRecord),
}

#[derive(Clone, Debug)]
struct Group {
    state: State,
    /// It receives; otherwise it sends only.
    full: bool,
    /// Time until the next join after a refusal.
    again: Duration,
    held: Held,
}

/// The groups that an interface is a member of, or will be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    of: BTreeMap<Mgid, Group>,
}

impl Groups {
    /// Joins a group as a full member; a send-only membership becomes a full one.
    pub fn want(&mut self, mgid: Mgid, out: &mut Vec<Output>) {
        if self.of.get(&mgid).is_none_or(|group| !group.full) {
            self.join(mgid, true, out);
        }
    }

    fn join(&mut self, mgid: Mgid, full: bool, out: &mut Vec<Output>) {
        if self.of.len() >= GROUPS_MAX && !self.of.contains_key(&mgid) {
            return;
        }
        let held = self.of.remove(&mgid).map(|group| group.held).unwrap_or_default();
        self.of.insert(mgid, Group { state: State::Joining, full, again: JOIN_AGAIN, held });
        out.push(Output::Join { mgid, full });
    }

    /// Leaves a group.
    pub fn leave(&mut self, mgid: Mgid, out: &mut Vec<Output>) {
        if self.of.remove(&mgid).is_some() {
            out.push(Output::Leave { mgid });
        }
    }

    /// Returns the groups that it receives from, or will.
    pub fn wanted(&self) -> impl Iterator<Item = Mgid> {
        self.of.iter().filter(|(_, group)| group.full).map(|(mgid, _)| *mgid)
    }

    /// Whether it receives from a group, or will.
    pub fn wants(&self, mgid: &Mgid) -> bool {
        self.of.get(mgid).is_some_and(|group| group.full)
    }

    /// Leaves all groups.
    pub fn leave_all(&mut self, out: &mut Vec<Output>) {
        out.extend(std::mem::take(&mut self.of).into_keys().map(|mgid| Output::Leave { mgid }));
    }

    /// Returns the membership in a group.
    pub fn membership(&self, mgid: &Mgid) -> Option<&McMemberRecord> {
        match &self.of.get(mgid)?.state {
            State::Joined(record) => Some(record),
            _ => None,
        }
    }

    /// Sends a frame to a group, once it is a member: it joins to send.
    pub fn send(&mut self, mgid: Mgid, frame: Frame, out: &mut Vec<Output>) {
        if let Some(record) = self.membership(&mgid) {
            out.push(Output::Send { to: destination(mgid, record), frame });
            return;
        }
        if !self.of.contains_key(&mgid) {
            self.join(mgid, false, out);
        }
        if let Some(group) = self.of.get_mut(&mgid) {
            group.held.push(frame);
        }
    }

    /// Handles the answer to a join: frames that waited leave.
    pub fn on_joined(&mut self, record: &McMemberRecord, out: &mut Vec<Output>) {
        let Some(group) = self.of.get_mut(&record.mgid) else { return };
        group.state = State::Joined(*record);
        group.again = JOIN_AGAIN;
        let to = destination(record.mgid, record);
        out.extend(group.held.take().into_iter().map(|frame| Output::Send { to, frame }));
    }

    /// Handles a refused join: it is repeated later.
    pub fn on_refused(&mut self, now: Instant, mgid: &Mgid) {
        if let Some(group) = self.of.get_mut(mgid)
            && matches!(group.state, State::Joining)
        {
            group.state = State::Refused { until: now + group.again };
            group.again = (group.again * 2).min(JOIN_AGAIN_MAX);
        }
    }

    /// Returns when [`Groups::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let until = |group: &Group| if let State::Refused { until } = group.state { Some(until) } else { None };
        self.of.values().filter_map(until).min()
    }

    /// Repeats the joins whose time has come.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Output>) {
        for (mgid, group) in &mut self.of {
            if let State::Refused { until } = group.state
                && until <= now
            {
                group.state = State::Joining;
                out.push(Output::Join { mgid: *mgid, full: group.full });
            }
        }
    }

    /// Joins every group again: the subnet administration has forgotten its members. A group to send to is forgotten.
    pub fn rejoin(&mut self, out: &mut Vec<Output>) {
        self.of.retain(|_, group| group.full);
        for (mgid, group) in &mut self.of {
            group.state = State::Joining;
            out.push(Output::Join { mgid: *mgid, full: true });
        }
    }

    /// Forgets every membership, without a word: the port is down.
    pub fn reset(&mut self) {
        self.of.clear();
    }
}

fn destination(mgid: Mgid, record: &McMemberRecord) -> Destination {
    let qpn = weft_wire::MULTICAST_QPN;
    Destination { dlid: record.mlid, sl: record.sl, group: Some(mgid), qpn, qkey: record.qkey }
}
