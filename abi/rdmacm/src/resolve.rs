//! Asynchronous name resolution: the answer arrives as an event, and the program fetches it then. Also events that
//! programs write themselves.

use libc::{c_char, c_int};
use std::ptr::null_mut;
use weft_abi_types::{
    RAI_DNS, RAI_SA, RDMA_CM_EVENT_ADDRINFO_RESOLVED, RDMA_CM_EVENT_INTERNAL, RDMA_CM_EVENT_USER, rdma_addrinfo,
    rdma_cm_event_type, rdma_cm_id,
};
use weft_cm::rdma_cm::Command;

use crate::addrinfo::{rdma_freeaddrinfo, rdma_getaddrinfo};
use crate::complete::complete;
use crate::errors::{code, errno, fail};
use crate::id::Id;

/// Resolves a node and service; ADDRINFO_RESOLVED follows.
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
            forget(this);
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
        if flags & RAI_SA != 0 {
            // Only subnet administrators have service records, and RoCE has no administrator.
            return Err(if flags & RAI_DNS != 0 || !node.is_null() { libc::ENOTSUP } else { libc::EOPNOTSUPP });
        }
        let mut found = null_mut();
        match rdma_getaddrinfo(node, service, hints, &mut found) {
            0 => {}
            -1 => return Err(errno()),
            // Errors of getaddrinfo(3) have no errno.
            _ => return Err(libc::EADDRNOTAVAIL),
        }
        let this = Id::of(id);
        this.state.lock().resolved_addrinfo = found;
        write(this, RDMA_CM_EVENT_INTERNAL, 0, RDMA_CM_EVENT_ADDRINFO_RESOLVED.into())?;
        complete(id)
    }
}

/// Discards an unfetched answer.
pub(crate) fn forget(id: &Id) {
    let left = {
        let mut state = id.state.lock();
        state.resolving_addrinfo = false;
        std::mem::replace(&mut state.resolved_addrinfo, null_mut())
    };
    // SAFETY: from rdma_getaddrinfo, or null; no other code has the pointer.
    unsafe { rdma_freeaddrinfo(left) };
}

/// Returns the resolved addresses; the program frees them.
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

/// Puts an event of the program's own, RDMA_CM_EVENT_USER, into the identifier's channel.
pub unsafe extern "C" fn rdma_write_cm_event(
    id: *mut rdma_cm_id,
    event: rdma_cm_event_type,
    status: c_int,
    arg: u64,
) -> c_int {
    if event != RDMA_CM_EVENT_USER {
        return fail(libc::EINVAL);
    }
    // SAFETY: the program's identifier.
    code(unsafe { Id::of_argument(id) }.and_then(|this| write(this, event, status, arg)))
}

fn write(id: &Id, event: rdma_cm_event_type, status: c_int, arg: u64) -> Result<(), c_int> {
    id.order(Command::WriteEvent { id: id.number, event, status, arg })
}
