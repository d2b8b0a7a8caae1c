//! Multicast groups.

use libc::c_int;
use weft_abi_types::{ibv_gid, ibv_qp};
use weft_verbs::Gid;

use crate::errors::code;
use crate::qp::Qp;

/// Attaches a queue pair to a multicast group.
pub unsafe extern "C" fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    if qp.is_null() || gid.is_null() {
        return code(Err(libc::EINVAL));
    }
    // SAFETY: a queue pair of ours, and the caller's GID.
    let (this, group) = unsafe { (Qp::of_plain(qp), Gid((*gid).raw)) };
    code(this.process.attach_mcast(this.id, group, lid))
}

/// Detaches a queue pair from a multicast group.
pub unsafe extern "C" fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    if qp.is_null() || gid.is_null() {
        return code(Err(libc::EINVAL));
    }
    // SAFETY: a queue pair of ours, and the caller's GID.
    let (this, group) = unsafe { (Qp::of_plain(qp), Gid((*gid).raw)) };
    code(this.process.detach_mcast(this.id, group, lid))
}
