//! Protection domains, which separate queue pairs from the memory of others.

use weft_verbs::injection::Call;
use weft_verbs::{Cookie, DeviceId, PdId, VerbsError};

use crate::objects::Pd;
use crate::{Hca, HostInterface};

impl<H: HostInterface> Hca<H> {
    /// Allocates a protection domain on a device.
    pub fn alloc_pd(&mut self, device: DeviceId, cookie: Cookie) -> Result<PdId, VerbsError> {
        self.context.present(device)?;
        self.context.may_call(device, Call::AllocPd, None)?;
        self.context.pds.insert(Pd { device, uses: 0, cookie })
    }

    /// Deallocates a protection domain; busy while it has objects.
    pub fn dealloc_pd(&mut self, id: PdId) -> Result<(), VerbsError> {
        if self.context.pds.get(id)?.uses > 0 {
            return Err(VerbsError::Busy("the protection domain still has objects in it"));
        }
        self.context.pds.remove(id).map(drop)
    }

    /// Counts one more user of a protection domain that has no table here (an address handle, a parent domain).
    pub fn hold_pd(&mut self, id: PdId) -> Result<(), VerbsError> {
        self.context.pds.get_mut(id)?.uses += 1;
        Ok(())
    }

    /// Undoes [`Hca::hold_pd`].
    pub fn release_pd(&mut self, id: PdId) {
        if let Ok(pd) = self.context.pds.get_mut(id) {
            pd.uses = pd.uses.saturating_sub(1);
        }
    }

    /// Returns the device of a protection domain.
    pub fn pd_device(&self, id: PdId) -> Result<DeviceId, VerbsError> {
        Ok(self.context.pds.get(id)?.device)
    }
}
