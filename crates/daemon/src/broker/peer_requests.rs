//! Requests to connect processes: publications, and which end has fetched which pair of lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use weft_ipc::{DaemonFrame, Event, Publication, PublishGrant, Refusal, Response, encode};
use weft_sys::process::OVERFLOW_UID;

use super::session::Outcome;
use super::{Attach, Broker, Output, Phase};
use crate::host::Host;
use crate::limits::PAIRS_UNFETCHED_MAX;
use crate::pairs::{Slots, ordered, unpublished};
use crate::refusal::{EAGAIN, EALREADY, EINVAL, refuse};
use crate::slots::ClientId;

/// Published processes and the pairs between them.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    /// By slot: the client, and its generation.
    published: BTreeMap<u32, (ClientId, u64)>,
    /// By the two slots: whether the lower and the higher have fetched their pair.
    pairs: BTreeMap<Slots, [bool; 2]>,
    /// Slots of processes that outlived the last daemon and may publish themselves again.
    expected: BTreeSet<u32>,
    /// Pairs that both ends have fetched, but whose last answer may still wait to be sent to this client.
    fetched: BTreeMap<ClientId, Slots>,
}

impl Meetings {
    /// Registers slots that had processes under the last daemon.
    pub fn expect(&mut self, slots: impl IntoIterator<Item = u32>) {
        self.expected.extend(slots);
    }

    fn unfetched_by_others(&self, slot: u32) -> usize {
        let mine = |(&(low, high), fetched): (&Slots, &[bool; 2])| match slot {
            _ if slot == low => !fetched[1],
            _ => slot == high && !fetched[0],
        };
        self.pairs.iter().filter(|&pair| mine(pair)).count()
    }
}

impl Broker {
    pub(super) fn publish(
        &mut self,
        id: ClientId,
        what: Publication,
        fds: &[OwnedFd],
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        let slot = self.clients.get(&id).and_then(|client| client.slot);
        let slot = slot.ok_or_else(|| refuse(EINVAL, "a process without a slot cannot publish itself"))?;
        if self.meetings.published.contains_key(&slot) {
            return Err(refuse(EALREADY, "this process has published itself already"));
        }
        let shares = host.publish(id, slot, what, fds)?;
        self.meetings.published.insert(slot, (id, what.generation));
        self.meetings.expected.remove(&slot);
        let attach = Attach { published: (!what.brings).then_some(slot), ..Attach::default() };
        Ok(Outcome::Reply(Box::new(Response::Published(PublishGrant { shares })), attach))
    }

    pub(super) fn meet_peer(
        &mut self,
        id: ClientId,
        peer: u32,
        fds: &[OwnedFd],
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        // A client that sends another request has received its last answer.
        if let Some(slots) = self.meetings.fetched.remove(&id) {
            host.forget_pair(slots);
        }
        let own = self.clients.get(&id).and_then(|client| client.slot).ok_or_else(unpublished)?;
        let Some(&(_, generation)) = self.meetings.published.get(&own) else { return Err(unpublished()) };
        if peer == own {
            return Err(refuse(EINVAL, "a process cannot connect to itself"));
        }
        let Some(&(other, _)) = self.meetings.published.get(&peer) else {
            // The peer may have been there before the last daemon died, and may come back.
            let may_come = matches!(self.phase, Phase::Grace { .. }) && self.meetings.expected.contains(&peer);
            return Ok(if may_come { Outcome::Deferred } else { Response::Peer(None).into() });
        };
        let slots = ordered(own, peer);
        let side = usize::from(own > peer);
        if !self.meetings.pairs.contains_key(&slots) {
            if self.meetings.unfetched_by_others(own) >= PAIRS_UNFETCHED_MAX {
                return Err(refuse(
                    EAGAIN,
                    format!("{PAIRS_UNFETCHED_MAX} processes that this one wants to reach do not answer: try again"),
                ));
            }
            host.make_pair(slots, self.are_one_user(id, other), fds.first())?;
            self.meetings.pairs.insert(slots, [false; 2]);
            self.tell_peer(other, Event::PeerCame { slot: own, generation });
        }
        let Some(grant) = host.peer_grant(own, peer) else {
            return Err(refuse(EALREADY, "these two processes are connected already"));
        };
        if let Some(fetched) = self.meetings.pairs.get_mut(&slots) {
            fetched[side] = true;
            if *fetched == [true; 2] {
                self.meetings.fetched.insert(id, slots);
            }
        }
        let attach = Attach { meeting: Some((own, peer)), ..Attach::default() };
        Ok(Outcome::Reply(Box::new(Response::Peer(Some(grant))), attach))
    }

    /// Removes a client and notifies the processes that had connected to it.
    pub(super) fn part(&mut self, id: ClientId, slot: u32, host: &mut impl Host) {
        if let Some(slots) = self.meetings.fetched.remove(&id) {
            host.forget_pair(slots);
        }
        self.meetings.expected.remove(&slot);
        let Some((_, generation)) = self.meetings.published.remove(&slot) else { return };
        let involved = |&&(low, high): &&Slots| low == slot || high == slot;
        let pairs: Vec<Slots> = self.meetings.pairs.keys().filter(involved).copied().collect();
        for slots in pairs {
            self.meetings.pairs.remove(&slots);
            host.forget_pair(slots);
            let peer = if slots.0 == slot { slots.1 } else { slots.0 };
            if let Some(&(other, _)) = self.meetings.published.get(&peer) {
                self.tell_peer(other, Event::PeerGone { slot, generation });
            }
        }
        host.unpublish(slot);
    }

    fn are_one_user(&self, one: ClientId, other: ClientId) -> bool {
        let uid = |id| self.clients.get(&id).map(|client| client.credentials.uid);
        // The overflow UID stands for every user without a UID here.
        uid(one) == uid(other) && uid(one) != Some(OVERFLOW_UID)
    }

    fn tell_peer(&mut self, client: ClientId, event: Event) {
        if let Ok(bytes) = encode(&DaemonFrame::Event(event)) {
            self.output.push_back(Output::Send { client, bytes, attach: Attach::default(), about: None });
        }
    }
}
