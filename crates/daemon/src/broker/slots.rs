//! Requests about slots: a new one, one that outlived a daemon, and a slot's multicast groups.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weft_ipc::{MULTICAST_GROUPS_MAX, McastGroup, Refusal, Request, Response, SlotGrant};

use super::call::{Call, Outcome};
use super::route::{Routed, Rules};
use super::shared::{Phase, Shared};
use super::{Attach, Broker};
use crate::host::Host;
use crate::limits::{POOL_SLOTS_INITIAL, RECOVERY_GRACE, SLOT_REST};
use crate::refusal::{EAGAIN, EALREADY, EINVAL, ENODEV, ENOSPC, refuse};
use crate::slots::{Choice, ClientId, SlotRules, SlotTable};

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::AllocateSlot => Rules::PLAIN.saved().to(|broker, call| {
            let id = call.id;
            let outcome = broker.shared.allocate_slot(call)?;
            broker.faults.on_slot(&mut broker.shared, id);
            Ok(outcome)
        }),
        Request::Reattach { slot, groups } => {
            Rules::PLAIN.saved().during_recovery().to(move |broker, call| broker.reattach(call, slot, groups))
        }
        Request::JoinMulticast(group) => {
            Rules::PLAIN.to(move |broker, call| broker.shared.multicast(call, group, true))
        }
        Request::LeaveMulticast(group) => {
            Rules::PLAIN.to(move |broker, call| broker.shared.multicast(call, group, false))
        }
        other => return Routed::Elsewhere(other),
    })
}

impl Shared {
    fn allocate_slot(&mut self, call: Call<'_, impl Host>) -> Result<Outcome, Refusal> {
        let Call { now, id, host, .. } = call;
        let uid = self.uid_without_slot(id)?;
        let most = self.config.slots_per_user_max;
        if uid != 0 && self.slots.in_use_by(uid) >= most {
            return Err(refuse(
                EAGAIN,
                format!(
                    "user {uid} already has {most} processes with RDMA devices open, the most that one user may \
                     have: end some, or restart the daemon with `weft daemon --slots-per-user N`"
                ),
            ));
        }
        let slot = self.choose_slot(now, uid, host)?;
        host.open_slot(slot)?;
        // Untrusted previous owners of a slot may still hold its sockets.
        host.steer();
        self.slots.own(slot, id, uid);
        if let Some(client) = self.sessions.get_mut(id) {
            client.slot = Some(slot);
        }
        let anchor = self.is_trusted(uid);
        let grant = SlotGrant { slot, has_v4: true, has_v6: host.has_v6(), has_anchor: anchor };
        let attach = Attach { sockets_of: Some(slot), anchor, ..Attach::default() };
        Ok(Outcome::with(Response::Slot(grant), attach))
    }

    fn choose_slot(&mut self, now: Instant, uid: u32, host: &mut impl Host) -> Result<u32, Refusal> {
        let mut rules = SlotRules {
            initial: POOL_SLOTS_INITIAL,
            per_user_max: self.config.slots_per_user_max,
            quarantine: self.config.slot_quarantine,
            rest: SLOT_REST,
        };
        loop {
            let choice = self.slots.choose(now, uid, &rules, |slot| host.is_abandoned(slot));
            let count = match choice {
                Choice::Take(slot) => return Ok(slot),
                Choice::Exhausted => return Err(self.no_slot_for(uid)),
                Choice::GrowTo(count) => count,
            };
            let before = self.slots.len();
            match host.grow_pool(count) {
                Ok(now) => self.slots.grow_to(now),
                // A slot that has not rested is better than none.
                Err(_) if !rules.rest.is_zero() && before > 0 => {
                    rules.rest = Duration::ZERO;
                    continue;
                }
                Err(refusal) => return Err(refusal),
            }
            if self.slots.len() == before {
                return Err(refuse(EAGAIN, "the pool of sockets could not grow"));
            }
        }
    }

    fn no_slot_for(&self, uid: u32) -> Refusal {
        let (in_use, seconds) = (self.slots.in_use(), self.config.slot_quarantine.as_secs());
        let text = match uid {
            0 => format!(
                "all {} parts of the QP number space are in use or were so in the last {seconds} s",
                self.slots.len()
            ),
            _ => format!(
                "user {uid} has its share of the QP number space: {} processes have RDMA devices open, {in_use} of all \
                 users, and parts used in the last {seconds} s count, too; the rest is for other users",
                self.slots.in_use_by(uid)
            ),
        };
        refuse(EAGAIN, format!("{text}: end some, or try again in {seconds} s"))
    }

    fn multicast(&mut self, call: Call<'_, impl Host>, group: McastGroup, join: bool) -> Result<Outcome, Refusal> {
        let Call { id, host, .. } = call;
        let client = self.sessions.get_mut(id).ok_or_else(lost)?;
        let Some(slot) = client.slot else {
            return Err(refuse(EINVAL, "a process without an open device cannot join multicast groups"));
        };
        if !group.group.is_multicast() {
            return Err(refuse(EINVAL, format!("{} is not a multicast address", group.group)));
        }
        if self.devices.netdevs.by_index(group.ifindex).is_none() {
            return Err(refuse(ENODEV, format!("there is no network interface {}", group.ifindex)));
        }
        if client.groups.contains(&group) == join {
            return Ok(Response::Done.into());
        }
        if join && client.groups.len() >= MULTICAST_GROUPS_MAX {
            return Err(refuse(ENOSPC, format!("a process can join {MULTICAST_GROUPS_MAX} multicast groups")));
        }
        host.multicast(slot, group, join)?;
        match join {
            true => client.groups.insert(group),
            false => client.groups.remove(&group),
        };
        Ok(Response::Done.into())
    }

    fn uid_without_slot(&self, id: ClientId) -> Result<u32, Refusal> {
        match self.sessions.get(id) {
            Some(client) if client.slot.is_none() => Ok(client.credentials.uid),
            Some(_) => Err(refuse(EALREADY, "this connection has a slot already")),
            None => Err(lost()),
        }
    }
}

impl Broker {
    fn reattach(&mut self, call: Call<'_, impl Host>, slot: u32, groups: Vec<McastGroup>) -> Result<Outcome, Refusal> {
        let Call { now, id, fds, host } = call;
        let uid = self.shared.uid_without_slot(id)?;
        if self.shared.slots.is_empty() {
            match fds.get(1) {
                Some(anchor) if self.shared.is_trusted(uid) => self.adopt(now, anchor, host)?,
                // Another survivor may still bring the anchor.
                _ if self.shared.is_recovering() => return Ok(Outcome::Deferred),
                _ => return Err(lost()),
            }
        }
        let proven = fds.first().is_some_and(|proof| host.proves(slot, proof));
        if !proven || !self.shared.slots.may_come_back(slot, uid) || groups.len() > MULTICAST_GROUPS_MAX {
            return Err(lost());
        }
        let mut groups: BTreeSet<McastGroup> = groups.into_iter().filter(|group| group.group.is_multicast()).collect();
        if !self.shared.slots.waiting().contains(&slot) {
            // It came too late and the slot was sealed, but no other process has had it since.
            host.open_slot(slot)?;
            groups.retain(|&group| host.multicast(slot, group, true).is_ok());
        }
        self.shared.slots.own(slot, id, uid);
        if let Some(client) = self.shared.sessions.get_mut(id) {
            client.slot = Some(slot);
            client.groups = groups;
        }
        let anchor = self.shared.is_trusted(uid);
        let grant = SlotGrant { slot, has_v4: false, has_v6: false, has_anchor: anchor };
        Ok(Outcome::with(Response::Slot(grant), Attach { anchor, ..Attach::default() }))
    }

    pub(super) fn adopt(&mut self, now: Instant, anchor: &OwnedFd, host: &mut impl Host) -> Result<(), Refusal> {
        let adopted = host.adopt_pool(anchor)?;
        self.shared.slots = SlotTable::restore(now, adopted.slots, &adopted.saved.slots);
        self.ledgers.restore(adopted.saved.left);
        self.peers.expect(self.shared.slots.waiting());
        let events = self.shared.devices.restore(adopted.saved.next_device, adopted.saved.devices);
        self.shared.sessions.broadcast(&events);
        self.shared.phase = Phase::Grace { until: now + RECOVERY_GRACE };
        self.refresh(now);
        Ok(())
    }
}

fn lost() -> Refusal {
    refuse(
        ENODEV,
        "the weft daemon died and the sockets it kept for this process could not be taken over by the next: the \
         devices that this process had open are gone, open them again",
    )
}
