//! ServiceRecord (IBA 15.2.5.14): services that ports register, with a lease in seconds or without end.

use weft_verbs::Instant;
use weft_wire::mad::Method;
use weft_wire::mad::sa::{Record, ServiceRecord};

use super::answer::{Answer, Outcome, Refusal};
use super::pkeys;
use super::question::Question;
use super::services::FOR_GOOD;
use super::{Administrator, Change};
use crate::multicast::guid_of;

/// P_Key in the response if the request named none.
const DEFAULT_PKEY: u16 = 0xffff;

impl Administrator {
    /// Answers ServiceRecord.
    pub(super) fn service_records(&mut self, now: Instant, question: &Question<'_>, answer: &mut Answer) -> Outcome {
        let asked: ServiceRecord = question.record()?;
        match question.mad.header.method() {
            Method::SET => self.set_service(now, question, asked, answer),
            Method::DELETE => {
                self.may_register(question, &asked)?;
                let removed = self.services.remove(&asked).ok_or(Refusal::NO_RECORDS)?;
                self.changes.insert(Change::Cache);
                tell(question, removed, answer);
                Ok(())
            }
            _ => self.query_services(question, &asked, answer),
        }
    }

    /// Checks that the requester and the service's port are in the service's partition.
    fn may_register(&self, question: &Question<'_>, asked: &ServiceRecord) -> Outcome {
        let mask = question.mask();
        if !mask.contains(ServiceRecord::SERVICE_PKEY) {
            return Ok(());
        }
        let requester = self.index.entry(question.requester).ok_or(Refusal::INVALID)?;
        let mut allowed = pkeys::has(self.index.pkeys(requester), asked.service_pkey);
        if mask.contains(ServiceRecord::SERVICE_GID) && asked.service_gid[0] != 0xff {
            let port = self.index.at_guid(guid_of(&asked.service_gid)).ok_or(Refusal::INVALID)?.1;
            allowed &= pkeys::has(self.index.pkeys(port), asked.service_pkey);
        }
        if allowed { Ok(()) } else { Err(Refusal::INVALID) }
    }

    fn set_service(
        &mut self,
        now: Instant,
        question: &Question<'_>,
        mut asked: ServiceRecord,
        answer: &mut Answer,
    ) -> Outcome {
        self.may_register(question, &asked)?;
        let mask = question.mask();
        if !mask.contains(ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID) {
            return Err(Refusal::INVALID);
        }
        if !mask.contains(ServiceRecord::SERVICE_LEASE) {
            asked.service_lease = FOR_GOOD;
        }
        let by = self.index.entry(question.requester).ok_or(Refusal::Silent)?.guid;
        if !self.services.insert(now, asked, by) {
            return Err(Refusal::NO_RESOURCES);
        }
        self.changes.insert(Change::Cache);
        if !mask.contains(ServiceRecord::SERVICE_PKEY) {
            asked.service_pkey = DEFAULT_PKEY;
        }
        tell(question, asked, answer);
        Ok(())
    }

    fn query_services(&self, question: &Question<'_>, asked: &ServiceRecord, answer: &mut Answer) -> Outcome {
        let requester = self.index.entry(question.requester).ok_or(Refusal::Silent)?;
        let mask = question.mask().without(ServiceRecord::RESERVED1 | ServiceRecord::SERVICE_LEASE);
        let asked = asked.encode();
        for service in self.services.iter() {
            let record = service.record;
            let known = pkeys::has(self.index.pkeys(requester), record.service_pkey);
            if known && ServiceRecord::fits(mask, &asked, &record.encode()) && !tell(question, record, answer) {
                break;
            }
        }
        Ok(())
    }
}

/// Adds a service to the response; only a trusted request sees its ServiceKey.
fn tell(question: &Question<'_>, mut record: ServiceRecord, answer: &mut Answer) -> bool {
    if !question.trusted {
        record.service_key = [0; 16];
    }
    answer.push(&record)
}
