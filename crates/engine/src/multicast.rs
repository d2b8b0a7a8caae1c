//! Multicast groups: the adapter knows which queue pairs are attached, and the daemon lets a group's packets reach the
//! process's sockets. On an InfiniBand fabric the daemon also knows the listeners of each group; senders ask it for
//! them.

use weft_ipc::{GroupMember, McastGroup};
use weft_verbs::{DeviceId, Gid, QpId, VerbsError};

use crate::engine::Engine;

impl Engine {
    /// Attaches a UD queue pair to a group; the first one joins the group.
    ///
    /// # Errors
    /// The adapter refuses; the group cannot be joined.
    pub fn attach_mcast(&self, qp: QpId, group: Gid, mlid: u16) -> Result<(), VerbsError> {
        // Hold the session's lock throughout, so that an attach and a detach of the same group cannot cross.
        let mut session = self.session_if_live()?;
        let (first, ifindex, member) = self.query(|hca, _| {
            let first = hca.attach_mcast(qp, group, mlid)?;
            Ok((first, interface_of(hca, qp)?, member_of(hca, qp, group, mlid)?))
        })?;
        if !first {
            return Ok(());
        }
        if let Some(member) = member {
            return session.client().set_group_member(member, true).map_err(|error| {
                crate::log::note(&format!("listening to {group}: {error}"));
                let _ = self.query(|hca, _| hca.detach_mcast(qp, group, mlid));
                VerbsError::NoMemory("the multicast group cannot be listened to")
            });
        }
        self.ether_membership(true, group, ifindex);
        let group_on = McastGroup { group: group.ip(), ifindex };
        session.client().join_multicast(group_on).map_err(|error| {
            crate::log::note(&format!("joining {group}: {error}"));
            let _ = self.query(|hca, _| hca.detach_mcast(qp, group, mlid));
            VerbsError::NoMemory("the multicast group cannot be joined")
        })
    }

    /// Detaches a queue pair from a group; the last one leaves the group.
    ///
    /// # Errors
    /// The adapter refuses.
    pub fn detach_mcast(&self, qp: QpId, group: Gid, mlid: u16) -> Result<(), VerbsError> {
        let mut session = self.session_if_live()?;
        let (last, ifindex, member) = self.query(|hca, _| {
            // Use the LID of the attach, as the daemon knows it.
            let attached = hca.groups_of(qp).into_iter().find(|(gid, _)| *gid == group).map_or(mlid, |(_, mlid)| mlid);
            let (ifindex, member) = (interface_of(hca, qp)?, member_of(hca, qp, group, attached)?);
            Ok((hca.detach_mcast(qp, group, mlid)?, ifindex, member))
        })?;
        if let Some(member) = member.filter(|_| last) {
            if let Err(error) = session.client().set_group_member(member, false) {
                crate::log::note(&format!("listening no more to {group}: {error}"));
            }
        } else if last {
            self.ether_membership(false, group, ifindex);
            let group_on = McastGroup { group: group.ip(), ifindex };
            if let Err(error) = session.client().leave_multicast(group_on) {
                crate::log::note(&format!("leaving {group}: {error}"));
            }
        }
        Ok(())
    }

    /// Detaches a queue pair from every group.
    pub fn detach_all_mcast(&self, qp: QpId) {
        let groups = self.query(|hca, _| Ok(hca.groups_of(qp))).unwrap_or_default();
        for (group, mlid) in groups {
            let _ = self.detach_mcast(qp, group, mlid);
        }
    }

    /// Sets the network interface's separate group filter for RoCE v1. If that fails, packets are lost, as with any
    /// filter.
    fn ether_membership(&self, join: bool, group: Gid, ifindex: u32) {
        let _ = self.enter(|pump, _| {
            if let Err(error) = pump.stack.ether_membership(join, group, ifindex) {
                crate::log::note(&format!("RoCE v1 frames of {group}: {error}"));
            }
            Ok(())
        });
    }

    fn session_if_live(&self) -> Result<parking_lot::MutexGuard<'_, crate::session::Session>, VerbsError> {
        // Check for a fork before taking a lock that a lost thread may hold.
        self.query(|_, _| Ok(()))?;
        Ok(self.session.lock())
    }
}

type Hca = crate::adapter::Adapter;

fn device_of(hca: &Hca, qp: QpId) -> Result<DeviceId, VerbsError> {
    let (_, init) = hca.query_qp(qp)?;
    hca.pd_device(init.pd.ok_or(VerbsError::Invalid("the queue pair has no domain"))?)
}

/// Returns the network interface of a queue pair's device.
fn interface_of(hca: &Hca, qp: QpId) -> Result<u32, VerbsError> {
    hca.device(device_of(hca, qp)?).map(|attr| attr.ifindex).ok_or(VerbsError::NoDevice("the device has gone"))
}

/// Returns the group membership to report to the daemon, if the queue pair is on an InfiniBand fabric.
fn member_of(hca: &Hca, qp: QpId, group: Gid, mlid: u16) -> Result<Option<GroupMember>, VerbsError> {
    let device = device_of(hca, qp)?;
    let on_fabric = hca.device(device).is_some_and(|attr| attr.fabric().is_some());
    // A queue pair in RESET has no port yet: it will use the first port.
    let port = hca.query_qp(qp)?.0.port_num.max(1);
    Ok(on_fabric.then_some(GroupMember { device: device.0, port, mlid, mgid: group.0 }))
}
