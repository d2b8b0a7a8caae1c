//! Memory windows: a part of a region lent to peers with rights of its own, bound and unbound by work requests.
//!
//! ```text
//!   type 1:  VALID (bound or not) --bind--> VALID        each bind brings a new R_Key; length 0 unbinds
//!   type 2:  FREE --bind--> VALID (this queue pair's) --invalidate, or the queue pair's end--> FREE
//! ```

use weft_verbs::injection::Call;
use weft_verbs::{MwId, PdId, VerbsError};

use crate::objects::Mw;
use crate::{Hca, HostInterface};

/// A window's handle and key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MwKeys {
    /// Handle.
    pub id: MwId,
    /// Key for peers.
    pub rkey: u32,
}

impl<H: HostInterface> Hca<H> {
    /// Allocates an unbound memory window.
    pub fn alloc_mw(&mut self, pd: PdId, type2: bool) -> Result<MwKeys, VerbsError> {
        let device = self.context.pds.get(pd)?.device;
        self.context.present(device)?;
        self.context.may_call(device, Call::AllocMw, None)?;
        let (id, rkey) = self.context.keys.insert_mw(&mut self.context.rng, |rkey| Mw::new(pd, rkey, type2))?;
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
        self.context.keys.next_type1_rkey(id)
    }
}
