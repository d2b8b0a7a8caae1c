//! Queue pairs.

use std::ptr::null_mut;

use libc::c_int;
use weft_abi_types::{
    IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_CAP, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_PATH_MTU, IBV_QP_PORT,
    IBV_QP_RETRY_CNT, IBV_QP_STATE, IBV_QP_TIMEOUT, api, ibv_gid, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};
use weft_check::model::{Kind, QpAttributes, QpState};

use crate::arguments::{self, handle};
use crate::call::Call;
use crate::next::next;
use crate::{destruction, devices, extended, waiting};

/// ibv_create_qp(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    let Some(next) = next!(ibv_create_qp: api::fn_ibv_create_qp) else { return null_mut() };
    // SAFETY: the caller's promise.
    unsafe {
        // The library answers null arguments.
        let call = Call::enter("ibv_create_qp").filter(|_| !pd.is_null() && !attr.is_null());
        let Some(call) = call else { return next(pd, attr) };
        call.tell(|model, site| {
            model.check_alive(Kind::Pd, handle(pd), site);
            for cq in [(*attr).send_cq, (*attr).recv_cq] {
                model.check_alive(Kind::Cq, handle(cq), site);
            }
        });
        let (context, wanted) = ((*pd).context, (*attr).cap);
        let qp = next(pd, attr);
        if qp.is_null() {
            call.tell(|model, site| model.creation_refused(handle(context), arguments::cap(&wanted), site));
            return qp;
        }
        let model = arguments::qp(qp, &(*attr).cap, (*attr).sq_sig_all != 0);
        call.tell(|state, site| state.add_qp(handle(qp), model, site));
        qp
    }
}

/// Reads the arguments of ibv_modify_qp.
///
/// # Safety
/// The program's promise to ibv_modify_qp.
unsafe fn attributes(qp: *mut ibv_qp, attr: *const ibv_qp_attr, mask: u32) -> QpAttributes {
    // SAFETY: the caller's promise.
    let (qp, attr) = unsafe { (&*qp, &*attr) };
    let has = |flag: u32| mask & flag != 0;
    let vector = &attr.ah_attr;
    let port = if has(IBV_QP_PORT) { Some(attr.port_num) } else { has(IBV_QP_AV).then_some(vector.port_num) };
    // SAFETY: the queue pair's device is open.
    unsafe {
        QpAttributes {
            mask,
            from: QpState::from_verbs(qp.state),
            state: has(IBV_QP_STATE).then(|| QpState::from_verbs(attr.qp_state)),
            port: has(IBV_QP_PORT).then_some(attr.port_num),
            port_mtu_bytes: port.and_then(|port| devices::port_mtu_bytes(qp.context, port)),
            path_mtu_bytes: has(IBV_QP_PATH_MTU).then(|| devices::mtu_bytes(attr.path_mtu)).flatten(),
            timeout: has(IBV_QP_TIMEOUT).then_some(attr.timeout),
            retry_count: has(IBV_QP_RETRY_CNT).then_some(attr.retry_cnt),
            read_limit: has(IBV_QP_MAX_QP_RD_ATOMIC).then_some(attr.max_rd_atomic),
            access: has(IBV_QP_ACCESS_FLAGS).then_some(attr.qp_access_flags),
            address: has(IBV_QP_AV).then(|| {
                devices::address_vector(qp.context, vector.port_num, vector.is_global != 0, vector.grh.sgid_index)
            }),
        }
    }
}

/// ibv_modify_qp(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    let Some(next) = next!(ibv_modify_qp: api::fn_ibv_modify_qp) else { return libc::ENOSYS };
    // SAFETY: the caller's promise.
    unsafe {
        // The library answers null arguments.
        let call = Call::enter("ibv_modify_qp").filter(|_| !qp.is_null() && !attr.is_null());
        let Some(call) = call else { return next(qp, attr, mask) };
        let told = attributes(qp, attr, mask.cast_unsigned());
        call.tell(|model, site| model.check_modify(handle(qp), &told, site));
        let result = next(qp, attr, mask);
        if result == 0 {
            call.tell(|model, _| {
                model.modified(handle(qp), &told);
                if told.mask & IBV_QP_CAP != 0 {
                    model.recapped(handle(qp), arguments::cap(&(*attr).cap));
                }
            });
            if told.state == Some(QpState::Reset) {
                waiting::queue_pair_gone([(*qp).send_cq, (*qp).recv_cq], (*qp).qp_num);
            }
        } else {
            call.tell(|model, site| model.modify_refused(handle(qp), &told, site));
        }
        result
    }
}

/// ibv_query_qp(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    let Some(next) = next!(ibv_query_qp: api::fn_ibv_query_qp) else { return libc::ENOSYS };
    let call = Call::enter("ibv_query_qp");
    if let Some(call) = &call {
        call.tell_briefly(|model, _, site| model.check_alive(Kind::Qp, handle(qp), site));
    }
    // SAFETY: the caller's promise.
    unsafe { next(qp, attr, mask, init_attr) }
}

/// ibv_attach_mcast(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    let Some(next) = next!(ibv_attach_mcast: api::fn_ibv_attach_mcast) else { return libc::ENOSYS };
    let call = Call::enter("ibv_attach_mcast");
    if let Some(call) = &call {
        call.tell_briefly(|model, _, site| model.check_alive(Kind::Qp, handle(qp), site));
    }
    // SAFETY: the caller's promise.
    unsafe { next(qp, gid, lid) }
}

/// ibv_destroy_qp(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    let Some(next) = next!(ibv_destroy_qp: api::fn_ibv_destroy_qp) else { return libc::ENOSYS };
    let Some(call) = Call::enter("ibv_destroy_qp") else {
        // SAFETY: the caller's promise.
        return unsafe { next(qp) };
    };
    // SAFETY: the caller's promise: null, or a live queue pair.
    let known = unsafe { qp.as_ref() }.map(|public| ([public.send_cq, public.recv_cq], public.qp_num));
    // SAFETY: the caller's promise.
    let next = || extended::destroying(handle(qp), || unsafe { next(qp) });
    let result = destruction::destroy(&call, Kind::Qp, handle(qp), next);
    if let (0, Some((cqs, number))) = (result, known) {
        waiting::queue_pair_gone(cqs, number);
    }
    result
}
