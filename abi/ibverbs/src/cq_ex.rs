//! Extended completion queues: polled by start, next and end, read field by field.

use libc::{c_int, c_uint};
use parking_lot::Mutex;
use parking_lot::lock_api::RawMutex as _;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_abi_types::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED, IBV_WC_EX_WITH_BYTE_LEN, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, IBV_WC_EX_WITH_DLID_PATH_BITS, IBV_WC_EX_WITH_IMM,
    IBV_WC_EX_WITH_QP_NUM, IBV_WC_EX_WITH_SL, IBV_WC_EX_WITH_SLID, IBV_WC_EX_WITH_SRC_QP, IBV_WC_STANDARD_FLAGS, be32,
    ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_poll_cq_attr, ibv_wc_opcode,
};
use weft_verbs::Wc;

use crate::cq::{Cq, POLL_BATCH, Request, create};
use crate::errors::{fail, fail_null, pointer};
use crate::object::Object;
use crate::process;

/// Fields that programs can request in completions.
const WC_FLAGS: u64 = (IBV_WC_STANDARD_FLAGS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) as u64;

/// Completions fetched and not returned yet.
#[derive(Default)]
struct Fetched {
    batch: [Wc; POLL_BATCH],
    next: usize,
    end: usize,
}

/// Position of an extended poll.
pub(crate) struct Cursor {
    /// Held from start to end, unless the program promised to use a single thread.
    poll_lock: parking_lot::RawMutex,
    single_threaded: bool,
    fetched: Mutex<Fetched>,
    /// Whether an extended poll ever fetched completions: until then a plain poll need not check.
    used: AtomicBool,
    /// The current completion. Only the thread between start and end touches it.
    current: UnsafeCell<Wc>,
}

impl Cursor {
    /// Creates an idle cursor.
    pub(crate) fn new(single_threaded: bool) -> Cursor {
        Cursor {
            poll_lock: parking_lot::RawMutex::INIT,
            single_threaded,
            fetched: Mutex::default(),
            used: AtomicBool::new(false),
            current: UnsafeCell::default(),
        }
    }

    /// Takes a fetched completion that was not returned, for a plain poll of the same queue.
    #[inline]
    pub(crate) fn take_left(&self) -> Option<Wc> {
        // A program that polls in both ways from several threads synchronises them itself.
        if !self.used.load(Ordering::Relaxed) {
            return None;
        }
        self.take_fetched()
    }

    fn take_fetched(&self) -> Option<Wc> {
        let mut fetched = self.fetched.lock();
        if fetched.next == fetched.end {
            return None;
        }
        fetched.next += 1;
        Some(fetched.batch[fetched.next - 1])
    }

    /// Drops the fetched completions of a queue pair.
    pub(crate) fn forget(&self, qpn: u32) {
        let mut fetched = self.fetched.lock();
        let Fetched { batch, next, end } = &mut *fetched;
        let mut kept = *next;
        for i in *next..*end {
            if batch[i].qp_num != qpn {
                batch[kept] = batch[i];
                kept += 1;
            }
        }
        *end = kept;
    }

    fn lock(&self) {
        if !self.single_threaded {
            self.poll_lock.lock();
        }
    }

    /// # Safety
    /// The calling thread holds the lock.
    unsafe fn unlock(&self) {
        if !self.single_threaded {
            // SAFETY: by the contract.
            unsafe { self.poll_lock.unlock() };
        }
    }
}

/// Moves to the next completion: returns 0, ENOENT if there is none, or an error.
///
/// # Safety
/// The calling thread is the polling thread.
unsafe fn advance(cq: &Cq) -> c_int {
    let cursor = &cq.cursor;
    let wc = {
        let mut fetched = cursor.fetched.lock();
        if fetched.next == fetched.end {
            fetched.next = 0;
            fetched.end = 0;
            cursor.used.store(true, Ordering::Relaxed);
            match cq.process.poll_cq(cq.id, &mut fetched.batch) {
                Err(_) => return libc::EIO,
                Ok(0) => return libc::ENOENT,
                Ok(got) => fetched.end = got,
            }
        }
        fetched.next += 1;
        fetched.batch[fetched.next - 1]
    };
    let public = cq.public();
    // SAFETY: by the contract no other thread touches the current completion or the public fields now.
    unsafe {
        (*public).wr_id = wc.wr_id;
        (*public).status = wc.status as u32;
        *cursor.current.get() = wc;
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
    unsafe { &*Cq::of(cq).cursor.current.get() }
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

pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    const MASK: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    if attr.is_null() {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: the caller's attributes; fields that comp_mask does not name may be missing, and are not read.
    let attr = unsafe { &*attr };
    let given = |mask: u32| attr.comp_mask & mask != 0;
    let flags = if given(IBV_CQ_INIT_ATTR_MASK_FLAGS) { attr.flags } else { 0 };
    if attr.comp_mask & !MASK != 0 || attr.wc_flags & !WC_FLAGS != 0 || flags & !FLAGS != 0 {
        return fail_null(libc::EOPNOTSUPP);
    }
    if given(IBV_CQ_INIT_ATTR_MASK_PD) && attr.parent_domain.is_null() {
        fail(libc::EINVAL);
        return std::ptr::null_mut();
    }
    let request = Request {
        context,
        cqe: i64::from(attr.cqe),
        cq_context: attr.cq_context,
        channel: attr.channel,
        comp_vector: i64::from(attr.comp_vector),
        ignore_overrun: flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
        single_threaded: flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0,
        wc_flags: attr.wc_flags,
    };
    pointer(create(&request))
}
