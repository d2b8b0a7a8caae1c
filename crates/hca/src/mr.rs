//! Registration of memory regions.

use std::ops::Range;

use weft_verbs::injection::Call;
use weft_verbs::{Access, MrId, PdId, VerbsError};

use crate::objects::{Mr, next_tag};
use crate::{Hca, HostInterface};

/// A region's handle and keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrKeys {
    /// Handle.
    pub id: MrId,
    /// Key for local use.
    pub lkey: u32,
    /// Key for peers.
    pub rkey: u32,
}

/// Checks the combination of a region's rights (IBA C11-8: memory that peers may change must be locally writable).
fn check_access(access: Access) -> Result<(), VerbsError> {
    if !Access::SUPPORTED.contains(access) {
        return Err(VerbsError::Invalid("an access flag that regions do not have"));
    }
    if access.intersects(Access::REMOTE_CHANGE) && !access.contains(Access::LOCAL_WRITE) {
        return Err(VerbsError::Invalid("remote write and remote atomic access need local write access"));
    }
    Ok(())
}

/// Returns the first address by which keys will name a region, after checking that nothing wraps around.
fn check_range(addr: u64, len: u64, iova: u64, access: Access) -> Result<u64, VerbsError> {
    if len == 0 {
        return Err(VerbsError::Invalid("a region of no bytes"));
    }
    // A zero-based region without an address of its own begins at zero.
    let base = if access.contains(Access::ZERO_BASED) && iova == addr { 0 } else { iova };
    if addr.checked_add(len).is_none() || base.checked_add(len).is_none() {
        return Err(VerbsError::Invalid("the region runs over the end of the address space"));
    }
    Ok(base)
}

impl<H: HostInterface> Hca<H> {
    /// Registers `len` bytes at host address `addr`; keys name them by addresses from `iova` on. The caller must check
    /// that the memory is mapped: nothing here touches it.
    pub fn reg_mr(&mut self, pd: PdId, addr: u64, len: u64, iova: u64, access: Access) -> Result<MrKeys, VerbsError> {
        let device = self.context.pds.get(pd)?.device;
        self.context.present(device)?;
        self.context.may_call(device, Call::RegMr, None)?;
        check_access(access)?;
        let base = check_range(addr, len, iova, access)?;
        self.context.keys.any_on_demand |= access.contains(Access::ON_DEMAND);
        self.insert_mr(Mr { pd, key: 0, addr, len, base, access, null: false, windows: 0 })
    }

    /// Registers a region that reads as zeros and discards writes, at any address. Local use only.
    pub fn alloc_null_mr(&mut self, pd: PdId) -> Result<MrKeys, VerbsError> {
        self.context.pds.get(pd)?;
        let Range { start, end } = self.null_memory.clone();
        if start >= end {
            return Err(VerbsError::NotSupported("no memory stands behind a null region"));
        }
        let access = Access::LOCAL_WRITE;
        self.insert_mr(Mr { pd, key: 0, addr: start, len: end - start, base: 0, access, null: true, windows: 0 })
    }

    fn insert_mr(&mut self, mr: Mr) -> Result<MrKeys, VerbsError> {
        let pd = mr.pd;
        let (id, key) = self.context.keys.insert_mr(&mut self.context.rng, |key| Mr { key, ..mr })?;
        self.hold_pd(pd)?;
        self.context.publish_mr(id);
        Ok(MrKeys { id, lkey: key, rkey: key })
    }

    /// Deregisters a region; busy while windows are bound to it.
    pub fn dereg_mr(&mut self, id: MrId) -> Result<(), VerbsError> {
        if self.context.keys.mrs.get(id)?.windows > 0 {
            return Err(VerbsError::Busy("memory windows are bound to the region"));
        }
        self.context.revoke_mr(id);
        let mr = self.context.keys.remove_mr(id)?;
        self.release_pd(mr.pd);
        Ok(())
    }

    /// Changes a region's domain, range (`addr`, `len`, `iova`) or rights; `None` keeps a value. On an error nothing
    /// has changed. A new range gives new keys.
    pub fn rereg_mr(
        &mut self,
        id: MrId,
        pd: Option<PdId>,
        range: Option<(u64, u64, u64)>,
        access: Option<Access>,
    ) -> Result<MrKeys, VerbsError> {
        let old = self.context.keys.mrs.get(id)?.clone();
        if old.null {
            return Err(VerbsError::Invalid("the null region cannot be changed"));
        }
        if old.windows > 0 {
            return Err(VerbsError::Busy("memory windows are bound to the region"));
        }
        let mut new = old.clone();
        if let Some(pd) = pd {
            if self.context.pds.get(pd)?.device != self.context.pds.get(old.pd)?.device {
                return Err(VerbsError::Invalid("the protection domain is another device's"));
            }
            new.pd = pd;
        }
        if let Some(access) = access {
            check_access(access)?;
            self.context.keys.any_on_demand |= access.contains(Access::ON_DEMAND);
            new.access = access;
        }
        if let Some((addr, len, iova)) = range {
            new.base = check_range(addr, len, iova, new.access)?;
            (new.addr, new.len) = (addr, len);
            new.key = next_tag(old.key);
        }
        let (key, new_pd) = (new.key, new.pd);
        self.context.revoke_mr(id);
        *self.context.keys.mrs.get_mut(id)? = new;
        self.context.publish_mr(id);
        self.hold_pd(new_pd)?;
        self.release_pd(old.pd);
        Ok(MrKeys { id, lkey: key, rkey: key })
    }

    /// Returns the host address and the length of a region in bytes.
    pub fn mr_range(&self, id: MrId) -> Result<(u64, u64), VerbsError> {
        let mr = self.context.keys.mrs.get(id)?;
        Ok((mr.addr, mr.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_and_ranges_that_make_no_sense_are_refused() {
        assert!(check_access(Access::REMOTE_WRITE).is_err());
        assert!(check_access(Access::REMOTE_ATOMIC).is_err());
        assert!(check_access(Access::REMOTE_READ).is_ok());
        assert!(check_access(Access::REMOTE_WRITE | Access::LOCAL_WRITE).is_ok());
        assert!(check_range(4096, 0, 4096, Access::empty()).is_err());
        assert!(check_range(u64::MAX - 1, 4, 0, Access::empty()).is_err());
        assert!(check_range(0, 4, u64::MAX - 1, Access::empty()).is_err());
        assert_eq!(check_range(4096, 8, 4096, Access::ZERO_BASED), Ok(0));
        assert_eq!(check_range(4096, 8, 64, Access::ZERO_BASED), Ok(64));
        assert_eq!(check_range(4096, 8, 64, Access::empty()), Ok(64));
    }
}
