//! Joining a multicast group.

use weft_verbs::Instant;
use weft_wire::mad::notice::TrapNumber;
use weft_wire::mad::sa::{JoinState, McMemberRecord};

use super::{CREATE, carries_fit, exact, properties_fit};
use crate::multicast::{Member, guid_of};
use crate::sa::answer::{Answer, Outcome, Refusal};
use crate::sa::facts::rate;
use crate::sa::index::{Entry, rank};
use crate::sa::limits::{MEMBERS_MAX, MEMBERSHIPS_PER_PORT_MAX};
use crate::sa::pkeys;
use crate::sa::question::Question;
use crate::sa::world::World;
use crate::sa::{Administrator, Change};

/// Join states that keep a group alive.
const FULL: JoinState = JoinState::FULL_MEMBER.union(JoinState::SEND_ONLY_FULL_MEMBER);

impl Administrator {
    /// Answers Set: a port joins a group; if the group does not exist, it is created.
    pub(super) fn join(
        &mut self,
        now: Instant,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &McMemberRecord,
        answer: &mut Answer,
    ) -> Outcome {
        let gid = self.port_gid(world, asked)?;
        let (place, port) = self.index.at_guid(guid_of(&gid)).ok_or(Refusal::INVALID)?;
        let port = *port;
        let proxy = place != question.requester;
        if proxy && !self.index.share(place, question.requester)
            || question.mask().contains(McMemberRecord::PKEY) && asked.pkey & 0x7fff == 0
        {
            return Err(Refusal::INVALID);
        }
        let (group, new) = match self.groups.get(&asked.mgid) {
            Some(group) => {
                let validated = world.settings.mcgroup_join_validation;
                if validated && !properties_fit(&group.record, asked, question.mask()) {
                    return Err(Refusal::INVALID);
                }
                (group.record, false)
            }
            None => (self.new_group(world, question, asked, &port)?, true),
        };
        self.may_join(world, question, asked, &port, &group)?;
        if !new {
            self.may_change(question, &gid, &group)?;
        }
        let by = self.index.entry(question.requester).ok_or(Refusal::Silent)?.guid;
        let joins = Member { gid, port_guid: port.guid, join_state: asked.join_state, proxy, by };
        let joined = self.add_member(now, world, group, joins)?;
        answer.push(&exact(McMemberRecord {
            port_gid: asked.port_gid,
            join_state: joined.join_state,
            proxy_join: asked.proxy_join,
            ..group
        }));
        Ok(())
    }

    /// The record of a group that this join creates.
    fn new_group(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &McMemberRecord,
        port: &Entry,
    ) -> Result<McMemberRecord, Refusal> {
        if !asked.join_state.intersects(FULL) {
            return Err(Refusal::INVALID);
        }
        if !question.mask().contains(CREATE) {
            return Err(Refusal::INSUFFICIENT);
        }
        let info = world.subnet.port(port.at).map(|port| port.info);
        self.created(world, asked, question.mask(), info.as_ref())
    }

    /// Checks that a port can join a group: it supports the group's MTU and rate and is in the group's partition.
    fn may_join(
        &self,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &McMemberRecord,
        port: &Entry,
        group: &McMemberRecord,
    ) -> Outcome {
        let info = world.subnet.port(port.at).ok_or(Refusal::INVALID)?.info;
        let able = info.neighbor_mtu >= group.mtu && rank(rate(&info)) >= rank(group.rate);
        let fit = carries_fit(group, asked, question.mask());
        if !able || !fit || asked.join_state.is_empty() || !pkeys::has(self.index.pkeys(port), group.pkey) {
            return Err(Refusal::INVALID);
        }
        Ok(())
    }

    /// Checks that the requester may change a membership (IBA o15-0.2.1): its own, or one that a proxy created, if the
    /// requester is in the group's partition.
    pub(super) fn may_change(&self, question: &Question<'_>, gid: &[u8; 16], group: &McMemberRecord) -> Outcome {
        let member = self.groups.get(&group.mgid).and_then(|group| group.member(guid_of(gid)));
        let requester = self.index.entry(question.requester).ok_or(Refusal::Silent)?;
        let allowed = match member {
            None => true,
            Some(member) if member.proxy => pkeys::has(self.index.pkeys(requester), group.pkey),
            Some(member) => member.port_guid == requester.guid,
        };
        if allowed { Ok(()) } else { Err(Refusal::INVALID) }
    }

    /// Adds a port to a group, which it creates if necessary.
    pub(in crate::sa) fn add_member(
        &mut self,
        now: Instant,
        world: &World<'_>,
        about: McMemberRecord,
        joins: Member,
    ) -> Result<Member, Refusal> {
        let before = self.groups.get(&about.mgid).and_then(|group| group.member(guid_of(&joins.gid))).copied();
        if before.is_none() && self.groups.asked_by(joins.by) >= MEMBERSHIPS_PER_PORT_MAX {
            return Err(Refusal::NO_RESOURCES);
        }
        if self.groups.get(&about.mgid).is_none() {
            self.insert_group(about, false)?;
        }
        let group = self.groups.get(&about.mgid).ok_or(Refusal::NO_RESOURCES)?;
        if before.is_none() && group.members.len() >= MEMBERS_MAX {
            return Err(Refusal::NO_RESOURCES);
        }
        let was_kept = group.is_kept();
        let join_state = joins.join_state & JoinState::all();
        let member = match before {
            Some(before) => Member { join_state: before.join_state | join_state, ..before },
            None => Member { join_state, ..joins },
        };
        self.groups.put(&about.mgid, member);
        let begins = !was_kept && member.is_full();
        if before.is_none_or(|before| before.receives() != member.receives()) {
            self.changes.insert(Change::Multicast(about.mlid));
        }
        self.changes.insert(Change::Cache);
        if begins {
            self.tell_of_group(now, world, TrapNumber::MULTICAST_GROUP_CREATED, &about);
        }
        Ok(member)
    }
}
