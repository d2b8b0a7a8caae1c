//! Regions of the process that are shared or may be, and the state of sharing.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use weft_sys::share::Sharer;
use weft_verbs::MrId;

use super::budget::SharingBudget;
use super::policy::Policy;
use super::registry::Registry;

/// Shared regions, and those that sharing would include.
#[derive(Debug, Default)]
pub struct Sharing(pub(super) Mutex<State>);

/// The state of sharing, under one lock.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) policy: Policy,
    pub(super) registry: Registry,
    pub(super) regions: BTreeMap<MrId, Region>,
    /// Set by [`crate::Engine::share_all`].
    pub(super) sharer: Option<Sharer>,
    pub(super) started: bool,
    pub(super) budget: SharingBudget,
    /// The file for the arena, until then.
    pub(super) file: Option<OwnedFd>,
}

/// A registered region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) addr: u64,
    pub(super) len: u64,
    /// Never shared: its pages may be unmapped and mapped again.
    pub(super) on_demand: bool,
}

impl Sharing {
    /// Sets the environment's policy; must be called before the first region.
    pub(crate) fn set_policy(&self, policy: Policy) {
        self.0.lock().policy = policy;
    }

    /// Sets the file that peers have, for pages shared later.
    pub(crate) fn set_file(&self, file: OwnedFd) {
        self.0.lock().file = Some(file);
    }
}
