//! Publishes keys that other processes of the host may use directly. A key is published when it becomes valid, and
//! revoked before it changes or ends; revoking waits for copies in progress.

use weft_transport::Peers;
use weft_transport::peers::KeyView;
use weft_verbs::{Access, MrId, MwBind, MwId, PdId, Qpn, WcStatus};

use crate::HostInterface;
use crate::context::HcaContext;
use crate::objects::KeyOwner;

impl<H: HostInterface> HcaContext<H> {
    /// Publishes a region. On-demand regions, whose memory may be missing, stay with the responder, which checks each
    /// access.
    pub(crate) fn publish_mr(&mut self, id: MrId) {
        let Ok(mr) = self.keys.mrs.get(id) else { return };
        if mr.null || mr.access.contains(Access::ON_DEMAND) {
            return;
        }
        let view =
            KeyView { key: mr.key, pd: mr.pd, qpn: None, base: mr.base, len: mr.len, host: mr.addr, access: mr.access };
        self.peers.publish_key(&view);
    }

    /// Publishes a window, if it is bound.
    fn publish_mw(&mut self, id: MwId) {
        if let Some(view) = self.keys.window_view(id) {
            self.peers.publish_key(&view);
        }
    }

    /// Revokes a region that is about to end or change.
    pub(crate) fn revoke_mr(&mut self, id: MrId) {
        if let Ok(mr) = self.keys.mrs.get(id) {
            self.peers.revoke_key(mr.key);
        }
    }

    /// Revokes a window that is about to end or change.
    pub(crate) fn revoke_mw(&mut self, id: MwId) {
        if let Ok(mw) = self.keys.mws.get(id) {
            self.peers.revoke_key(mw.rkey);
        }
    }

    /// Binds a window, and publishes it to the peers.
    pub(crate) fn bind_published(&mut self, pd: PdId, qpn: Qpn, bind: &MwBind) -> Result<(), WcStatus> {
        let Some(KeyOwner::Mw(id)) = self.keys.owner(bind.mw_rkey) else { return Err(WcStatus::MwBindErr) };
        self.revoke_mw(id);
        let bound = self.keys.bind(pd, qpn, bind);
        self.publish_mw(id);
        bound
    }
}
