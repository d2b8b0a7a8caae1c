//! Memory regions: registration, deregistration, and memory that goes away below them.

use super::ids::{CURRENT_STACK, Handle, Site, StackId};
use super::limits::OBJECTS_MAX;
use super::objects::{Kind, Mr, Qp, QpKind, RegionKey};
use super::request::{Outstanding, Span, overlap};
use super::state::Model;
use crate::rules;

const LOCAL_WRITE: u32 = 1;
const REMOTE_WRITE: u32 = 2;
const REMOTE_ATOMIC: u32 = 8;
pub(super) const MW_BIND: u32 = 16;
const ON_DEMAND: u32 = 64;

impl Mr {
    /// The memory of the program that it covers.
    pub(super) fn span(&self) -> Option<Span> {
        self.address.map(|address| (address, address.saturating_add(self.length)))
    }

    /// Whether the device may write there for a peer. A memory window may grant what the region itself does not.
    pub(super) fn is_remotely_writable(&self) -> bool {
        self.access & (REMOTE_WRITE | REMOTE_ATOMIC | MW_BIND) != 0
    }

    pub(super) fn is_locally_writable(&self) -> bool {
        self.access & LOCAL_WRITE != 0
    }

    /// The program's address of a request's address in this region.
    pub(super) fn translate(&self, iova: u64) -> Option<u64> {
        self.address.map(|address| iova.wrapping_sub(self.iova).wrapping_add(address))
    }
}

/// The way in which memory goes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// munmap, mremap: the addresses no longer exist.
    Unmap,
    /// free, realloc: the allocator may give the memory to another owner.
    Free,
}

impl Model {
    /// Reports access flags that no device accepts, before the registration.
    pub fn check_access(&mut self, pd: Handle, access: u32, site: Site) {
        self.check_alive(Kind::Pd, pd, site);
        if access & (REMOTE_WRITE | REMOTE_ATOMIC) != 0 && access & LOCAL_WRITE == 0 {
            let message = format!("the program registers memory with access flags {access:#x}, which lack local write");
            self.find(&rules::REMOTE_ACCESS_WITHOUT_LOCAL, site, self.name(Kind::Pd, pd), message);
        }
    }

    /// A memory region was registered.
    pub fn add_mr(&mut self, handle: Handle, mut mr: Mr, site: Site) {
        mr.created = site.stack;
        self.admit(Kind::Mr, handle);
        if self.mrs.len() >= OBJECTS_MAX {
            self.counters.untracked += 1;
            self.untracked_regions = true;
            return;
        }
        self.mrs.insert(handle, mr.clone());
        self.enter_key(handle, &mr);
    }

    pub(super) fn enter_key(&mut self, handle: Handle, mr: &Mr) {
        let name = self.name(Kind::Mr, handle);
        let key = RegionKey { region: Some(handle), name, created: mr.created, destroyed: CURRENT_STACK };
        self.keys.insert((mr.context, mr.lkey), key);
        if let Some(span) = mr.span() {
            self.spans.add(handle, span);
        }
    }

    pub(super) fn retire_key(&mut self, handle: Handle, site: Site) {
        let Some(mr) = self.mrs.get(&handle) else { return };
        let key = (mr.context, mr.lkey);
        if let Some(span) = mr.span() {
            self.spans.remove(handle, span);
        }
        if let Some(entry) = self.keys.get_mut(&key).filter(|entry| entry.region == Some(handle)) {
            entry.region = None;
            entry.destroyed = site.stack;
        }
        // Keys of long ago are forgotten together; they then count as unknown.
        if self.keys.len() > 2 * OBJECTS_MAX {
            self.keys.retain(|_, entry| entry.region.is_some());
        }
    }

    /// Reports outstanding requests that name the region's key, before it is deregistered.
    pub fn check_region_unused(&mut self, handle: Handle, site: Site) {
        let Some(mr) = self.mrs.get(&handle) else { return };
        let Some((user, what, stack)) = self.request_with_key(mr) else { return };
        let name = self.name(Kind::Mr, handle);
        let message = format!("the program deregisters the region while {user} has a request that names its key");
        self.find_with(&rules::REGION_IN_USE, site, name, message, vec![(what, stack)]);
    }

    /// A request that names the region's key. Libraries with a reliable protocol on datagrams learn from the peer that
    /// a datagram was sent, whether or not its completion is polled.
    fn request_with_key(&self, mr: &Mr) -> Option<(String, String, StackId)> {
        let names = |o: &&Outstanding| o.sges.iter().any(|s| s.lkey == mr.lkey && s.length > 0);
        let is_acknowledged = |qp: &Qp| mr.is_cached && qp.kind == QpKind::Ud;
        let may_use = |qp: &Qp| qp.context == mr.context && qp.is_active() && !is_acknowledged(qp);
        let users = self.qps.iter().filter(|&(_, qp)| may_use(qp));
        let found = users.filter_map(|(handle, qp)| {
            let request = qp.sends.iter().chain(&qp.receives).find(names)?;
            Some((qp.number, *handle, request))
        });
        let (_, handle, request) = found.min_by_key(|(number, ..)| *number)?;
        Some((self.qp_name(handle), request.description(), request.stack))
    }

    /// Reports regions and outstanding requests whose memory goes away.
    pub fn release_memory(&mut self, address: u64, length: u64, how: Release, site: Site) {
        let span = (address, address.saturating_add(length));
        let regions = self.spans.overlapping(span);
        if regions.is_empty() || length == 0 {
            return;
        }
        if how == Release::Unmap {
            self.report_unmapped(&regions, span, site);
        }
        self.check_requests_mapped(span, how, site);
    }

    fn report_unmapped(&mut self, regions: &[Handle], span: Span, site: Site) {
        for handle in regions {
            // Pages of on-demand regions follow the address space.
            let reported = self.mrs.get(handle).filter(|mr| mr.access & ON_DEMAND == 0 && !mr.is_cached);
            let Some(created) = reported.map(|mr| mr.created) else { continue };
            let message = format!("the program unmaps {:#x}..{:#x}, which the region covers", span.0, span.1);
            let history = vec![("registered".to_owned(), created)];
            self.find_with(&rules::REGION_UNMAPPED, site, self.name(Kind::Mr, *handle), message, history);
        }
    }

    fn check_requests_mapped(&mut self, span: Span, how: Release, site: Site) {
        let mut found = Vec::new();
        for (handle, qp) in self.qps.iter().filter(|(_, qp)| qp.is_active()) {
            let requests = qp.sends.iter().chain(&qp.receives);
            let hit = requests.into_iter().find(|request| self.uses(qp.context, &request.sges, span));
            found.extend(hit.map(|request| (*handle, request.description(), request.stack)));
        }
        found.sort();
        let verb = if how == Release::Unmap { "unmaps" } else { "frees" };
        for (handle, what, stack) in found {
            let message = format!("the program {verb} {:#x}..{:#x}, which an outstanding request uses", span.0, span.1);
            self.find_with(&rules::BUFFER_UNMAPPED, site, self.qp_name(handle), message, vec![(what, stack)]);
        }
    }

    fn uses(&self, context: Handle, sges: &[super::Sge], span: Span) -> bool {
        // A library that caches registrations also owns the memory, and knows when it is unused.
        let is_programs = |sge: &&super::Sge| self.region_of(context, sge).is_some_and(|mr| !mr.is_cached);
        let mut spans = sges.iter().filter(is_programs).filter_map(|sge| self.span_of(context, sge));
        spans.any(|own| overlap(own, span))
    }

    /// A range that holds all registered memory: the library asks the model about no other memory.
    pub fn registered_bounds(&self) -> Option<Span> {
        self.spans.bounds()
    }

    /// A fork. Reports regions of devices whose kernel needs ibv_fork_init, if the program has not called it.
    pub fn check_fork(&mut self, is_protected: bool, site: Site) {
        let mut regions: Vec<_> = self.mrs.iter().filter(|(_, mr)| mr.address.is_some() && mr.length > 0).collect();
        regions.sort_by_key(|(_, mr)| mr.lkey);
        if let (false, Some((handle, mr))) = (is_protected, regions.first()) {
            let (handle, history) = (**handle, vec![("registered".to_owned(), mr.created)]);
            let message = "the program forks, and this kernel may move registered pages to the child".to_owned();
            self.find_with(&rules::FORK_UNPROTECTED, site, self.name(Kind::Mr, handle), message, history);
        }
    }
}

/// The changes of `ibv_rereg_mr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reregistration {
    /// New protection domain.
    pub pd: Option<Handle>,
    /// New address and length.
    pub range: Option<(u64, u64)>,
    /// New access flags.
    pub access: Option<u32>,
    /// Local key afterwards.
    pub lkey: u32,
}

impl Model {
    /// A memory region was registered anew.
    pub fn reregistered(&mut self, handle: Handle, change: &Reregistration, site: Site) {
        self.retire_key(handle, site);
        let Some(mr) = self.mrs.get_mut(&handle) else { return self.check_alive(Kind::Mr, handle, site) };
        mr.pd = change.pd.unwrap_or(mr.pd);
        mr.access = change.access.unwrap_or(mr.access);
        mr.lkey = change.lkey;
        mr.created = site.stack;
        if let Some((address, length)) = change.range {
            (mr.address, mr.iova, mr.length) = (Some(address), address, length);
        }
        let changed = mr.clone();
        self.enter_key(handle, &changed);
    }
}
