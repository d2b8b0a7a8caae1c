//! Registration of memory. The adapter keeps the table, but only this module can check whether memory is mapped.

use weft_hca::MrKeys;
use weft_sys::mapping;
use weft_verbs::{Access, MrId, PdId, VerbsError};

use crate::engine::Engine;

impl Engine {
    /// Registers memory with a protection domain.
    ///
    /// # Errors
    /// The memory is not mapped, not writable as the access requires, or volatile although peers may flush it to
    /// persistence; the adapter refuses.
    pub fn reg_mr(&self, pd: PdId, addr: u64, len: u64, iova: u64, access: Access) -> Result<MrKeys, VerbsError> {
        probe(addr, len, access)?;
        let on_demand = access.contains(Access::ON_DEMAND);
        self.share_region(addr, len, on_demand);
        let shared = self.extent(addr, len);
        let registered = self.query(|hca, _| {
            hca.peers().set_registering(shared);
            let registered = hca.reg_mr(pd, addr, len, iova, access);
            hca.peers().set_registering(None);
            registered
        });
        match registered {
            Ok(keys) => {
                self.bind_region(keys.id, addr, len, on_demand);
                Ok(keys)
            }
            Err(error) => {
                self.unshare_region(addr, len);
                Err(error)
            }
        }
    }

    /// Deregisters memory. After the call, only the program uses its pages.
    ///
    /// # Errors
    /// There is no such region, or windows are bound to it.
    pub fn dereg_mr(&self, id: MrId) -> Result<(), VerbsError> {
        self.with(|hca, _| hca.dereg_mr(id))?;
        if let Some((addr, len)) = self.unbind_region(id) {
            self.unshare_region(addr, len);
        }
        Ok(())
    }

    /// Changes a region's domain, range (`addr`, `len`, `iova`) or access.
    ///
    /// # Errors
    /// As [`Engine::reg_mr`].
    pub fn rereg_mr(
        &self,
        id: MrId,
        pd: Option<PdId>,
        range: Option<(u64, u64, u64)>,
        access: Option<Access>,
    ) -> Result<MrKeys, VerbsError> {
        if range.is_none() && access.is_none() {
            return self.query(|hca, _| hca.rereg_mr(id, pd, None, None));
        }
        let (addr, len) = match range {
            Some((addr, len, _)) => (addr, len),
            None => self.query(|hca, _| hca.mr_range(id))?,
        };
        probe(addr, len, access.unwrap_or(Access::empty()))?;
        let on_demand = access.map(|access| access.contains(Access::ON_DEMAND));
        let on_demand = on_demand.unwrap_or_else(|| self.is_on_demand(id));
        self.share_region(addr, len, on_demand);
        let shared = self.extent(addr, len);
        let result = self.query(|hca, _| {
            hca.peers().set_registering(shared);
            let result = hca.rereg_mr(id, pd, range, access);
            hca.peers().set_registering(None);
            result
        });
        let left = match result {
            Ok(_) => self.bind_region(id, addr, len, on_demand),
            Err(_) => Some((addr, len)),
        };
        if let Some((addr, len)) = left {
            self.unshare_region(addr, len);
        }
        result
    }
}

/// Checks that memory is mapped. On-demand regions may be mapped later.
fn probe(addr: u64, len: u64, access: Access) -> Result<(), VerbsError> {
    if access.contains(Access::FLUSH_PERSISTENT) && !mapping::persists(addr, len) {
        return Err(VerbsError::Invalid("only shared mappings of files can be flushed to persistence"));
    }
    if len == 0 || access.contains(Access::ON_DEMAND) {
        return Ok(());
    }
    let write = access.intersects(Access::LOCAL_WRITE.union(Access::REMOTE_CHANGE));
    mapping::check(addr, len, write)
        .map_err(|_| VerbsError::Fault("the memory is not mapped, or not with these rights"))
}
