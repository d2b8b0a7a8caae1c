//! XRC domains: the link between XRC target queue pairs and XRC shared receive queues. All opens of the same key (the
//! identity of an inode) within the process share one domain.

use weft_verbs::injection::Call;
use weft_verbs::{DeviceId, VerbsError, XrcdId};

use crate::objects::Xrcd;
use crate::{Hca, HostInterface};

impl<H: HostInterface> Hca<H> {
    /// Opens an XRC domain: the one with this key on the device, or a new one.
    pub fn open_xrcd(&mut self, device: DeviceId, key: Option<u64>) -> Result<XrcdId, VerbsError> {
        self.context.present(device)?;
        self.context.may_call(device, Call::OpenXrcd, None)?;
        if key.is_some() {
            let found = self.context.xrcds.iter_mut().find(|(_, x)| x.device == device && x.key == key);
            if let Some((id, xrcd)) = found {
                xrcd.opens += 1;
                return Ok(id);
            }
        }
        self.context.xrcds.insert(Xrcd { device, key, opens: 1, uses: 0 })
    }

    /// Whether an XRC domain with this key is open on the device (for `O_CREAT` and `O_EXCL`).
    pub fn has_xrcd(&self, device: DeviceId, key: u64) -> bool {
        self.context.xrcds.iter().any(|(_, x)| x.device == device && x.key == Some(key))
    }

    /// Closes an XRC domain; the last close is busy while queues are in it.
    pub fn close_xrcd(&mut self, id: XrcdId) -> Result<(), VerbsError> {
        let xrcd = self.context.xrcds.get_mut(id)?;
        if xrcd.opens > 1 {
            xrcd.opens -= 1;
            return Ok(());
        }
        if xrcd.uses > 0 {
            return Err(VerbsError::Busy("the XRC domain still has queues in it"));
        }
        self.context.xrcds.remove(id).map(drop)
    }
}
