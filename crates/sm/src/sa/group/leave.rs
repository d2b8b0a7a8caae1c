//! Leaving a multicast group, and the end of a group without members.

use weft_verbs::Instant;
use weft_wire::mad::notice::TrapNumber;
use weft_wire::mad::sa::{JoinState, McMemberRecord};

use super::exact;
use crate::multicast::{Group, Member, guid_of};
use crate::sa::answer::{Answer, Outcome, Refusal};
use crate::sa::question::Question;
use crate::sa::world::World;
use crate::sa::{Administrator, Change};

impl Administrator {
    /// Answers Delete (IBA o15-0.1.14).
    pub(super) fn leave(
        &mut self,
        now: Instant,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &McMemberRecord,
        answer: &mut Answer,
    ) -> Outcome {
        let gid = self.port_gid(world, asked)?;
        let group = self.groups.get(&asked.mgid).ok_or(Refusal::INVALID)?;
        let about = group.record;
        let member = *group.member(guid_of(&gid)).ok_or(Refusal::INVALID)?;
        let left = asked.join_state & JoinState::all();
        if left.is_empty() || !member.join_state.contains(left) {
            return Err(Refusal::INVALID);
        }
        self.may_change(question, &gid, &about)?;
        let rest = self.remove_member(now, world, &about, guid_of(&gid), left);
        answer.push(&exact(McMemberRecord { join_state: rest, ..*asked }));
        Ok(())
    }

    /// Removes join states of a member; returns the remaining ones. A member without join states leaves, and a group
    /// without members that keep it alive ends.
    pub(in crate::sa) fn remove_member(
        &mut self,
        now: Instant,
        world: &World<'_>,
        about: &McMemberRecord,
        guid: u64,
        left: JoinState,
    ) -> JoinState {
        let before = self.groups.get(&about.mgid).and_then(|group| group.member(guid)).copied();
        let Some(before) = before else { return JoinState::empty() };
        let rest = before.join_state - left;
        let member = Member { join_state: rest, ..before };
        if before.receives() != member.receives() || rest.is_empty() {
            self.changes.insert(Change::Multicast(about.mlid));
        }
        match rest.is_empty() {
            true => self.groups.take(&about.mgid, guid),
            false => self.groups.put(&about.mgid, member),
        }
        self.changes.insert(Change::Cache);
        let is_kept = self.groups.get(&about.mgid).is_some_and(Group::is_kept);
        if before.is_full() && !is_kept {
            // Subscribers must be in the group's partition: notify them while the group still exists.
            self.tell_of_group(now, world, TrapNumber::MULTICAST_GROUP_DELETED, about);
            self.end_group(about);
        }
        rest
    }

    /// Ends a group without members that keep it alive. A well-known group stays, empty.
    fn end_group(&mut self, about: &McMemberRecord) {
        if let Some(group) = self.groups.remove(&about.mgid)
            && group.well_known
        {
            self.groups.insert(Group { members: Default::default(), ..group });
        }
        self.changes.insert(Change::Multicast(about.mlid));
    }
}
