//! Registered services and the ends of their leases.

use std::collections::BTreeMap;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::sa::ServiceRecord;

use super::limits::{SERVICES_MAX, SERVICES_PER_PORT_MAX};

/// A lease without end.
pub(super) const FOR_GOOD: u32 = u32::MAX;
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
