//! The work request builders of extended queue pairs: start, a call for each request with its setters, complete.
//!
//! `ibv_wr_complete` posts all requests or none; nothing is posted before.

use libc::{c_int, c_void};
use parking_lot::lock_api::RawMutex as _;
use weft_abi_types::{ibv_ah, ibv_data_buf, ibv_qp_ex, ibv_sge};
use weft_verbs::{INLINE_MAX, SendFlags, SendOp, Sge, UdTarget, VerbsError};

use crate::ah::Ah;
use crate::builder::{BuilderState, Building, Payload};
use crate::errors::{of_verbs, set_errno};
use crate::object::Object;
use crate::qp::Qp;

/// Returns the requests under construction.
///
/// # Safety
/// Called between start and completion, on the thread that started; the reference is not kept.
unsafe fn state<'a>(qp: *mut ibv_qp_ex) -> &'a mut BuilderState {
    // SAFETY: by the contract this thread holds the lock.
    unsafe { &mut *Qp::of(qp).builder.state.get() }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: a queue pair of ours; the lock is this thread's from here on.
    unsafe {
        Qp::of(qp).builder.lock.lock();
        state(qp).clear();
    }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: called after start, on the same thread.
    unsafe { Qp::of(qp).builder.lock.unlock() };
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: called after start, on the same thread.
    let (this, state) = unsafe { (Qp::of(qp), state(qp)) };
    let errno = if state.error != 0 { state.error } else { post(this, state).map_or_else(of_verbs, |()| 0) };
    // SAFETY: as above.
    unsafe { this.builder.lock.unlock() };
    if errno != 0 {
        set_errno(errno);
    }
    errno
}

/// Posts all requests that were built, or none.
fn post(qp: &Qp, state: &BuilderState) -> Result<(), VerbsError> {
    qp.process.post_sends(qp.id, |poster| {
        // A single request is refused as a whole anyway.
        if state.requests.len() > 1 {
            for (ahead, building) in state.requests.iter().enumerate() {
                state.with_wr(building, |wr| poster.would_post(wr, ahead))?;
            }
        }
        for building in &state.requests {
            state.with_wr(building, |wr| poster.post(wr))?;
        }
        Ok(())
    })
}

/// Starts a request with the ID and flags in the public structure.
///
/// # Safety
/// As [`state`].
pub(crate) unsafe fn begin(qp: *mut ibv_qp_ex, op: Result<SendOp, c_int>) {
    // SAFETY: by the contract.
    let (state, wr_id, flags) = unsafe { (state(qp), (*qp).wr_id, (*qp).wr_flags) };
    let (op, flags) = match (op, SendFlags::from_bits(flags)) {
        (Ok(op), Some(flags)) => (op, flags - SendFlags::INLINE),
        (Err(errno), _) => return state.refuse(errno),
        (_, None) => return state.refuse(libc::EINVAL),
    };
    state.requests.push(Building { wr_id, flags, op, payload: Payload::None, ud: None, xrc_srqn: None });
}

unsafe extern "C" fn wr_send_tso(qp: *mut ibv_qp_ex, _hdr: *mut c_void, _hdr_sz: u16, _mss: u16) {
    // SAFETY: as above.
    unsafe { state(qp) }.refuse(libc::EOPNOTSUPP);
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: C builds only between start and completion.
    let state = unsafe { state(qp) };
    if ah.is_null() {
        return state.refuse(libc::EINVAL);
    }
    // SAFETY: a handle of ours.
    let av = unsafe { Ah::of(ah) }.av;
    if let Some(last) = state.last() {
        last.ud = Some(UdTarget { av, remote_qpn, remote_qkey });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    // SAFETY: C builds only between start and completion.
    if let Some(last) = unsafe { state(qp) }.last() {
        last.xrc_srqn = Some(remote_srqn);
    }
}

/// Copies inline payload now.
///
/// # Safety
/// As [`state`]; every piece is readable.
pub(crate) unsafe fn set_inline(qp: *mut ibv_qp_ex, pieces: impl Iterator<Item = (*const c_void, usize)>) {
    // SAFETY: by the contract.
    let state = unsafe { state(qp) };
    let start = state.inline.len();
    for (addr, length) in pieces {
        if length == 0 {
            continue;
        }
        let room = (INLINE_MAX as usize).saturating_sub(state.inline.len() - start);
        if addr.is_null() || length > room {
            return state.refuse(if addr.is_null() { libc::EINVAL } else { libc::ENOMEM });
        }
        // SAFETY: by the contract.
        state.inline.extend_from_slice(unsafe { std::slice::from_raw_parts(addr.cast::<u8>(), length) });
    }
    state.set_payload(Payload::Inline(start..state.inline.len()));
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: C builds only between start and completion; the caller's bytes.
    unsafe { set_inline(qp, std::iter::once((addr.cast_const(), length))) };
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp_ex, num_buf: usize, list: *const ibv_data_buf) {
    // SAFETY: C builds only between start and completion; the caller's list and bytes.
    unsafe {
        set_inline(
            qp,
            (0..num_buf).map(|i| {
                let buf = list.add(i).read_unaligned();
                (buf.addr.cast_const(), buf.length)
            }),
        );
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: C builds only between start and completion.
    unsafe { state(qp) }.set_sges(std::iter::once(Sge { addr, length, lkey }));
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, num_sge: usize, list: *const ibv_sge) {
    // SAFETY: C builds only between start and completion; the caller's list.
    unsafe {
        state(qp).set_sges((0..num_sge).map(|i| {
            let sge = list.add(i).read_unaligned();
            Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey }
        }));
    }
}

/// Fills in all calls but those that begin a request. A program may use only those it requested, but a null pointer
/// would crash an incorrect program.
pub(crate) fn fill_calls(public: &mut ibv_qp_ex) {
    public.wr_start = Some(wr_start);
    public.wr_complete = Some(wr_complete);
    public.wr_abort = Some(wr_abort);
    public.wr_send_tso = Some(wr_send_tso);
    public.wr_set_ud_addr = Some(wr_set_ud_addr);
    public.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    public.wr_set_inline_data = Some(wr_set_inline_data);
    public.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    public.wr_set_sge = Some(wr_set_sge);
    public.wr_set_sge_list = Some(wr_set_sge_list);
}
