//! Resolving names in the background: the answer comes as an event, and is fetched then.

use libc::{c_char, c_int};
use std::ptr::null_mut;
use weft_abi_types::{RAI_DNS, RAI_SA, rdma_addrinfo, rdma_cm_event_type, rdma_cm_id};

use crate::addrinfo::rdma_getaddrinfo;
use crate::errors::{code, errno, fail};
use crate::id::Id;

/// Resolves a node and service; ADDRINFO_RESOLVED or ADDRINFO_ERROR follows.
pub unsafe extern "C" fn rdma_resolve_addrinfo(
    id: *mut rdma_cm_id,
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> c_int {
    // SAFETY: the program's identifier, names and hints.
    unsafe {
        let this = match Id::of_argument(id) {
            Ok(this) => this,
            Err(errno) => return fail(errno),
        };
        {
            let mut state = this.state.lock();
            if state.resolving_addrinfo {
                return fail(libc::EBUSY);
            }
            state.resolving_addrinfo = true;
        }
        let resolved = resolve(id, node, service, hints);
        if resolved.is_err() {
            this.state.lock().resolving_addrinfo = false;
        }
        code(resolved)
    }
}

unsafe fn resolve(
    id: *mut rdma_cm_id,
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> Result<(), c_int> {
    // SAFETY: as the caller promises.
    unsafe {
        let flags = hints.as_ref().map_or(0, |hints| hints.ai_flags);
        if flags & RAI_SA != 0 && (flags & RAI_DNS != 0 || !node.is_null()) {
            return Err(libc::ENOTSUP);
        }
        let mut found = null_mut();
        match rdma_getaddrinfo(node, service, hints, &mut found) {
            0 => {}
            -1 => return Err(errno()),
            _ => return Err(libc::EINVAL),
        }
        Id::of(id).state.lock().resolved_addrinfo = found;
        let _ = id;
        Err(libc::EOPNOTSUPP)
    }
}

/// Hands over what was resolved; the program frees it.
pub unsafe extern "C" fn rdma_query_addrinfo(id: *mut rdma_cm_id, info: *mut *mut rdma_addrinfo) -> c_int {
    if info.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the program's identifier, and a place for the answer.
    code(unsafe { Id::of_argument(id) }.and_then(|this| {
        let mut state = this.state.lock();
        if !state.resolving_addrinfo || state.resolved_addrinfo.is_null() {
            return Err(libc::ENOENT);
        }
        state.resolving_addrinfo = false;
        // SAFETY: as above.
        unsafe { *info = std::mem::replace(&mut state.resolved_addrinfo, null_mut()) };
        Ok(())
    }))
}

/// Puts an event of the program's own into the identifier's channel.
pub unsafe extern "C" fn rdma_write_cm_event(
    _id: *mut rdma_cm_id,
    _event: rdma_cm_event_type,
    _status: c_int,
    _arg: u64,
) -> c_int {
    fail(libc::EOPNOTSUPP)
}
