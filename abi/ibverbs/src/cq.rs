//! Completion queues: polling, arming, resizing, destroying.

use libc::c_int;
use std::cell::UnsafeCell;
use weft_abi_types::{ibv_comp_channel, ibv_cq, ibv_cq_ex, ibv_wc, ibv_wc_imm};
use weft_verbs::{CqId, VerbsError, Wc};

use crate::async_item::{About, Reported};
use crate::channel::Channel;
use crate::context::Context;
use crate::cq_cursor::{Cursor, POLL_BATCH};
use crate::errors::{code, fail};
use crate::object::{Object, wait_acknowledged};
use crate::owned::Owned;
use crate::process::Process;

/// A completion queue. All are extended ones, so that programs may cast.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) public: UnsafeCell<ibv_cq_ex>,
    pub(crate) id: CqId,
    pub(crate) process: Process,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) comp_reported: Reported,
    pub(crate) async_reported: Reported,
    /// Position of an extended poll.
    pub(crate) cursor: Cursor,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Cq {
    type Public = ibv_cq_ex;
}

impl Cq {
    /// Returns the queue behind the pointer to its plain structure, which is the start of the extended one.
    ///
    /// # Safety
    /// As [`Object::of`].
    pub(crate) unsafe fn of_plain<'a>(cq: *mut ibv_cq) -> &'a Cq {
        // SAFETY: by the contract; every queue is an extended one.
        unsafe { Cq::of(cq.cast()) }
    }

    /// Returns the queue at an address that the adapter returned as a cookie.
    ///
    /// # Safety
    /// The queue is alive.
    pub(crate) unsafe fn at<'a>(address: usize) -> &'a Cq {
        // SAFETY: by the contract; the address was exposed when the queue was created.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }

    /// Returns the plain public pointer.
    pub(crate) fn public_cq(&self) -> *mut ibv_cq {
        self.public().cast()
    }

    /// Returns the context.
    pub(crate) fn context(&self) -> &Context {
        // SAFETY: contexts outlive their objects, and the program does not write the pointer.
        unsafe { Context::of((*self.public()).context) }
    }

    /// Handles a completion that the queue was armed for.
    pub(crate) fn on_completion_event(&self) {
        if !self.channel.is_null() {
            // SAFETY: a channel outlives the queues on it.
            unsafe { Channel::of(self.channel) }.events.push(std::ptr::from_ref(self).addr());
        }
    }

    /// Counts a completion event that the program took.
    pub(crate) fn on_event_taken(&self) {
        self.comp_reported.add();
    }
}

/// Changes the number of entries.
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    let Ok(wanted) = u32::try_from(cqe) else { return fail(libc::EINVAL) };
    if cq.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a queue of ours.
    let this = unsafe { Cq::of_plain(cq) };
    match this.process.control(|hca, _| hca.resize_cq(this.id, wanted)) {
        Err(errno) => fail(errno),
        Ok(granted) => {
            // SAFETY: our own public part.
            unsafe { (*cq).cqe = granted as c_int };
            0
        }
    }
}

/// Destroys a queue; EBUSY while queue pairs use it. Waits until all its events are acknowledged.
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    if cq.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a queue of ours.
    let this = unsafe { Cq::of_plain(cq) };
    if let Err(errno) = this.process.control(|hca, _| hca.destroy_cq(this.id)) {
        return fail(errno);
    }
    // The adapter has forgotten the queue. Once no event in progress names it either, purge its unread events.
    this.process.quiesce();
    let address = std::ptr::from_ref(this).addr();
    let context = this.context();
    context.disown(Owned::Cq(this.id));
    context.events.purge(|item| item.about == About::Cq(address));
    if !this.channel.is_null() {
        // SAFETY: a channel outlives the queues on it.
        let channel = unsafe { Channel::of(this.channel) };
        channel.events.purge(|event| *event == address);
        channel.count(-1);
    }
    // SAFETY: the public part is alive until the last line, and the program gives the queue up.
    unsafe {
        let (mutex, cond) = (&raw mut (*cq).mutex, &raw mut (*cq).cond);
        wait_acknowledged(mutex, cond, &raw const (*cq).comp_events_completed, this.comp_reported.get());
        wait_acknowledged(mutex, cond, &raw const (*cq).async_events_completed, this.async_reported.get());
        Cq::free(cq.cast());
    }
    0
}

/// Converts a completion to its C form.
pub(crate) fn wc_of(wc: &Wc) -> ibv_wc {
    ibv_wc {
        wr_id: wc.wr_id,
        status: wc.status as u32,
        opcode: wc.opcode as u32,
        vendor_err: wc.vendor_err,
        byte_len: wc.byte_len,
        imm: ibv_wc_imm { imm_data: wc.imm_data },
        qp_num: wc.qp_num,
        src_qp: wc.src_qp,
        wc_flags: wc.flags.bits(),
        pkey_index: wc.pkey_index,
        slid: wc.slid,
        sl: wc.sl,
        dlid_path_bits: wc.dlid_path_bits,
    }
}

pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    let Ok(wanted) = usize::try_from(num_entries) else { return -libc::EINVAL };
    // SAFETY: a queue of ours: this is the fast path, and C calls it through the queue itself.
    let this = unsafe { Cq::of_plain(cq) };
    // Completions that an extended poll fetched and did not return come first.
    let mut done = 0;
    while done < wanted
        && let Some(left) = this.cursor.take_left()
    {
        // SAFETY: the caller has room for num_entries completions.
        unsafe { wc.add(done).write_unaligned(wc_of(&left)) };
        done += 1;
    }
    // SAFETY: the caller has room for num_entries completions, and `done` of the places are filled.
    let polled = unsafe {
        match wanted - done {
            0 => Ok(0),
            // A poll for one is the most frequent, and most of them find nothing: it needs no large buffer.
            1 => poll_into::<1>(this, wc.add(done), 1),
            left => poll_many(this, wc.add(done), left),
        }
    };
    match polled {
        Ok(polled) => (done + polled) as c_int,
        Err(_) if done > 0 => done as c_int,
        Err(_) => -libc::EIO,
    }
}

/// As [`poll_into`], many at a time; a separate function, so that polls for one do not reserve its buffer.
///
/// # Safety
/// As for [`poll_into`].
#[inline(never)]
unsafe fn poll_many(this: &Cq, wc: *mut ibv_wc, wanted: usize) -> Result<usize, VerbsError> {
    // SAFETY: by the contract.
    unsafe { poll_into::<POLL_BATCH>(this, wc, wanted) }
}

/// Takes completions, `N` at a time; if an error follows some completions, the next poll returns it.
///
/// # Safety
/// There is room for `wanted` completions at `wc`.
#[inline]
unsafe fn poll_into<const N: usize>(this: &Cq, wc: *mut ibv_wc, wanted: usize) -> Result<usize, VerbsError> {
    let mut done = 0;
    let mut batch = [Wc::default(); N];
    while done < wanted {
        let room = N.min(wanted - done);
        let got = match this.process.poll_cq(this.id, &mut batch[..room]) {
            Ok(got) => got,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        };
        for completion in &batch[..got] {
            // SAFETY: the caller has room for `wanted` completions.
            unsafe { wc.add(done).write_unaligned(wc_of(completion)) };
            done += 1;
        }
        if got < room {
            break;
        }
    }
    Ok(done)
}

pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a queue of ours.
    let this = unsafe { Cq::of_plain(cq) };
    code(this.process.arm_cq(this.id, solicited_only != 0))
}
