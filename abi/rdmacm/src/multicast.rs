//! Multicast groups: joining, leaving, and the queue pair's part in it.

use libc::{c_int, c_void, sockaddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_abi_types::{
    RDMA_CM_JOIN_MC_ATTR_ADDRESS, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, RDMA_CM_JOIN_MC_ATTR_RESERVED,
    RDMA_MC_JOIN_FLAG_FULLMEMBER, RDMA_MC_JOIN_FLAG_RESERVED, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, ibv_gid,
    rdma_cm_id, rdma_cm_join_mc_attr_ex, rdma_cm_mc_join_flags,
};
use weft_cm::rdma_cm::{Command, GroupNumber, JoinKind, Reply, SockAddr};
use weft_verbs::injection::Call;

use crate::complete::complete;
use crate::errors::{code, fail};
use crate::event::give_back;
use crate::group::Group;
use crate::id::Id;
use crate::verbs::ibv_detach_mcast;
use crate::{address, failure, registry};

/// Joins a group; MULTICAST_JOIN follows.
pub unsafe extern "C" fn rdma_join_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr, context: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { join(id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context) })
}

/// Joins a group with the membership type in the attributes.
pub unsafe extern "C" fn rdma_join_multicast_ex(
    id: *mut rdma_cm_id,
    mc_join_attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
) -> c_int {
    if mc_join_attr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the caller's attributes.
    let (mask, flags, addr) = unsafe { ((*mc_join_attr).comp_mask, (*mc_join_attr).join_flags, (*mc_join_attr).addr) };
    if mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED {
        return fail(libc::ENOTSUP);
    }
    let needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    if mask & needed != needed || flags >= RDMA_MC_JOIN_FLAG_RESERVED {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises.
    code(unsafe { join(id, addr, flags, context) })
}

unsafe fn join(
    id: *mut rdma_cm_id,
    addr: *mut sockaddr,
    flags: rdma_cm_mc_join_flags,
    context: *mut c_void,
) -> Result<(), c_int> {
    // SAFETY: the program's identifier and address.
    let (this, addr): (&Id, SockAddr) = unsafe { (Id::of_argument(id)?, address::read(addr)?) };
    failure::of_call(Some(this), Call::CmJoinMulticast)?;
    let join = match flags {
        RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER => JoinKind::SendOnlyFullMember,
        _ => JoinKind::FullMember,
    };
    let cookie = registry::cookie();
    let group = Arc::new(Group::new(this.cookie, cookie, context, addr, join));
    this.state.lock().groups.push(group.clone());
    registry::insert_group(cookie, group.clone());
    match this.ask(Command::JoinMulticast { id: this.number, addr, join, cookie }) {
        Ok(Reply::Group(number)) => group.number.store(number, Ordering::Release),
        other => {
            registry::remove_group(cookie);
            this.state.lock().groups.retain(|other| !Arc::ptr_eq(other, &group));
            return Err(other.err().unwrap_or(libc::EPROTO));
        }
    }
    // SAFETY: the program's identifier.
    unsafe { complete(id) }
}

/// Leaves a group, once every event of the membership is acknowledged.
pub unsafe extern "C" fn rdma_leave_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { leave(id, addr) })
}

unsafe fn leave(id: *mut rdma_cm_id, addr: *mut sockaddr) -> Result<(), c_int> {
    // SAFETY: the program's identifier and address.
    let (this, addr) = unsafe { (Id::of_argument(id)?, address::read(addr)?) };
    let group = {
        let mut state = this.state.lock();
        // The latest first, as in rdma-core's list.
        let place = state.groups.iter().rposition(|group| group.addr == addr).ok_or(libc::EADDRNOTAVAIL)?;
        state.groups.remove(place)
    };
    // SAFETY: a plain read of a pointer that the program's own calls set.
    let qp = unsafe { (*id).qp };
    let attached = group.take_attached();
    if let Some((gid, lid)) = attached
        && !qp.is_null()
    {
        // SAFETY: the identifier's queue pair. If it is not the attached one, verbs refuses.
        unsafe { ibv_detach_mcast(qp, &ibv_gid { raw: gid }, lid) };
    }
    let number: GroupNumber = group.number.load(Ordering::Acquire);
    let left = this.order(Command::LeaveMulticast { group: number });
    registry::remove_group(group.cookie);
    left?;
    if this.state.lock().sync {
        // The join call left its event in the identifier.
        // SAFETY: the program's identifier.
        unsafe { give_back(id) };
    }
    let mut state = this.state.lock();
    while !group.is_acknowledged() {
        this.acknowledged.wait(&mut state);
    }
    Ok(())
}
