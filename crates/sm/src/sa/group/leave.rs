//! How a port leaves a group, and what becomes of a group without members.

use weft_verbs::Instant;
use weft_wire::mad::notice::TrapNumber;
use weft_wire::mad::sa::{JoinState, McMemberRecord};

use super::exact;
use crate::multicast::{guid_of, order};
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

    /// Takes states of a member away; what it has left. Without any it is a member no more, and without members that
    /// keep it alive the group ends.
    pub(in crate::sa) fn remove_member(
        &mut self,
        now: Instant,
        world: &World<'_>,
        about: &McMemberRecord,
        guid: u64,
        left: JoinState,
    ) -> JoinState {
        let Some(group) = self.groups.get_mut(&about.mgid) else { return JoinState::empty() };
        let Some(member) = group.members.get_mut(&order(guid)) else { return JoinState::empty() };
        let (was_full, received) = (member.is_full(), member.receives());
        member.join_state -= left;
        let rest = member.join_state;
        if received != member.receives() || rest.is_empty() {
            self.changes.insert(Change::Multicast(about.mlid));
        }
        if rest.is_empty() {
            group.members.remove(&order(guid));
        }
        self.changes.insert(Change::Cache);
        if was_full && group.full_members() == 0 {
            // Whoever is told must be in its partition: so tell before it is gone.
            self.tell_of_group(now, world, TrapNumber::MULTICAST_GROUP_DELETED, about);
            self.end_group(about);
        }
        rest
    }

    /// Nobody keeps a group alive any more. A well known one stays, empty.
    fn end_group(&mut self, about: &McMemberRecord) {
        let Some(group) = self.groups.get_mut(&about.mgid) else { return };
        group.members.clear();
        if !group.well_known {
            self.groups.remove(&about.mgid);
        }
        self.changes.insert(Change::Multicast(about.mlid));
    }
}
