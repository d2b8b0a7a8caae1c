//! Multicast groups: the adapter knows which queue pairs are attached, the daemon lets a group's packets reach our
//! sockets.

use weft_ipc::McastGroup;
use weft_verbs::{Gid, QpId, VerbsError};

use crate::engine::Engine;

impl Engine {
    /// Attach a UD queue pair to a group; the group is joined with the first one.
    ///
    /// # Errors
    /// What the adapter refuses; the group cannot be joined.
    pub fn attach_mcast(&self, qp: QpId, group: Gid, mlid: u16) -> Result<(), VerbsError> {
        // The session's lock is held throughout, so that an attach and a detach of the same group cannot cross.
        let mut session = self.session_if_live()?;
        let (first, ifindex) = self.quietly(|hca, _| {
            let first = hca.attach_mcast(qp, group, mlid)?;
            Ok((first, interface_of(hca, qp)?))
        })?;
        if !first {
            return Ok(());
        }
        self.ether_membership(true, group, ifindex);
        let group_on = McastGroup { group: group.ip(), ifindex };
        session.client().join_multicast(group_on).map_err(|error| {
            crate::log::note(&format!("joining {group}: {error}"));
            let _ = self.quietly(|hca, _| hca.detach_mcast(qp, group, mlid));
            VerbsError::NoMemory("the multicast group cannot be joined")
        })
    }

    /// Detach a queue pair from a group; the group is left with the last one.
    ///
    /// # Errors
    /// What the adapter refuses.
    pub fn detach_mcast(&self, qp: QpId, group: Gid, mlid: u16) -> Result<(), VerbsError> {
        let mut session = self.session_if_live()?;
        let (last, ifindex) = self.quietly(|hca, _| {
            let ifindex = interface_of(hca, qp)?;
            Ok((hca.detach_mcast(qp, group, mlid)?, ifindex))
        })?;
        if last {
            self.ether_membership(false, group, ifindex);
            let group_on = McastGroup { group: group.ip(), ifindex };
            if let Err(error) = session.client().leave_multicast(group_on) {
                crate::log::note(&format!("leaving {group}: {error}"));
            }
        }
        Ok(())
    }

    /// Detach a queue pair from every group.
    pub fn detach_all_mcast(&self, qp: QpId) {
        let groups = self.quietly(|hca, _| Ok(hca.groups_of(qp))).unwrap_or_default();
        for group in groups {
            let _ = self.detach_mcast(qp, group, 0);
        }
    }

    /// RoCE v1 has its own filter of groups, in the adapter. One that cannot be set loses packets, as any filter may.
    fn ether_membership(&self, join: bool, group: Gid, ifindex: u32) {
        let _ = self.enter(|pump, _| {
            if let Err(error) = pump.stack.ether_membership(join, group, ifindex) {
                crate::log::note(&format!("RoCE v1 frames of {group}: {error}"));
            }
            Ok(())
        });
    }

    fn session_if_live(&self) -> Result<parking_lot::MutexGuard<'_, crate::session::Session>, VerbsError> {
        // Asks whether the process forked before it takes a lock that a lost thread may hold.
        self.quietly(|_, _| Ok(()))?;
        Ok(self.session.lock())
    }
}

/// The network interface of a queue pair's device.
fn interface_of(hca: &weft_hca::Hca<crate::memory::HostMemory>, qp: QpId) -> Result<u32, VerbsError> {
    let (_, init) = hca.query_qp(qp)?;
    let pd = init.pd.ok_or(VerbsError::Invalid("the queue pair has no domain"))?;
    let device = hca.pd_device(pd)?;
    hca.device(device).map(|attr| attr.ifindex).ok_or(VerbsError::NoDevice("the device has gone"))
}
