//! Queue pairs: modifying, querying, destroying.

use libc::c_int;
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};
use weft_abi_types::{ibv_context, ibv_qp, ibv_qp_attr, ibv_qp_ex, ibv_qp_init_attr, ibv_wr_opcode, verbs_qp};
use weft_verbs::{QpAttrMask as Mask, QpId, QpState, QpType};

use crate::ah::request_of;
use crate::async_item::{About, Reported};
use crate::builder::Builder;
use crate::context::Context;
use crate::cq::Cq;
use crate::errors::{code, fail};
use crate::object::{Object, wait_acknowledged};
use crate::owned::Owned;
use crate::pd::Pd;
use crate::process::Process;
use crate::qp_attr::{attr_from_c, attr_to_c};

/// In `verbs_qp::comp_mask`: the program requested the extended calls.
pub(crate) const VERBS_QP_EX: u32 = 1;

/// A queue pair. All are extended ones, so that programs may cast.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) public: UnsafeCell<verbs_qp>,
    pub(crate) id: QpId,
    pub(crate) process: Process,
    pub(crate) qp_type: QpType,
    pub(crate) reported: Reported,
    pub(crate) handles: Arc<Handles>,
    /// The creation attributes, which `ibv_query_qp` returns.
    pub(crate) init: UnsafeCell<ibv_qp_init_attr>,
    /// Work requests being built.
    pub(crate) builder: Builder,
}

// SAFETY: repr(C), and ibv_qp_ex is the first field of verbs_qp.
unsafe impl Object for Qp {
    type Public = ibv_qp_ex;
}

/// The handles of one queue pair: one, or several for a reopened XRC target. Its address is the cookie that the adapter
/// returns with events.
#[derive(Default)]
pub(crate) struct Handles(Mutex<Vec<usize>>);

impl Handles {
    /// Returns the handles behind a cookie.
    ///
    /// # Safety
    /// The adapter still has the queue pair.
    pub(crate) unsafe fn at<'a>(address: usize) -> &'a Handles {
        // SAFETY: by the contract; every handle keeps the list alive, and the address was exposed.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }

    /// Calls a closure for each handle.
    pub(crate) fn each(&self, f: impl Fn(&Qp)) {
        for address in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // SAFETY: handles leave the list before they are freed, and it is locked.
            f(unsafe { Qp::at(*address) });
        }
    }

    /// Adds a handle.
    pub(crate) fn add(&self, qp: &Qp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(qp.address());
    }

    fn forget(&self, context: *mut ibv_context) {
        // SAFETY: handles leave the list before they are freed, and it is locked.
        let of_it = |address: &usize| unsafe { (*Qp::at(*address).public_qp()).context } == context;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|address| !of_it(address));
    }

    fn remove(&self, qp: &Qp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|address| *address != qp.address());
    }
}

/// Removes the handles of a queue pair on a context that is being closed, so that they receive no more events.
pub(crate) fn forget_handles(process: Process, id: QpId, context: *mut ibv_context) {
    // A forked child has no adapter that could report events.
    let _ = process.control(|hca, _| {
        let (_, init) = hca.query_qp(id)?;
        // SAFETY: the adapter is locked and has the queue pair.
        unsafe { Handles::at(init.cookie as usize) }.forget(context);
        Ok(())
    });
}

impl Qp {
    /// Returns the queue pair behind the pointer to its plain structure, which is the start of the extended one.
    ///
    /// # Safety
    /// As [`Object::of`].
    #[inline]
    pub(crate) unsafe fn of_plain<'a>(qp: *mut ibv_qp) -> &'a Qp {
        // SAFETY: by the contract; every queue pair is an extended one.
        unsafe { Qp::of(qp.cast()) }
    }

    /// Returns the queue pair at an address.
    ///
    /// # Safety
    /// It is alive.
    pub(crate) unsafe fn at<'a>(address: usize) -> &'a Qp {
        // SAFETY: by the contract; the address was exposed when the queue pair was created.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }

    /// Returns its address.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// Returns the plain public pointer.
    pub(crate) fn public_qp(&self) -> *mut ibv_qp {
        self.public().cast()
    }

    /// Iterates over its completion queues.
    fn cqs(&self) -> impl Iterator<Item = &Cq> {
        let public = self.public_qp();
        // SAFETY: completion queues outlive the queue pairs that use them, and the program does not write the pointers.
        let cqs = unsafe { [(*public).send_cq, (*public).recv_cq] };
        // SAFETY: as above.
        cqs.into_iter().filter(|cq| !cq.is_null()).map(|cq| unsafe { Cq::of_plain(cq) })
    }

    /// Drops completions that extended polls fetched and did not return: the adapter has removed the others.
    fn forget_fetched(&self) {
        // SAFETY: our own public part.
        let qpn = unsafe { (*self.public_qp()).qp_num };
        for cq in self.cqs() {
            cq.cursor.forget(qpn);
        }
    }

    /// Returns the context.
    pub(crate) fn context(&self) -> &Context {
        // SAFETY: contexts outlive their objects, and the program does not write the pointer.
        unsafe { Context::of((*self.public_qp()).context) }
    }
}

/// Returns the extended queue pair, if the program created it as one.
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    if qp.is_null() {
        return null_mut();
    }
    // SAFETY: a queue pair of ours, whose public part is a verbs_qp.
    unsafe {
        let public: *mut verbs_qp = qp.cast();
        if (*public).comp_mask & VERBS_QP_EX != 0 { &raw mut (*public).qp_ex } else { null_mut() }
    }
}

fn modify(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> Result<(), c_int> {
    if qp.is_null() || attr.is_null() {
        return Err(libc::EINVAL);
    }
    let mask = Mask::from_bits(attr_mask as u32).ok_or(libc::EINVAL)?;
    if mask.contains(Mask::RATE_LIMIT) {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: a queue pair of ours, and the caller's attributes.
    let (this, attr) = unsafe { (Qp::of_plain(qp), &*attr) };
    let device = this.context().device;
    let path = mask.contains(Mask::AV).then(|| request_of(&attr.ah_attr));
    let mut wanted = attr_from_c(attr, mask, None)?;
    if let Some(path) = &path {
        wanted.av = Some(this.process.control(|hca, _| hca.resolve_av(device, path))?);
    }
    let state = this.process.modify_qp(this.id, &wanted, mask)?;
    if state == QpState::Reset {
        this.forget_fetched();
    }
    // SAFETY: our own public part.
    unsafe { (*qp).state = state as u32 };
    Ok(())
}

/// Moves a queue pair from state to state, and sets its attributes.
pub extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int {
    code(modify(qp, attr, attr_mask))
}

/// Returns all attributes of a queue pair, whatever the mask requests.
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    if qp.is_null() || attr.is_null() || init_attr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a queue pair of ours.
    let this = unsafe { Qp::of_plain(qp) };
    this.process.find_stream(this.id);
    let found = match this.process.control(|hca, _| hca.query_qp(this.id)) {
        Ok((found, _)) => found,
        Err(errno) => return fail(errno),
    };
    // SAFETY: the caller's places for the answers; `init` is written only at creation.
    unsafe {
        *attr = attr_to_c(&found);
        *init_attr = *this.init.get();
        (*qp).state = found.qp_state as u32;
    }
    0
}

/// Reports whether data arrives in address order: no order is promised.
pub extern "C" fn ibv_query_qp_data_in_order(_qp: *mut ibv_qp, _op: ibv_wr_opcode, _flags: u32) -> c_int {
    0
}

/// Destroys a queue pair, and removes its completions from its queues; EBUSY while attached to multicast groups. Waits
/// until all its events are acknowledged.
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    if qp.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a queue pair of ours.
    let this = unsafe { Qp::of_plain(qp) };
    this.process.flush(this.id);
    this.process.time_wait(this.id);
    let destroyed = this.process.control(|hca, _| {
        hca.destroy_qp(this.id)?;
        this.handles.remove(this);
        Ok(())
    });
    if let Err(errno) = destroyed {
        return fail(errno);
    }
    this.forget_fetched();
    // The adapter has forgotten this handle. Once no event in progress names it either, purge its unread events.
    this.process.quiesce();
    let context = this.context();
    context.disown(Owned::Qp(this.id));
    context.events.purge(|item| item.about == About::Qp(this.address()));
    // SAFETY: the public part is alive until the last line, and the program gives the queue pair up.
    unsafe {
        let (mutex, cond) = (&raw mut (*qp).mutex, &raw mut (*qp).cond);
        wait_acknowledged(mutex, cond, &raw const (*qp).events_completed, this.reported.get());
        Pd::release((*qp).pd);
        Qp::free(qp.cast());
    }
    0
}
