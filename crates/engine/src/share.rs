//! Page sharing: registered memory that peers of the same host copy into and out of directly.
//!
//! From the first queue pair on that connects within the host ([`Engine::share_all`]), the whole pages of registered
//! regions lie in one file, the arena, which peers map. A page returns to an ordinary private one when it is
//! deregistered. [`weft_sys::share`] describes which memory that is, how sharing works under a running program, and
//! what the program may notice; [`registry`] tracks which pages are registered how often; [`Policy`] decides whether to
//! share at all, and [`budget`] how much.

mod budget;
mod policy;
mod registry;
mod sharing;

use std::os::fd::OwnedFd;

use weft_sys::share::{Arena, Extent, Sharer, resident_bytes};
use weft_verbs::{Instant, MrId};

use self::budget::SharingBudget;
pub use self::policy::Policy;
use self::registry::{Pages, Registry};
pub use self::sharing::Sharing;
use self::sharing::{Region, State};
use crate::clock;
use crate::engine::Engine;
use crate::trace::{self, Kind};

/// The pages of this process; the engine stands still while they move.
struct Own<'a> {
    sharer: &'a mut Sharer,
    budget: &'a mut SharingBudget,
    /// Share regardless of the cost.
    lavish: bool,
    engine: &'a Engine,
}

impl Pages for Own<'_> {
    fn page() -> u64 {
        weft_sys::share::page_size()
    }

    fn share(&mut self, addr: u64, len: u64) -> Vec<Extent> {
        let start = clock::now();
        let allowed = if self.lavish { len } else { self.allowed(start, len) };
        if allowed < len {
            let private = len - allowed;
            self.tell(
                start,
                &format!("{private} of {len} bytes at {addr:#x} stay private: the budget of sharing is spent"),
            );
        }
        if allowed == 0 {
            return Vec::new();
        }
        let engine = self.engine;
        let shared = self.sharer.share(addr, allowed, engine.own_threads(), &mut |work| engine.with_quiesced(work));
        let bytes = shared.iter().map(|extent| extent.len).sum();
        let (now, copied) = (clock::now(), self.sharer.take_copied());
        self.budget.spend(bytes, copied, resident_bytes(), now);
        self.end(now, "share", addr, bytes, copied);
        shared
    }

    fn unshare(&mut self, extents: &[Extent]) {
        let engine = self.engine;
        self.sharer.unshare(extents, engine.own_threads(), &mut |work| engine.with_quiesced(work));
        let bytes = extents.iter().map(|extent| extent.len).sum();
        let addr = extents.first().map_or(0, |extent| extent.addr);
        let copied = self.sharer.take_copied();
        self.end(clock::now(), "restore", addr, bytes, copied);
    }
}

impl Own<'_> {
    /// Returns how much of a region may be shared: whole pages from its beginning.
    fn allowed(&mut self, now: Instant, len: u64) -> u64 {
        let allowance = self.budget.allowance_bytes(now);
        if len <= allowance { len } else { allowance - allowance % Self::page() }
    }

    fn end(&mut self, now: Instant, what: &str, addr: u64, bytes: u64, copied: u64) {
        if trace::on() {
            trace::note(now, Kind::Share, None, format_args!("{what} addr={addr:#x} bytes={bytes} copied={copied}"));
        }
        if let Some(why) = self.sharer.take_refusal() {
            self.tell(now, &why);
        }
    }

    /// Logs a failure for a user who insists on sharing; others did not ask for it, and can check.
    fn tell(&self, now: Instant, why: &str) {
        if self.lavish {
            crate::log::note(why);
        }
        if trace::on() {
            trace::note(now, Kind::Share, None, format_args!("{why}"));
        }
    }
}

impl Engine {
    /// Shares all registered regions, and later ones as soon as they are registered. Called for the first queue pair
    /// that connects within the host, before its peer or any other learns of a region: a region known as private stays
    /// private as long as it is registered. Must not be called under the session's lock or the pump's. Returns whether
    /// something may be shared now that was not before.
    pub(crate) fn share_all(&self) -> bool {
        let mut state = self.sharing.0.lock();
        let state = &mut *state;
        if std::mem::replace(&mut state.started, true) || state.policy == Policy::Off || self.is_dead() {
            return false;
        }
        // Sharing is useless without a file that peers have too.
        let Some(file) = state.file.take() else { return false };
        match Arena::of(file.into()).and_then(|arena| Sharer::with_arena(state.policy == Policy::Auto, arena)) {
            Ok(sharer) => state.sharer = Some(sharer),
            Err(error) => {
                crate::log::note(&format!("pages are not shared: {error}"));
                return false;
            }
        }
        let regions: Vec<_> = state.regions.values().copied().collect();
        for region in regions.into_iter().filter(|region| !region.on_demand) {
            let (registry, own) = state.parts(self);
            if let Some(mut own) = own {
                registry.share_late(region.addr, region.len, &mut own);
            }
        }
        true
    }

    /// Returns a new descriptor of the file with the shared pages, for peers. `None` if nothing is ever shared, or not
    /// yet.
    pub fn arena(&self) -> Option<OwnedFd> {
        let state = self.sharing.0.lock();
        state.sharer.as_ref().and_then(|sharer| sharer.arena().try_clone_to_owned().ok())
    }

    /// Returns the longest part of a registered range that is shared in one piece.
    pub fn extent(&self, addr: u64, len: u64) -> Option<Extent> {
        self.sharing.0.lock().registry.extent(addr, len)
    }

    /// Returns the number of shared bytes.
    pub fn shared_bytes(&self) -> u64 {
        self.sharing.0.lock().registry.shared().iter().map(|extent| extent.len).sum()
    }

    /// Shares a region during its registration, before anyone knows its keys.
    pub(crate) fn share_region(&self, addr: u64, len: u64, on_demand: bool) {
        let mut state = self.sharing.0.lock();
        let (registry, mut own) = state.parts(self);
        registry.insert(addr, len, on_demand, own.as_mut());
    }

    /// Records a registered region; returns its range before.
    pub(crate) fn bind_region(&self, id: MrId, addr: u64, len: u64, on_demand: bool) -> Option<(u64, u64)> {
        let was = self.sharing.0.lock().regions.insert(id, Region { addr, len, on_demand });
        was.map(|region| (region.addr, region.len))
    }

    /// Makes private a region that could not be registered, or that is deregistered and has no copies in progress.
    pub(crate) fn unshare_region(&self, addr: u64, len: u64) {
        let mut state = self.sharing.0.lock();
        let (registry, mut own) = state.parts(self);
        registry.remove(addr, len, own.as_mut());
    }

    /// Whether a region's pages may be unmapped and mapped again.
    pub(crate) fn is_on_demand(&self, id: MrId) -> bool {
        self.sharing.0.lock().regions.get(&id).is_some_and(|region| region.on_demand)
    }

    /// Forgets a region; returns its range.
    pub(crate) fn unbind_region(&self, id: MrId) -> Option<(u64, u64)> {
        self.sharing.0.lock().regions.remove(&id).map(|region| (region.addr, region.len))
    }
}

impl State {
    /// Returns the registry, and the process's pages if they are shared.
    fn parts<'a>(&'a mut self, engine: &'a Engine) -> (&'a mut Registry, Option<Own<'a>>) {
        let State { registry, sharer, budget, policy, .. } = self;
        let lavish = *policy == Policy::On;
        (registry, sharer.as_mut().map(|sharer| Own { sharer, budget, lavish, engine }))
    }
}
