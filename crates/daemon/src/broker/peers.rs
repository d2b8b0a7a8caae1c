//! Requests to connect processes: publications, and which end has fetched which pair of rings.

use std::collections::{BTreeMap, BTreeSet};

use weft_ipc::{Event, Publication, PublishGrant, Refusal, Request, Response};
use weft_sys::process::OVERFLOW_UID;

use super::Attach;
use super::call::{Call, Outcome};
use super::route::{Routed, Rules};
use super::sessions::Sessions;
use super::shared::{Phase, Shared};
use crate::host::Host;
use crate::limits::PAIRS_UNFETCHED_MAX;
use crate::pairs::{Slots, ordered, unpublished};
use crate::refusal::{EAGAIN, EALREADY, EINVAL, refuse};
use crate::slots::ClientId;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::Publish(what) => Rules::PLAIN.to(move |broker, call| broker.peers.publish(&broker.shared, call, what)),
        Request::MeetPeer { slot } => {
            Rules::PLAIN.to(move |broker, call| broker.peers.meet(&mut broker.shared, call, slot))
        }
        other => return Routed::Elsewhere(other),
    })
}

/// Published processes and the pairs between them.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// By slot: the client, and its generation.
    published: BTreeMap<u32, (ClientId, u64)>,
    /// By the two slots: whether the lower and the higher have fetched their pair.
    pairs: BTreeMap<Slots, [bool; 2]>,
    /// Slots of processes that outlived the last daemon and may publish themselves again.
    expected: BTreeSet<u32>,
    /// Pairs that both ends have fetched, but whose last answer may still wait to be sent to this client.
    fetched: BTreeMap<ClientId, Slots>,
}

impl Peers {
    /// Registers slots that had processes under the last daemon.
    pub fn expect(&mut self, slots: impl IntoIterator<Item = u32>) {
        self.expected.extend(slots);
    }

    /// Returns whether a process has published itself under a slot.
    pub fn is_published(&self, slot: u32, process: ClientId) -> bool {
        self.published.get(&slot).is_some_and(|(client, _)| *client == process)
    }

    fn unfetched_by_others(&self, slot: u32) -> usize {
        let mine = |(&(low, high), fetched): (&Slots, &[bool; 2])| match slot {
            _ if slot == low => !fetched[1],
            _ => slot == high && !fetched[0],
        };
        self.pairs.iter().filter(|&pair| mine(pair)).count()
    }

    fn publish(&mut self, shared: &Shared, call: Call<'_, impl Host>, what: Publication) -> Result<Outcome, Refusal> {
        let Call { id, fds, host, .. } = call;
        let slot =
            shared.sessions.slot(id).ok_or_else(|| refuse(EINVAL, "a process without a slot cannot publish itself"))?;
        if self.published.contains_key(&slot) {
            return Err(refuse(EALREADY, "this process has published itself already"));
        }
        let shares = host.publish(id, slot, what, fds)?;
        self.published.insert(slot, (id, what.generation));
        self.expected.remove(&slot);
        let attach = Attach { published: (!what.brings).then_some(slot), ..Attach::default() };
        Ok(Outcome::with(Response::Published(PublishGrant { shares }), attach))
    }

    fn meet(&mut self, shared: &mut Shared, call: Call<'_, impl Host>, peer: u32) -> Result<Outcome, Refusal> {
        let Call { id, fds, host, .. } = call;
        // A client that sends another request has received its last answer.
        if let Some(slots) = self.fetched.remove(&id) {
            host.forget_pair(slots);
        }
        let own = shared.sessions.slot(id).ok_or_else(unpublished)?;
        let Some(&(_, generation)) = self.published.get(&own) else { return Err(unpublished()) };
        if peer == own {
            return Err(refuse(EINVAL, "a process cannot connect to itself"));
        }
        let Some(&(other, _)) = self.published.get(&peer) else {
            // The peer may have been there before the last daemon died, and may come back.
            let may_come = matches!(shared.phase, Phase::Grace { .. }) && self.expected.contains(&peer);
            return Ok(if may_come { Outcome::Deferred } else { Response::Peer(None).into() });
        };
        let slots = ordered(own, peer);
        let side = usize::from(own > peer);
        if !self.pairs.contains_key(&slots) {
            if self.unfetched_by_others(own) >= PAIRS_UNFETCHED_MAX {
                return Err(refuse(
                    EAGAIN,
                    format!("{PAIRS_UNFETCHED_MAX} processes that this one wants to reach do not answer: try again"),
                ));
            }
            host.make_pair(slots, are_one_user(&shared.sessions, id, other), fds.first())?;
            self.pairs.insert(slots, [false; 2]);
            shared.sessions.tell(other, &Event::PeerCame { slot: own, generation }, None);
        }
        let Some(grant) = host.peer_grant(own, peer) else {
            return Err(refuse(EALREADY, "these two processes are connected already"));
        };
        if let Some(fetched) = self.pairs.get_mut(&slots) {
            fetched[side] = true;
            if *fetched == [true; 2] {
                self.fetched.insert(id, slots);
            }
        }
        let attach = Attach { meeting: Some((own, peer)), ..Attach::default() };
        Ok(Outcome::with(Response::Peer(Some(grant)), attach))
    }

    /// Removes a client and notifies the processes that had connected to it.
    pub fn part(&mut self, sessions: &mut Sessions, id: ClientId, slot: u32, host: &mut impl Host) {
        if let Some(slots) = self.fetched.remove(&id) {
            host.forget_pair(slots);
        }
        self.expected.remove(&slot);
        let Some((_, generation)) = self.published.remove(&slot) else { return };
        let involves = |&(low, high): &Slots| low == slot || high == slot;
        // The next process of the slot gets pairs of its own, which its peers' next requests must not end.
        self.fetched.retain(|_, slots| !involves(slots));
        let pairs: Vec<Slots> = self.pairs.keys().copied().filter(involves).collect();
        for slots in pairs {
            self.pairs.remove(&slots);
            host.forget_pair(slots);
            let peer = if slots.0 == slot { slots.1 } else { slots.0 };
            if let Some(&(other, _)) = self.published.get(&peer) {
                sessions.tell(other, &Event::PeerGone { slot, generation }, None);
            }
        }
        host.unpublish(slot);
    }
}

fn are_one_user(sessions: &Sessions, one: ClientId, other: ClientId) -> bool {
    let uid = |id| sessions.get(id).map(|client| client.credentials.uid);
    // The overflow UID stands for every user without a UID here.
    uid(one) == uid(other) && uid(one) != Some(OVERFLOW_UID)
}
