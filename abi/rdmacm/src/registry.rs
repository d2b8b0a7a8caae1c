//! The registry of identifiers and memberships, by the cookies in events. A cookie is never reused: an event under way
//! when its identifier was destroyed finds no entry, and is dropped.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_abi_types::rdma_event_channel;

use crate::group::Group;
use crate::id::Id;

/// An identifier in the registry.
#[derive(Clone, Copy)]
pub(crate) struct Entry(*const Id);

// SAFETY: the lock of an identifier guards all of its state that the program must not touch.
unsafe impl Send for Entry {}

struct Registry {
    ids: BTreeMap<u64, Entry>,
    groups: BTreeMap<u64, Arc<Group>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { ids: BTreeMap::new(), groups: BTreeMap::new() });
static NEXT_COOKIE: AtomicU64 = AtomicU64::new(1);

/// Returns a cookie that was never used before.
pub(crate) fn cookie() -> u64 {
    NEXT_COOKIE.fetch_add(1, Ordering::Relaxed)
}

/// Adds an identifier, so that events find it.
pub(crate) fn insert(cookie: u64, id: *const Id) {
    REGISTRY.lock().ids.insert(cookie, Entry(id));
}

/// Removes an identifier and its memberships, so that no event finds them.
pub(crate) fn remove(cookie: u64) {
    let mut registry = REGISTRY.lock();
    if registry.ids.remove(&cookie).is_some() {
        registry.groups.retain(|_, group| group.owner != cookie);
    }
}

/// Returns the identifier of a cookie and counts an event, which keeps the identifier until it is acknowledged.
pub(crate) fn claim<'a>(cookie: u64) -> Option<&'a Id> {
    let registry = REGISTRY.lock();
    let Entry(id) = *registry.ids.get(&cookie)?;
    // SAFETY: identifiers leave the registry before they are freed, and wait for events counted until then.
    let id = unsafe { &*id };
    id.state.lock().events_reported += 1;
    Some(id)
}

/// Adds a membership, so that events find it.
pub(crate) fn insert_group(cookie: u64, group: Arc<Group>) {
    REGISTRY.lock().groups.insert(cookie, group);
}

/// Removes a membership, so that no event finds it.
pub(crate) fn remove_group(cookie: u64) {
    REGISTRY.lock().groups.remove(&cookie);
}

/// Returns the membership of a cookie; counts an event on it and on its identifier.
pub(crate) fn claim_group<'a>(cookie: u64) -> Option<(Arc<Group>, &'a Id)> {
    let registry = REGISTRY.lock();
    let group = registry.groups.get(&cookie)?.clone();
    let Entry(id) = *registry.ids.get(&group.owner)?;
    // SAFETY: as in `claim`.
    let id = unsafe { &*id };
    let mut state = id.state.lock();
    state.events_reported += 1;
    group.count_report();
    drop(state);
    Some((group, id))
}

/// Returns, after the daemon's end, an identifier on the channel without a DEVICE_REMOVAL yet, and counts an event on
/// it.
pub(crate) fn claim_orphan<'a>(channel: *mut rdma_event_channel) -> Option<&'a Id> {
    let registry = REGISTRY.lock();
    registry.ids.values().find_map(|Entry(id)| {
        // SAFETY: as in `claim`.
        let id = unsafe { &**id };
        let mut state = id.state.lock();
        if state.orphaned || id.channel() != channel {
            return None;
        }
        state.orphaned = true;
        state.events_reported += 1;
        Some(id)
    })
}
