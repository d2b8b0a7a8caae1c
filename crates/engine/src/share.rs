//! Page sharing: registered memory that peers of the same host may copy into and out of by themselves.
//!
//! From the first time that a queue pair takes the way within the host ([`Engine::share_all`]), the whole pages of
//! registered regions lie in one file, the arena, which peers map; a deregistered page is an ordinary private one again.
//! What memory that is, how it is done under a running program, and what the program may notice, says
//! [`weft_sys::share`]; which pages are registered how often, [`registry`]; whether it is done at all, [`Policy`]; how much
//! of it, [`thrift`].

mod policy;
mod registry;
mod thrift;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use weft_sys::share::{Arena, Extent, Sharer, resident_bytes};
use weft_verbs::{Instant, MrId};

pub use self::policy::Policy;
use self::registry::{Pages, Registry};
use self::thrift::Thrift;
use crate::clock;
use crate::engine::Engine;
use crate::trace::{self, Kind};

/// What is shared, and what would be.
#[derive(Debug, Default)]
pub struct Sharing(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    policy: Policy,
    registry: Registry,
    regions: BTreeMap<MrId, Region>,
    /// From [`Engine::share_all`] on.
    sharer: Option<Sharer>,
    started: bool,
    thrift: Thrift,
    /// The file for the arena, until then.
    file: Option<OwnedFd>,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    addr: u64,
    len: u64,
    /// Never shared: its pages may come and go.
    on_demand: bool,
}

/// The pages of this process; the engine stands still while they change places.
struct Own<'a> {
    sharer: &'a mut Sharer,
    thrift: &'a mut Thrift,
    /// Share whatever it costs.
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
        let shared = self.sharer.share(addr, allowed, engine.own_threads(), &mut |work| engine.still(work));
        let bytes = shared.iter().map(|extent| extent.len).sum();
        let now = clock::now();
        self.thrift.spend(bytes, resident_bytes(), now);
        self.end(now, "share", addr, bytes);
        shared
    }

    fn unshare(&mut self, extents: &[Extent]) {
        let engine = self.engine;
        self.sharer.unshare(extents, engine.own_threads(), &mut |work| engine.still(work));
        let bytes = extents.iter().map(|extent| extent.len).sum();
        let addr = extents.first().map_or(0, |extent| extent.addr);
        self.end(clock::now(), "restore", addr, bytes);
    }
}

impl Own<'_> {
    /// How much of a region may be shared: whole pages of its beginning.
    fn allowed(&mut self, now: Instant, len: u64) -> u64 {
        let allowance = self.thrift.allowance_bytes(now);
        if len <= allowance { len } else { allowance - allowance % Self::page() }
    }

    fn end(&mut self, now: Instant, what: &str, addr: u64, bytes: u64) {
        let copied = self.sharer.take_copied();
        if trace::on() {
            trace::note(now, Kind::Share, None, format_args!("{what} addr={addr:#x} bytes={bytes} copied={copied}"));
        }
        if let Some(why) = self.sharer.take_refusal() {
            self.tell(now, &why);
        }
    }

    /// Who insists on sharing is told of what cannot be; others did not ask, and look if they care.
    fn tell(&self, now: Instant, why: &str) {
        if self.lavish {
            crate::log::note(why);
        }
        if trace::on() {
            trace::note(now, Kind::Share, None, format_args!("{why}"));
        }
    }
}

impl Sharing {
    /// What the environment asks for; before the first region.
    pub(crate) fn set_policy(&self, policy: Policy) {
        self.0.lock().policy = policy;
    }

    /// The file that peers have, for what will be shared.
    pub(crate) fn set_file(&self, file: OwnedFd) {
        self.0.lock().file = Some(file);
    }
}

impl Engine {
    /// Share what is registered now, and what will be from now on as soon as it is. For the first queue pair that takes
    /// the way within the host, before its peer, or any other, is told of a region: what is known to be private stays so
    /// as long as it is registered. Not to be called under the session's lock or the pump's. Answers whether something may
    /// be shared now that was not before.
    pub(crate) fn share_all(&self) -> bool {
        let mut state = self.sharing.0.lock();
        let state = &mut *state;
        if std::mem::replace(&mut state.started, true) || state.policy == Policy::Off || self.is_dead() {
            return false;
        }
        // Without a file that peers have too, sharing would be for nothing.
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

    /// The file that shared pages lie in, for peers: a descriptor of its own. `None` if nothing is ever shared, or not
    /// yet.
    pub fn arena(&self) -> Option<OwnedFd> {
        let state = self.sharing.0.lock();
        state.sharer.as_ref().and_then(|sharer| sharer.arena().try_clone_to_owned().ok())
    }

    /// The longest part of a registered range that is shared in one piece.
    pub fn extent(&self, addr: u64, len: u64) -> Option<Extent> {
        self.sharing.0.lock().registry.extent(addr, len)
    }

    /// Bytes that are shared now.
    pub fn shared_bytes(&self) -> u64 {
        self.sharing.0.lock().registry.shared().iter().map(|extent| extent.len).sum()
    }

    /// A region is being registered: before anybody knows its keys.
    pub(crate) fn share_region(&self, addr: u64, len: u64, on_demand: bool) {
        let mut state = self.sharing.0.lock();
        let (registry, mut own) = state.parts(self);
        registry.insert(addr, len, on_demand, own.as_mut());
    }

    /// It was; answers the range that it had before.
    pub(crate) fn bind_region(&self, id: MrId, addr: u64, len: u64, on_demand: bool) -> Option<(u64, u64)> {
        let was = self.sharing.0.lock().regions.insert(id, Region { addr, len, on_demand });
        was.map(|region| (region.addr, region.len))
    }

    /// It was not, or is no longer, and nobody is copying into it.
    pub(crate) fn unshare_region(&self, addr: u64, len: u64) {
        let mut state = self.sharing.0.lock();
        let (registry, mut own) = state.parts(self);
        registry.remove(addr, len, own.as_mut());
    }

    /// Whether a region's pages may come and go.
    pub(crate) fn is_on_demand(&self, id: MrId) -> bool {
        self.sharing.0.lock().regions.get(&id).is_some_and(|region| region.on_demand)
    }

    /// The range that a region had; it is forgotten.
    pub(crate) fn unbind_region(&self, id: MrId) -> Option<(u64, u64)> {
        self.sharing.0.lock().regions.remove(&id).map(|region| (region.addr, region.len))
    }
}

impl State {
    /// What is registered, and who shares it, if anybody does.
    fn parts<'a>(&'a mut self, engine: &'a Engine) -> (&'a mut Registry, Option<Own<'a>>) {
        let State { registry, sharer, thrift, policy, .. } = self;
        let lavish = *policy == Policy::On;
        (registry, sharer.as_mut().map(|sharer| Own { sharer, thrift, lavish, engine }))
    }
}
