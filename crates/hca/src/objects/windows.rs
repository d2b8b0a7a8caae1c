//! Windows of the key table: binding, invalidation, and access through them.

use weft_transport::RemoteFault;
use weft_transport::peers::KeyView;
use weft_verbs::{Access, MwBind, MwId, PdId, Qpn, VerbsError, WcStatus};

use super::keys::{KeyOwner, Keys, next_tag, with_tag};
use super::mr::translate;
use super::mw::Binding;

/// Rights that a window can grant.
const WINDOW_RIGHTS: Access = Access::REMOTE_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT)
    .union(Access::ZERO_BASED);

impl Keys {
    pub(crate) fn unbind(&mut self, id: MwId) {
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

    /// Returns the R_Key that the next bind of a type 1 window shall set: a new one on each call.
    pub(crate) fn next_type1_rkey(&mut self, id: MwId) -> Result<u32, VerbsError> {
        let mw = self.mws.get_mut(id)?;
        if mw.type2 {
            return Err(VerbsError::Invalid("a type 2 window takes its key from the bind"));
        }
        mw.promised = next_tag(mw.promised);
        Ok(mw.promised)
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
