//! Membership of UD queue pairs in multicast groups, which gives them a copy of packets to a group.

use weft_verbs::injection::Call;
use weft_verbs::{Gid, QpId, QpType, VerbsError};

use crate::{Hca, HostInterface};

/// LIDs of groups (IBA 4.1.3).
const MULTICAST_LIDS: std::ops::RangeInclusive<u16> = 0xc000..=0xfffe;

impl<H: HostInterface> Hca<H> {
    /// Attaches a UD queue pair to a group. Returns `true` if it is the first of its device in this process: the caller
    /// must join the group. Attaching twice counts once. The LID, which means nothing on RoCE, is the one that the
    /// subnet administration assigned to a group of an InfiniBand fabric.
    pub fn attach_mcast(&mut self, id: QpId, group: Gid, mlid: u16) -> Result<bool, VerbsError> {
        self.may_call_for_qp(id, Call::AttachMcast)?;
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
        let Some(members) = self.groups.attach(entry.device, group, mlid, id)? else { return Ok(false) };
        entry.groups += 1;
        Ok(members == 1)
    }

    /// Detaches a queue pair from a group. Returns `true` if it was the last of its device: the caller must leave the
    /// group.
    pub fn detach_mcast(&mut self, id: QpId, group: Gid, _mlid: u16) -> Result<bool, VerbsError> {
        const NOT_IN: VerbsError = VerbsError::Invalid("the queue pair is not attached to the multicast group");
        let entry = self.qps.get_mut(id)?;
        let left = self.groups.detach(entry.device, group, id).ok_or(NOT_IN)?;
        entry.groups -= 1;
        Ok(left == 0)
    }

    /// Returns the groups that a queue pair is attached to, with their LIDs. A caller that destroys a queue pair
    /// against its owner's will detaches it first.
    pub fn groups_of(&self, id: QpId) -> Vec<(Gid, u16)> {
        self.groups.of(id)
    }
}
