//! InformInfo (IBA 13.4.8.3) and InformInfoRecord (15.2.5.12): subscriptions to notices.

use weft_wire::mad::notice::{InformInfo, TrapNumber};
use weft_wire::mad::sa::InformInfoRecord;

use super::answer::{Answer, Outcome, Refusal};
use super::limits::{SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_PER_LID_MAX};
use super::question::Question;
use super::subscription::{EVERY_LID, Subscription};
use super::{Administrator, Change};
use crate::multicast::guid_of;

impl Administrator {
    /// Answers InformInfo: subscribes or unsubscribes.
    pub(super) fn inform_info(&mut self, question: &Question<'_>, answer: &mut Answer) -> Outcome {
        let asked: InformInfo = question.record()?;
        let security = (TrapNumber::BAD_MKEY.0..=TrapNumber::BAD_PKEY_SWITCH.0).contains(&asked.trap_number.0);
        if asked.subscribe > 1 || !question.trusted && asked.is_generic != 0 && security {
            return Err(Refusal::INVALID);
        }
        let requester = *self.index.entry(question.requester).ok_or(Refusal::INVALID)?;
        let found = self.subscriptions.iter().find(|(_, own)| own.is(question.from, &asked)).map(|(key, _)| *key);
        if asked.subscribe == 0 {
            let key = found.ok_or(Refusal::INVALID)?;
            self.subscriptions.remove(&key);
            self.changes.insert(Change::Cache);
            answer.push(&asked);
            return Ok(());
        }
        self.may_hear(question, &asked)?;
        let mut info = asked;
        info.qpn = question.from.qpn;
        let record = InformInfoRecord { subscriber_gid: requester.gid(), subscriber_enum: 0, inform_info: info };
        match found {
            Some(key) => {
                self.subscriptions.insert(key, Subscription { record, to: *question.from, lost: 0 });
            }
            None => self.subscribe(Subscription { record, to: *question.from, lost: 0 })?,
        }
        answer.push(&asked);
        Ok(())
    }

    /// Adds a subscription.
    pub(super) fn subscribe(&mut self, subscription: Subscription) -> Outcome {
        let lid = subscription.to.lid;
        let own = self.subscriptions.values().filter(|own| own.to.lid == lid).take(SUBSCRIPTIONS_PER_LID_MAX).count();
        if self.subscriptions.len() >= SUBSCRIPTIONS_MAX || own >= SUBSCRIPTIONS_PER_LID_MAX {
            return Err(Refusal::NO_RESOURCES);
        }
        self.last_subscription += 1;
        self.subscriptions.insert(self.last_subscription, subscription);
        self.changes.insert(Change::Cache);
        Ok(())
    }

    /// Whether the requester may receive notices from the sources it names (IBA o13-14.1.1).
    fn may_hear(&mut self, question: &Question<'_>, asked: &InformInfo) -> Outcome {
        if asked.gid != [0; 16] {
            let (source, _) = self.index.at_guid(guid_of(&asked.gid)).ok_or(Refusal::INVALID)?;
            let known = self.index.share(source, question.requester);
            return if known { Ok(()) } else { Err(Refusal::INVALID) };
        }
        if asked.lid_range_begin == EVERY_LID {
            return Ok(());
        }
        let first = asked.lid_range_begin;
        let last = if asked.lid_range_end == 0 { first } else { asked.lid_range_end };
        let top = self.index.lid_top();
        if first > top {
            return Err(Refusal::INVALID);
        }
        for lid in first..=last.min(top) {
            let Some((source, _)) = self.index.at_lid(lid) else { continue };
            if !self.index.share(source, question.requester) {
                return Err(Refusal::INVALID);
            }
        }
        Ok(())
    }

    /// Answers InformInfoRecord.
    pub(super) fn inform_info_records(&mut self, question: &Question<'_>, answer: &mut Answer) -> Outcome {
        let asked: InformInfoRecord = question.record()?;
        let mask = question.mask();
        for subscription in self.subscriptions.values().rev() {
            let mut record = subscription.record;
            let is = |component, same: bool| !mask.contains(component) || same;
            let subscriber = self.index.at_guid(guid_of(&record.subscriber_gid)).map(|(place, _)| place);
            if !is(InformInfoRecord::SUBSCRIBER_GID, record.subscriber_gid == asked.subscriber_gid)
                || !is(InformInfoRecord::SUBSCRIBER_ENUM, record.subscriber_enum == asked.subscriber_enum)
                || !subscriber.is_some_and(|subscriber| self.index.share(question.requester, subscriber))
            {
                continue;
            }
            if !question.trusted {
                record.inform_info.qpn = 0;
            }
            if !answer.push(&record) {
                break;
            }
        }
        Ok(())
    }
}
