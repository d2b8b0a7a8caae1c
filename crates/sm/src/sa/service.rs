//! ServiceRecord (IBA 15.2.5.14): services that ports register, with a lease in seconds or without end.

use std::collections::BTreeMap;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::Method;
use weft_wire::mad::sa::{Record, ServiceRecord};

use super::answer::{Answer, Outcome, Refusal};
use super::limits::{SERVICES_MAX, SERVICES_PER_PORT_MAX};
use super::pkeys;
use super::question::Question;
use super::{Administrator, Change};
use crate::multicast::guid_of;

/// A lease without end.
pub(super) const FOR_GOOD: u32 = u32::MAX;
/// P_Key in the response if the request named none.
const DEFAULT_PKEY: u16 = 0xffff;

/// Key of a service: its ID, port GID and P_Key.
type Key = (u64, [u8; 16], u16);

/// A registered service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Service {
    pub record: ServiceRecord,
    /// End of its lease; `None` for a lease without end.
    pub until: Option<Instant>,
    /// GUID of the port that registered it.
    pub by: u64,
}

/// Services and the ends of their leases.
#[derive(Clone, Debug, Default)]
pub(super) struct Services {
    by_key: BTreeMap<Key, Service>,
    ends: std::collections::BTreeSet<(Instant, Key)>,
    /// Number of services by the GUID of the port that registered them.
    registered: BTreeMap<u64, usize>,
}

fn key(record: &ServiceRecord) -> Key {
    (record.service_id, record.service_gid, record.service_pkey)
}

impl Services {
    /// Adds or replaces a service that the port `by` registers. Returns false if the overall limit or the port's limit
    /// is reached.
    pub fn insert(&mut self, now: Instant, record: ServiceRecord, by: u64) -> bool {
        let lease = record.service_lease;
        let until = (lease != FOR_GOOD).then(|| now + Duration::from_secs(u64::from(lease.max(1))));
        let own = self.registered.get(&by).copied().unwrap_or(0);
        let full = self.by_key.len() >= SERVICES_MAX || own >= SERVICES_PER_PORT_MAX;
        let before = self.by_key.get(&key(&record)).map(|service| service.by);
        if full && before.is_none() {
            return false;
        }
        self.remove(&record);
        if let Some(until) = until {
            self.ends.insert((until, key(&record)));
        }
        let by = before.unwrap_or(by);
        *self.registered.entry(by).or_default() += 1;
        self.by_key.insert(key(&record), Service { record, until, by });
        true
    }

    /// Removes all services and returns whether there were any.
    pub fn clear(&mut self) -> bool {
        self.ends.clear();
        self.registered.clear();
        !std::mem::take(&mut self.by_key).is_empty()
    }

    /// Removes a service.
    pub fn remove(&mut self, record: &ServiceRecord) -> Option<ServiceRecord> {
        let service = self.take(&key(record))?;
        if let Some(until) = service.until {
            self.ends.remove(&(until, key(record)));
        }
        Some(service.record)
    }

    fn take(&mut self, key: &Key) -> Option<Service> {
        let service = self.by_key.remove(key)?;
        if let Some(count) = self.registered.get_mut(&service.by) {
            *count -= 1;
            if *count == 0 {
                self.registered.remove(&service.by);
            }
        }
        Some(service)
    }

    /// Whether the service is registered.
    pub fn contains(&self, record: &ServiceRecord) -> bool {
        self.by_key.contains_key(&key(record))
    }

    /// Every service.
    pub fn iter(&self) -> impl Iterator<Item = &Service> {
        self.by_key.values()
    }

    /// Removes services whose lease has ended and returns whether there were any.
    pub fn expire(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((until, key)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            self.ends.remove(&(until, key));
            self.take(&key);
            any = true;
        }
        any
    }

    /// Time when the next lease ends.
    pub fn next_end(&self) -> Option<Instant> {
        self.ends.first().map(|(until, _)| *until)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_end_and_are_renewed() {
        let second = |seconds: u64| Instant(seconds * 1_000_000_000);
        let mut services = Services::default();
        let short = ServiceRecord { service_id: 1, service_lease: 10, ..ServiceRecord::default() };
        let long = ServiceRecord { service_id: 2, service_lease: FOR_GOOD, ..ServiceRecord::default() };
        assert!(services.insert(second(0), short, 1) && services.insert(second(0), long, 1));
        assert_eq!((services.next_end(), services.expire(second(9))), (Some(second(10)), false));
        assert!(services.insert(second(9), short, 1));
        assert!(!services.expire(second(18)) && services.contains(&short));
        assert!(services.expire(second(19)) && !services.contains(&short) && services.contains(&long));
        assert_eq!((services.next_end(), services.remove(&long)), (None, Some(long)));
    }
    #[test]
    fn one_port_does_not_fill_the_table() {
        let mut services = Services::default();
        let service = |service_id| ServiceRecord { service_id, service_lease: 10, ..ServiceRecord::default() };
        let most = SERVICES_PER_PORT_MAX as u64;
        assert!((0..most).all(|id| services.insert(Instant(0), service(id), 7)));
        assert!(!services.insert(Instant(0), service(most), 7), "it has its share");
        assert!(services.insert(Instant(0), service(3), 7), "what it has it may renew");
        assert!(services.insert(Instant(0), service(most), 8), "others have theirs");
        assert!(services.remove(&service(5)).is_some() && services.insert(Instant(0), service(most + 1), 7));
        assert!(services.expire(Instant(20_000_000_000)) && services.registered.is_empty());
    }
}
