//! Queries for groups, and for their members if the request is trusted.

use weft_wire::mad::sa::{JoinState, McMemberRecord};

use super::{carries_fit, exact, properties_fit};
use crate::multicast::{Group, Member, guid_of};
use crate::sa::Administrator;
use crate::sa::answer::{Answer, Outcome};
use crate::sa::pkeys;
use crate::sa::question::Question;

impl Administrator {
    /// Answers Get and GetTable.
    pub(super) fn query_groups(&self, question: &Question<'_>, asked: &McMemberRecord, answer: &mut Answer) -> Outcome {
        if question.mask().contains(McMemberRecord::MGID) {
            if let Some(group) = self.groups.get(&asked.mgid) {
                self.tell_group(question, asked, group, answer);
            }
            return Ok(());
        }
        for group in self.groups.iter() {
            self.tell_group(question, asked, group, answer);
            if !answer.wants_more() {
                break;
            }
        }
        Ok(())
    }

    fn tell_group(&self, question: &Question<'_>, asked: &McMemberRecord, group: &Group, answer: &mut Answer) {
        let (mask, about) = (question.mask(), &group.record);
        let names = |component| mask.contains(component);
        let Some(requester) = self.index.entry(question.requester) else { return };
        if names(McMemberRecord::MLID) && asked.mlid != about.mlid
            || !pkeys::has(self.index.pkeys(requester), about.pkey)
            || !properties_fit(about, asked, mask)
            || names(McMemberRecord::PROXY_JOIN) && asked.proxy_join
            || !carries_fit(about, asked, mask)
        {
            return;
        }
        let in_state = |scope: u8, state: JoinState| {
            (!names(McMemberRecord::SCOPE) || scope == asked.scope)
                && (!names(McMemberRecord::JOIN_STATE) || state == asked.join_state)
        };
        let told = |member: &Member| McMemberRecord {
            port_gid: member.gid,
            join_state: member.join_state,
            proxy_join: member.proxy,
            ..*about
        };
        let shown = |record: McMemberRecord| match question.trusted {
            true => exact(record),
            // Only requests with the SM_Key may see a group's members (IBA 15.4.1.2).
            false => {
                exact(McMemberRecord { port_gid: [0; 16], join_state: JoinState::empty(), proxy_join: false, ..record })
            }
        };
        if names(McMemberRecord::PORT_GID) {
            let member = group.member(guid_of(&asked.port_gid));
            if let Some(member) = member.filter(|member| in_state(about.scope, member.join_state)) {
                answer.push(&shown(told(member)));
            }
        } else if question.trusted {
            let members = group.members.values().filter(|member| in_state(about.scope, member.join_state));
            for member in members {
                if !answer.push(&shown(told(member))) {
                    break;
                }
            }
        // A group shows its creator's join state, and only full members create groups.
        } else if in_state(about.scope, JoinState::FULL_MEMBER) {
            answer.push(&shown(*about));
        }
    }
}
