//! Listeners by service id.

use std::collections::BTreeMap;

use super::error::CmError;
use super::limits::{LISTENERS_MAX, MASKED_LISTENERS_MAX};
use super::param::ListenId;

/// One listener.
#[derive(Clone, Copy, Debug)]
struct Listener {
    service_id: u64,
    mask: u64,
    /// Number of `listen` calls that share it.
    shares: u32,
}

impl Listener {
    fn overlaps(&self, service_id: u64, mask: u64) -> bool {
        (self.service_id ^ service_id) & self.mask & mask == 0
    }
}

/// All listeners: exact ones are found by service id, those with a mask by linear search.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: BTreeMap<ListenId, Listener>,
    exact: BTreeMap<u64, ListenId>,
    masked: Vec<ListenId>,
    last: u64,
}

impl Listeners {
    /// Adds or shares a listener for a service; see [`super::Cm::listen`].
    pub fn add(&mut self, service_id: u64, mask: u64) -> Result<ListenId, CmError> {
        let service_id = service_id & mask;
        if let Some(id) = self.overlapping(service_id, mask) {
            let found = self.all.get_mut(&id).ok_or(CmError::NoSuchConnection)?;
            if (found.service_id, found.mask) != (service_id, mask) {
                return Err(CmError::InUse(service_id));
            }
            found.shares = found.shares.checked_add(1).ok_or(CmError::TooMany("listeners"))?;
            return Ok(id);
        }
        if self.all.len() >= LISTENERS_MAX || (mask != u64::MAX && self.masked.len() >= MASKED_LISTENERS_MAX) {
            return Err(CmError::TooMany("listeners"));
        }
        self.last += 1;
        let id = ListenId(self.last);
        self.all.insert(id, Listener { service_id, mask, shares: 1 });
        if mask == u64::MAX {
            self.exact.insert(service_id, id);
        } else {
            self.masked.push(id);
        }
        Ok(id)
    }

    /// Releases one share of a listener.
    pub fn remove(&mut self, id: ListenId) -> Result<(), CmError> {
        let listener = self.all.get_mut(&id).ok_or(CmError::NoSuchConnection)?;
        listener.shares -= 1;
        if listener.shares == 0 {
            if self.exact.get(&listener.service_id) == Some(&id) {
                self.exact.remove(&listener.service_id);
            }
            self.masked.retain(|masked| *masked != id);
            self.all.remove(&id);
        }
        Ok(())
    }

    /// Returns the listener of a service.
    pub fn find(&self, service_id: u64) -> Option<ListenId> {
        self.overlapping(service_id, u64::MAX)
    }

    fn overlapping(&self, service_id: u64, mask: u64) -> Option<ListenId> {
        if mask != u64::MAX {
            let mut all = self.all.iter();
            return all.find(|(_, listener)| listener.overlaps(service_id, mask)).map(|(id, _)| *id);
        }
        let exact = self.exact.get(&service_id);
        let masked = || self.masked.iter().find(|id| self.all.get(id).is_some_and(|l| l.overlaps(service_id, mask)));
        exact.or_else(masked).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_shared_whole_or_not_at_all() {
        let mut listeners = Listeners::default();
        let exact = listeners.add(7, u64::MAX).unwrap();
        assert_eq!(listeners.add(7, u64::MAX), Ok(exact));
        assert_eq!(listeners.add(0, !0xff), Err(CmError::InUse(0)));
        let masked = listeners.add(0x1234, !0xff).unwrap();
        assert_eq!(listeners.add(0x12aa, u64::MAX), Err(CmError::InUse(0x12aa)));
        assert_eq!(listeners.find(0x12aa), Some(masked));
        assert_eq!(listeners.find(7), Some(exact));
        assert_eq!(listeners.find(8), None);
        listeners.remove(exact).unwrap();
        assert_eq!(listeners.find(7), Some(exact), "one share is left");
        listeners.remove(exact).unwrap();
        assert_eq!(listeners.find(7), None);
        assert_eq!(listeners.remove(exact), Err(CmError::NoSuchConnection));
        listeners.remove(masked).unwrap();
        assert_eq!(listeners.find(0x12aa), None);
    }

    #[test]
    fn there_is_an_end_to_masked_listeners() {
        let mut listeners = Listeners::default();
        for number in 0..MASKED_LISTENERS_MAX as u64 {
            listeners.add(number << 8, !0xff).unwrap();
        }
        assert_eq!(listeners.add(1 << 60, !0xff), Err(CmError::TooMany("listeners")));
        assert!(listeners.add(1 << 60, u64::MAX).is_ok());
    }
}
