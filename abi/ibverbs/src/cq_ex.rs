//! Extended completion queues: polled by start, next and end, read field by field.

use libc::{c_int, c_uint};
use weft_abi_types::{
    IBV_WC_EX_WITH_BYTE_LEN, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
    IBV_WC_EX_WITH_DLID_PATH_BITS, IBV_WC_EX_WITH_IMM, IBV_WC_EX_WITH_QP_NUM, IBV_WC_EX_WITH_SL, IBV_WC_EX_WITH_SLID,
    IBV_WC_EX_WITH_SRC_QP, be32, ibv_cq_ex, ibv_poll_cq_attr, ibv_wc_opcode,
};
use weft_verbs::Wc;

use crate::cq::Cq;
use crate::object::Object;
use crate::process;

/// Moves to the next completion: returns 0, ENOENT if there is none, or an error.
///
/// # Safety
/// The calling thread is the polling thread.
unsafe fn advance(cq: &Cq) -> c_int {
    let wc = match cq.cursor.next(|batch| cq.process.poll_cq(cq.id, batch)) {
        Ok(wc) => wc,
        Err(errno) => return errno,
    };
    let public = cq.public();
    // SAFETY: by the contract no other thread touches the current completion or the public fields now.
    unsafe {
        (*public).wr_id = wc.wr_id;
        (*public).status = wc.status as u32;
        *cq.cursor.current() = wc;
    }
    0
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: a queue of ours, and the caller's attributes or null.
    let (this, mask) = unsafe { (Cq::of(cq), attr.as_ref().map_or(0, |a| a.comp_mask)) };
    if mask != 0 {
        return libc::EINVAL;
    }
    this.cursor.lock();
    // SAFETY: this thread polls from here on; on failure it does not, and releases the lock.
    unsafe {
        let rc = advance(this);
        if rc != 0 {
            this.cursor.unlock();
        }
        rc
    }
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: called between start and end, on the polling thread.
    unsafe { advance(Cq::of(cq)) }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: called after a successful start, on the polling thread.
    unsafe { Cq::of(cq).cursor.unlock() };
}

/// Returns the current completion.
///
/// # Safety
/// Called between start and end, on the polling thread.
unsafe fn current<'a>(cq: *mut ibv_cq_ex) -> &'a Wc {
    // SAFETY: by the contract.
    unsafe { &*Cq::of(cq).cursor.current() }
}

macro_rules! readers {
    ($($name:ident -> $ty:ty = |$wc:ident| $value:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $ty {
            // SAFETY: C reads fields only between start and end.
            let $wc = unsafe { current(cq) };
            $value
        }
    )*};
}

readers! {
    read_opcode -> ibv_wc_opcode = |wc| wc.opcode as u32;
    read_vendor_err -> u32 = |wc| wc.vendor_err;
    read_byte_len -> u32 = |wc| wc.byte_len;
    read_imm_data -> be32 = |wc| wc.imm_data;
    read_qp_num -> u32 = |wc| wc.qp_num;
    read_src_qp -> u32 = |wc| wc.src_qp;
    read_wc_flags -> c_uint = |wc| wc.flags.bits();
    read_slid -> u32 = |wc| u32::from(wc.slid);
    read_sl -> u8 = |wc| wc.sl;
    read_dlid_path_bits -> u8 = |wc| wc.dlid_path_bits;
    read_completion_ts -> u64 = |wc| wc.timestamp;
    read_completion_wallclock_ns -> u64 = |wc| process::wallclock_ns(wc.timestamp);
}

/// Fills in the calls that every extended queue has, and the readers of the requested fields. The others stay null,
/// because a program may test them.
pub(crate) fn fill_calls(public: &mut ibv_cq_ex, wc_flags: u64) {
    public.start_poll = Some(start_poll);
    public.next_poll = Some(next_poll);
    public.end_poll = Some(end_poll);
    public.read_opcode = Some(read_opcode);
    public.read_vendor_err = Some(read_vendor_err);
    public.read_wc_flags = Some(read_wc_flags);
    let asked = |flag: u32| wc_flags & u64::from(flag) != 0;
    public.read_byte_len = asked(IBV_WC_EX_WITH_BYTE_LEN).then_some(read_byte_len);
    public.read_imm_data = asked(IBV_WC_EX_WITH_IMM).then_some(read_imm_data);
    public.read_qp_num = asked(IBV_WC_EX_WITH_QP_NUM).then_some(read_qp_num);
    public.read_src_qp = asked(IBV_WC_EX_WITH_SRC_QP).then_some(read_src_qp);
    public.read_slid = asked(IBV_WC_EX_WITH_SLID).then_some(read_slid);
    public.read_sl = asked(IBV_WC_EX_WITH_SL).then_some(read_sl);
    public.read_dlid_path_bits = asked(IBV_WC_EX_WITH_DLID_PATH_BITS).then_some(read_dlid_path_bits);
    public.read_completion_ts = asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP).then_some(read_completion_ts);
    public.read_completion_wallclock_ns =
        asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK).then_some(read_completion_wallclock_ns);
}
