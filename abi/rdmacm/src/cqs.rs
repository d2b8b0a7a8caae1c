//! Completion queues that an identifier creates for a queue pair or a shared receive queue without its own.

use libc::c_int;
use std::ptr::null_mut;
use weft_abi_types::{IBV_QPT_XRC_RECV, ibv_comp_channel, ibv_cq, rdma_cm_id};

use crate::errors::made;
use crate::verbs::{ibv_create_comp_channel, ibv_create_cq, ibv_destroy_comp_channel, ibv_destroy_cq};

/// Creates queues of these sizes, with a channel each; none for size 0.
pub(crate) unsafe fn create(id: *mut rdma_cm_id, send: u32, recv: u32) -> Result<(), c_int> {
    // SAFETY: the caller's identifier, which has a device.
    unsafe {
        let created = (|| {
            if recv > 0 {
                one(id, recv, &raw mut (*id).recv_cq_channel, &raw mut (*id).recv_cq)?;
            }
            if send > 0 {
                one(id, send, &raw mut (*id).send_cq_channel, &raw mut (*id).send_cq)?;
            }
            Ok(())
        })();
        if created.is_err() {
            destroy(id);
        }
        created
    }
}

unsafe fn one(
    id: *mut rdma_cm_id,
    size: u32,
    channel: *mut *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
) -> Result<(), c_int> {
    let size = c_int::try_from(size).map_err(|_| libc::EINVAL)?;
    // SAFETY: as in `create`; the places are in the identifier.
    unsafe {
        *channel = made(ibv_create_comp_channel((*id).verbs))?;
        *cq = made(ibv_create_cq((*id).verbs, size, id.cast(), *channel, 0))?;
    }
    Ok(())
}

/// Destroys the queues created here. An identifier that receives for extended reliable connections keeps them as long
/// as its shared receive queue.
pub(crate) unsafe fn destroy(id: *mut rdma_cm_id) {
    // SAFETY: the caller's identifier. The queue pair that used the queues is gone.
    unsafe {
        if (*id).qp_type == IBV_QPT_XRC_RECV && !(*id).srq.is_null() {
            return;
        }
        let recv = std::mem::replace(&mut (*id).recv_cq, null_mut());
        let send = std::mem::replace(&mut (*id).send_cq, null_mut());
        for cq in [recv, if send == recv { null_mut() } else { send }] {
            if !cq.is_null() {
                ibv_destroy_cq(cq);
            }
        }
        let recv = std::mem::replace(&mut (*id).recv_cq_channel, null_mut());
        let send = std::mem::replace(&mut (*id).send_cq_channel, null_mut());
        for channel in [recv, if send == recv { null_mut() } else { send }] {
            if !channel.is_null() {
                ibv_destroy_comp_channel(channel);
            }
        }
    }
}
