//! Multicast groups and their members.

use std::collections::BTreeMap;

use weft_verbs::{DeviceId, Gid, MCAST_GRP_MAX, MCAST_QP_ATTACH_MAX, QpId, VerbsError};

/// Groups that queue pairs of this process are attached to.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    members: BTreeMap<(DeviceId, Gid), Group>,
}

/// A group.
#[derive(Debug, Default)]
struct Group {
    /// Its LID, on an InfiniBand fabric.
    mlid: u16,
    qps: Vec<QpId>,
}

impl Groups {
    /// Returns the members of a group, on all devices.
    pub(crate) fn members(&self, gid: Gid) -> impl Iterator<Item = (DeviceId, &[QpId])> {
        self.members.iter().filter(move |((_, g), _)| *g == gid).map(|((d, _), group)| (*d, group.qps.as_slice()))
    }

    /// Attaches a queue pair to a group. Returns the number of members of its device, or `None` if it was one before.
    pub(crate) fn attach(
        &mut self,
        device: DeviceId,
        group: Gid,
        mlid: u16,
        id: QpId,
    ) -> Result<Option<usize>, VerbsError> {
        let key = (device, group);
        if !self.members.contains_key(&key) && self.members.len() >= MCAST_GRP_MAX as usize {
            return Err(VerbsError::NoMemory("too many multicast groups"));
        }
        let group = self.members.entry(key).or_default();
        group.mlid = mlid;
        if group.qps.contains(&id) {
            return Ok(None);
        }
        if group.qps.len() >= MCAST_QP_ATTACH_MAX as usize {
            return Err(VerbsError::NoMemory("too many queue pairs in the multicast group"));
        }
        group.qps.push(id);
        Ok(Some(group.qps.len()))
    }

    /// Detaches a queue pair from a group. Returns the number of members left, or `None` if it was not attached.
    pub(crate) fn detach(&mut self, device: DeviceId, group: Gid, id: QpId) -> Option<usize> {
        let key = (device, group);
        let members = &mut self.members.get_mut(&key)?.qps;
        let place = members.iter().position(|member| *member == id)?;
        members.remove(place);
        let left = members.len();
        if left == 0 {
            self.members.remove(&key);
        }
        Some(left)
    }

    /// Returns the groups that a queue pair is attached to, with their LIDs.
    pub(crate) fn of(&self, id: QpId) -> Vec<(Gid, u16)> {
        let attached = self.members.iter().filter(|(_, group)| group.qps.contains(&id));
        attached.map(|((_, gid), group)| (*gid, group.mlid)).collect()
    }
}
