//! Multicast groups: the UD queue pairs that get a copy of packets to a group.

use std::collections::BTreeMap;

use weft_verbs::{DeviceId, Gid, MCAST_GRP_MAX, MCAST_QP_ATTACH_MAX, QpId, QpType, VerbsError};

use crate::{Hca, HostInterface};

/// LIDs of groups (IBA 4.1.3).
const MULTICAST_LIDS: std::ops::RangeInclusive<u16> = 0xc000..=0xfffe;

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
}

impl<H: HostInterface> Hca<H> {
    /// Attaches a UD queue pair to a group. Returns `true` if it is the first of its device in this process: the caller
    /// must join the group. Attaching twice counts once. The LID, which means nothing on RoCE, is the one that the
    /// subnet administration assigned to a group of an InfiniBand fabric.
    pub fn attach_mcast(&mut self, id: QpId, group: Gid, mlid: u16) -> Result<bool, VerbsError> {
        let entry = self.qps.get_mut(id)?;
        if entry.qp.qp_type() != QpType::Ud || !group.is_multicast() {
            return Err(VerbsError::Invalid("multicast attaches UD queue pairs to multicast GIDs"));
        }
        let on_fabric = self.context.present(entry.device)?.on_fabric();
        if on_fabric && !MULTICAST_LIDS.contains(&mlid) {
            return Err(VerbsError::Invalid(
                "the group's LID is none of a group: join it through the subnet administration",
            ));
        }
        let key = (entry.device, group);
        if !self.groups.members.contains_key(&key) && self.groups.members.len() >= MCAST_GRP_MAX as usize {
            return Err(VerbsError::NoMemory("too many multicast groups"));
        }
        let group = self.groups.members.entry(key).or_default();
        group.mlid = mlid;
        let members = &mut group.qps;
        if members.contains(&id) {
            return Ok(false);
        }
        if members.len() >= MCAST_QP_ATTACH_MAX as usize {
            return Err(VerbsError::NoMemory("too many queue pairs in the multicast group"));
        }
        members.push(id);
        entry.groups += 1;
        Ok(members.len() == 1)
    }

    /// Detaches a queue pair from a group. Returns `true` if it was the last of its device: the caller must leave the
    /// group.
    pub fn detach_mcast(&mut self, id: QpId, group: Gid, _mlid: u16) -> Result<bool, VerbsError> {
        const NOT_IN: VerbsError = VerbsError::Invalid("the queue pair is not attached to the multicast group");
        let entry = self.qps.get_mut(id)?;
        let key = (entry.device, group);
        let members = &mut self.groups.members.get_mut(&key).ok_or(NOT_IN)?.qps;
        let place = members.iter().position(|member| *member == id).ok_or(NOT_IN)?;
        members.remove(place);
        entry.groups -= 1;
        let last = members.is_empty();
        if last {
            self.groups.members.remove(&key);
        }
        Ok(last)
    }

    /// Returns the groups that a queue pair is attached to, with their LIDs. A caller that destroys a queue pair
    /// against its owner's will detaches it first.
    pub fn groups_of(&self, id: QpId) -> Vec<(Gid, u16)> {
        let attached = self.groups.members.iter().filter(|(_, group)| group.qps.contains(&id));
        attached.map(|((_, gid), group)| (*gid, group.mlid)).collect()
    }
}
