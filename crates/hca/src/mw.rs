//! Memory windows: a part of a region lent to peers with rights of its own, bound and unbound by work requests.
//!
//! ```text
//!   type 1:  VALID (bound or not) --bind--> VALID        each bind brings a new R_Key; length 0 unbinds
//!   type 2:  FREE --bind--> VALID (this queue pair's) --invalidate, or the queue pair's end--> FREE
//! ```

use weft_transport::RemoteFault;
use weft_transport::peers::KeyView;
use weft_verbs::{Access, MrId, MwBind, MwId, PdId, Qpn, VerbsError, WcStatus};

use crate::keys::{KeyOwner, Keys, next_tag, with_tag};
use crate::mr::translate;
use crate::{Hca, HostInterface};

/// The range that a window is bound to.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    mr: MrId,
    /// First host address.
    host: u64,
    /// First address as peers name it.
    base: u64,
    len: u64,
    access: Access,
    /// The queue pair that a type 2 window belongs to.
    qpn: Option<Qpn>,
}

/// A memory window.
#[derive(Debug)]
pub(crate) struct Mw {
    pub(crate) pd: PdId,
    pub(crate) rkey: u32,
    type2: bool,
    /// The last key issued for a bind that has not happened yet (type 1).
    promised: u32,
    binding: Option<Binding>,
}

impl Mw {
    /// Returns the region that it is bound to.
    pub(crate) fn bound_to(&self) -> Option<MrId> {
        self.binding.as_ref().map(|binding| binding.mr)
    }
}

/// A window's handle and key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MwKeys {
    /// Handle.
    pub id: MwId,
    /// Key for peers.
    pub rkey: u32,
}

/// Rights that a window can grant.
const WINDOW_RIGHTS: Access = Access::REMOTE_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT)
    .union(Access::ZERO_BASED);

impl Keys {
    fn unbind(&mut self, id: MwId) {
        let Ok(mw) = self.mws.get_mut(id) else { return };
        if let Some(binding) = mw.binding.take()
            && let Ok(mr) = self.mrs.get_mut(binding.mr)
        {
            mr.windows = mr.windows.saturating_sub(1);
        }
    }

    /// Returns the rights that a bound window grants to peers, unless memory behind it may be missing.
    pub(crate) fn window_view(&self, id: MwId) -> Option<KeyView> {
        let mw = self.mws.get(id).ok()?;
        let b = mw.binding.as_ref()?;
        let on_demand = self.mrs.get(b.mr).ok()?.access.contains(Access::ON_DEMAND);
        let view =
            KeyView { key: mw.rkey, pd: mw.pd, qpn: b.qpn, base: b.base, len: b.len, host: b.host, access: b.access };
        (!on_demand).then_some(view)
    }

    /// Returns the binding behind an R_Key, as queue pair `qpn` of `pd` may see it.
    fn bound(&self, id: MwId, pd: PdId, qpn: Qpn, rkey: u32) -> Result<&Binding, RemoteFault> {
        let mw = self.mws.get(id).map_err(|_| RemoteFault::BadKey)?;
        if mw.rkey != rkey {
            return Err(RemoteFault::BadKey);
        }
        let binding = mw.binding.as_ref().ok_or(RemoteFault::BadKey)?;
        if mw.pd != pd || binding.qpn.is_some_and(|owner| owner != qpn) {
            return Err(RemoteFault::WrongDomain);
        }
        Ok(binding)
    }

    /// Checks a peer's access through a region or a window.
    pub(crate) fn remote(
        &self,
        pd: PdId,
        qpn: Qpn,
        rkey: u32,
        va: u64,
        len: u64,
        need: Access,
    ) -> Result<u64, RemoteFault> {
        match self.owner(rkey).ok_or(RemoteFault::BadKey)? {
            KeyOwner::Mr(_) => self.mr(rkey).ok_or(RemoteFault::BadKey)?.remote(pd, va, len, need),
            KeyOwner::Mw(id) => {
                let b = self.bound(id, pd, qpn, rkey)?;
                if !b.access.contains(need) {
                    return Err(RemoteFault::NoRight);
                }
                translate(va, len, b.base, b.len, b.host).ok_or(RemoteFault::OutOfBounds)
            }
        }
    }

    /// Returns the whole range behind an R_Key: first address, bytes.
    pub(crate) fn remote_range(&self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(u64, u64), RemoteFault> {
        match self.owner(rkey).ok_or(RemoteFault::BadKey)? {
            KeyOwner::Mr(_) => {
                let mr = self.mr(rkey).ok_or(RemoteFault::BadKey)?;
                if mr.pd != pd || mr.null {
                    return Err(RemoteFault::WrongDomain);
                }
                Ok((mr.base, mr.len))
            }
            KeyOwner::Mw(id) => self.bound(id, pd, qpn, rkey).map(|b| (b.base, b.len)),
        }
    }

    /// Carries out a bind. Finds the window by the index of its key alone: a consumer may post several binds of a type
    /// 1 window before the first has happened, and each names the window's key at the time of its post.
    pub(crate) fn bind(&mut self, pd: PdId, qpn: Qpn, bind: &MwBind) -> Result<(), WcStatus> {
        const FAIL: WcStatus = WcStatus::MwBindErr;
        let Some(KeyOwner::Mw(id)) = self.owner(bind.mw_rkey) else { return Err(FAIL) };
        let mw = self.mws.get(id).map_err(|_| FAIL)?;
        if mw.pd != pd {
            return Err(FAIL);
        }
        let type2 = mw.type2;
        if type2 && (mw.binding.is_some() || bind.length == 0) {
            return Err(FAIL);
        }
        let binding = if bind.length == 0 { None } else { Some(self.new_binding(pd, qpn, type2, bind)?) };

        self.unbind(id);
        if let Some(binding) = &binding {
            self.mrs.get_mut(binding.mr).map_err(|_| FAIL)?.windows += 1;
        }
        let mw = self.mws.get_mut(id).map_err(|_| FAIL)?;
        mw.rkey = with_tag(mw.rkey, bind.new_rkey);
        mw.binding = binding;
        Ok(())
    }

    /// Checks that the region grants the rights that a bind requests (IBA C10-73 to C10-75).
    fn new_binding(&self, pd: PdId, qpn: Qpn, type2: bool, bind: &MwBind) -> Result<Binding, WcStatus> {
        const FAIL: WcStatus = WcStatus::MwBindErr;
        let Some(KeyOwner::Mr(mr_id)) = self.owner(bind.mr_lkey) else { return Err(FAIL) };
        let mr = self.mr(bind.mr_lkey).ok_or(FAIL)?;
        let zero_based = bind.access.contains(Access::ZERO_BASED);
        if mr.pd != pd
            || mr.null
            || !mr.access.contains(Access::MW_BIND)
            || !WINDOW_RIGHTS.contains(bind.access)
            || (zero_based && !type2)
        {
            return Err(FAIL);
        }
        if bind.access.intersects(Access::REMOTE_CHANGE) && !mr.access.contains(Access::LOCAL_WRITE) {
            return Err(FAIL);
        }
        let host = translate(bind.addr, bind.length, mr.base, mr.len, mr.addr).ok_or(FAIL)?;
        Ok(Binding {
            mr: mr_id,
            host,
            base: if zero_based { 0 } else { bind.addr },
            len: bind.length,
            access: bind.access - Access::ZERO_BASED,
            qpn: type2.then_some(qpn),
        })
    }

    /// Invalidates a key: a type 2 window bound to this queue pair becomes free again. Registered regions and type 1
    /// windows cannot be invalidated (IBA 10.6.5, 10.6.7).
    pub(crate) fn invalidate(&mut self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(), RemoteFault> {
        let Some(KeyOwner::Mw(id)) = self.owner(rkey) else { return Err(RemoteFault::BadKey) };
        if self.bound(id, pd, qpn, rkey)?.qpn.is_none() {
            return Err(RemoteFault::NoRight);
        }
        self.unbind(id);
        Ok(())
    }

    /// Frees the type 2 windows of a queue pair that ends. Returns their keys.
    pub(crate) fn unbind_all_of(&mut self, qpn: Qpn) -> Vec<u32> {
        let of_it: Vec<(MwId, u32)> = self
            .mws
            .iter()
            .filter(|(_, mw)| mw.binding.as_ref().is_some_and(|b| b.qpn == Some(qpn)))
            .map(|(id, mw)| (id, mw.rkey))
            .collect();
        for (id, _) in &of_it {
            self.unbind(*id);
        }
        of_it.into_iter().map(|(_, key)| key).collect()
    }
}

impl<H: HostInterface> Hca<H> {
    /// Allocates an unbound memory window.
    pub fn alloc_mw(&mut self, pd: PdId, type2: bool) -> Result<MwKeys, VerbsError> {
        let device = self.context.pds.get(pd)?.device;
        self.context.present(device)?;
        let make = |rkey| Mw { pd, rkey, type2, promised: rkey, binding: None };
        let (id, rkey) = self.context.keys.insert_mw(&mut self.context.rng, make)?;
        self.hold_pd(pd)?;
        Ok(MwKeys { id, rkey })
    }

    /// Deallocates a window, bound or not.
    pub fn dealloc_mw(&mut self, id: MwId) -> Result<(), VerbsError> {
        self.context.keys.mws.get(id)?;
        self.context.revoke_mw(id);
        self.context.keys.unbind(id);
        let mw = self.context.keys.remove_mw(id)?;
        self.release_pd(mw.pd);
        Ok(())
    }

    /// Returns the window's current R_Key.
    pub fn mw_rkey(&self, id: MwId) -> Result<u32, VerbsError> {
        Ok(self.context.keys.mws.get(id)?.rkey)
    }

    /// Returns the R_Key that the next bind of a type 1 window shall set: a new one on each call, so that several binds
    /// can be posted before the first is carried out.
    pub fn next_type1_rkey(&mut self, id: MwId) -> Result<u32, VerbsError> {
        let mw = self.context.keys.mws.get_mut(id)?;
        if mw.type2 {
            return Err(VerbsError::Invalid("a type 2 window takes its key from the bind"));
        }
        mw.promised = next_tag(mw.promised);
        Ok(mw.promised)
    }
}
