//! Endpoints: an identifier prepared in one step from the result of `rdma_getaddrinfo`.

use libc::c_int;
use std::ptr::null_mut;
use weft_abi_types::{
    RAI_PASSIVE, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, ibv_pd, ibv_qp_init_attr, ibv_qp_type, rdma_addrinfo, rdma_cm_id,
    rdma_port_space,
};

use crate::complete::complete;
use crate::create::{create, rdma_destroy_id};
use crate::errors::{errno, fail, set_errno};
use crate::id::Id;
use crate::qp::{rdma_create_qp, rdma_destroy_qp};
use crate::srq::rdma_destroy_srq;
use crate::{option, route};

/// Time limit of each resolution.
const RESOLVE_TIMEOUT_MS: c_int = 2000;

/// Creates an identifier: bound, if the address is for listening, else with its route and, given attributes, its queue
/// pair.
pub unsafe extern "C" fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    if id.is_null() || res.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the caller's addresses, domain and attributes, and a place for the identifier.
    unsafe {
        let (ps, qp_type) = ((*res).ai_port_space as rdma_port_space, (*res).ai_qp_type as ibv_qp_type);
        let new = match create(null_mut(), null_mut(), ps, qp_type) {
            Ok(new) => new,
            Err(errno) => return fail(errno),
        };
        let ready = if (*res).ai_flags & RAI_PASSIVE != 0 {
            passive(new, res, pd, qp_init_attr)
        } else {
            active(new, res, pd, qp_init_attr)
        };
        if let Err(errno) = ready {
            rdma_destroy_ep(new);
            return fail(errno);
        }
        *id = new;
        0
    }
}

unsafe fn passive(
    id: *mut rdma_cm_id,
    res: *const rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *const ibv_qp_init_attr,
) -> Result<(), c_int> {
    // SAFETY: as the caller promises.
    unsafe {
        route::bind(id, (*res).ai_src_addr)?;
        if !pd.is_null() {
            (*id).pd = pd;
        }
        Id::of(id).state.lock().qp_init_attr =
            qp_init_attr.as_ref().map(|attr| ibv_qp_init_attr { qp_type: (*res).ai_qp_type as ibv_qp_type, ..*attr });
    }
    Ok(())
}

unsafe fn active(
    id: *mut rdma_cm_id,
    res: *const rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> Result<(), c_int> {
    // SAFETY: as the caller promises.
    unsafe {
        route::resolve_addr(id, (*res).ai_src_addr, (*res).ai_dst_addr, RESOLVE_TIMEOUT_MS)?;
        if (*res).ai_route_len > 0 {
            option::set(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, (*res).ai_route, (*res).ai_route_len)?;
            complete(id)?;
        } else {
            route::resolve_route(id, RESOLVE_TIMEOUT_MS)?;
        }
        if !qp_init_attr.is_null() {
            (*qp_init_attr).qp_type = (*res).ai_qp_type as ibv_qp_type;
            if rdma_create_qp(id, pd, qp_init_attr) != 0 {
                return Err(errno());
            }
        }
        if (*res).ai_connect_len > 0 && !(*res).ai_connect.is_null() {
            let data = std::slice::from_raw_parts((*res).ai_connect.cast::<u8>(), (*res).ai_connect_len);
            Id::of(id).state.lock().connect = data.to_vec();
        }
    }
    Ok(())
}

/// Destroys an endpoint with its queues.
pub unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    if id.is_null() {
        return;
    }
    // SAFETY: the program's identifier, for the last time.
    unsafe {
        let errno = errno();
        if !(*id).qp.is_null() {
            rdma_destroy_qp(id);
        }
        if !(*id).srq.is_null() {
            rdma_destroy_srq(id);
        }
        rdma_destroy_id(id);
        set_errno(errno);
    }
}
