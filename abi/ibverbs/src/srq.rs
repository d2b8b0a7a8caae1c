//! Shared receive queues, basic ones and those of XRC.

use libc::{c_int, c_void};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use weft_abi_types::{
    IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_LIMIT,
    IBV_SRQ_MAX_WR, IBV_SRQT_BASIC, IBV_SRQT_XRC, ibv_context, ibv_cq, ibv_pd, ibv_recv_wr, ibv_srq, ibv_srq_attr,
    ibv_srq_init_attr, ibv_srq_init_attr_ex, ibv_xrcd,
};
use weft_verbs::{SrqAttr, SrqId, SrqInit};

use crate::async_item::{About, Reported};
use crate::context::{Context, contexts_of, of_one};
use crate::cq::Cq;
use crate::errors::{code, fail, fail_null, pointer};
use crate::object::{Object, init_sync, wait_acknowledged, zeroed};
use crate::owned::Owned;
use crate::pd::Pd;
use crate::process::Adapter;
use crate::process::Process;
use crate::recv_list::post_recvs;
use crate::xrc::Xrcd;

/// A shared receive queue.
#[repr(C)]
pub(crate) struct Srq {
    public: UnsafeCell<ibv_srq>,
    pub(crate) id: SrqId,
    process: Process,
    is_xrc: bool,
    pub(crate) reported: Reported,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Srq {
    type Public = ibv_srq;
}

impl Srq {
    /// Returns the queue at an address that the adapter returned as a cookie.
    ///
    /// # Safety
    /// The queue is alive.
    pub(crate) unsafe fn at<'a>(address: usize) -> &'a Srq {
        // SAFETY: by the contract; the address was exposed when the queue was created.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }

    /// Returns the context.
    pub(crate) fn context(&self) -> &Context {
        // SAFETY: contexts outlive their objects, and the program does not write the pointer.
        unsafe { Context::of((*self.public()).context) }
    }
}

/// Additional objects of XRC: the domain, and the completion queue.
type Xrc = Option<(*mut ibv_xrcd, *mut ibv_cq)>;

fn create(pd: *mut ibv_pd, srq_context: *mut c_void, attr: &mut ibv_srq_attr, xrc: Xrc) -> Result<*mut ibv_srq, c_int> {
    if pd.is_null() || xrc.is_some_and(|(xrcd, cq)| xrcd.is_null() || cq.is_null()) {
        return Err(libc::EINVAL);
    }
    // SAFETY: a domain of ours.
    let this = unsafe { Pd::of(pd) };
    let context = this.context();
    let (xrcd, cq) = xrc.unwrap_or((null_mut(), null_mut()));
    // SAFETY: objects of ours, or null.
    of_one(context.public(), &unsafe { contexts_of!(xrcd, cq) })?;
    let mut public: ibv_srq = zeroed();
    public.context = context.public();
    public.srq_context = srq_context;
    public.pd = pd;
    // The adapter needs the address as a cookie, so the object comes first, with an ID that is filled in below.
    let mut object = Box::new(Srq {
        public: UnsafeCell::new(public),
        id: SrqId { index: 0, generation: 0 },
        process: context.process,
        is_xrc: xrc.is_some(),
        reported: Reported::default(),
    });
    let init = SrqInit {
        pd: this.id,
        attr: SrqAttr { max_wr: attr.max_wr, max_sge: attr.max_sge, srq_limit: attr.srq_limit },
        // SAFETY: objects of ours.
        xrc: xrc.map(|(xrcd, cq)| unsafe { (Xrcd::of(xrcd).id, Cq::of_plain(cq).id) }),
        cookie: (&raw mut *object).expose_provenance() as u64,
    };
    let (id, granted) = context.process.control(|hca, _| {
        let id = hca.create_srq(context.device, &init)?;
        Ok((id, hca.query_srq(id)?))
    })?;
    object.id = id;
    context.own(Owned::Srq(id));
    this.hold();
    attr.max_wr = granted.max_wr;
    attr.max_sge = granted.max_sge;
    let public = Box::into_raw(object).cast::<ibv_srq>();
    // SAFETY: just created, and no other code knows it yet.
    unsafe {
        (*public).handle = id.index;
        init_sync(&raw mut (*public).mutex, &raw mut (*public).cond);
    }
    Ok(public)
}

/// Creates a shared receive queue.
pub unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, init_attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    if init_attr.is_null() {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: the caller's attributes, which receive the granted sizes.
    let init = unsafe { &mut *init_attr };
    pointer(create(pd, init.srq_context, &mut init.attr, None))
}

pub(crate) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    init_attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    const MASK: u32 = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    if context.is_null() || init_attr.is_null() {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: the caller's attributes, which receive the granted sizes; later additions to the structure are read only
    // if comp_mask names them.
    let init = unsafe { &mut *init_attr };
    let given = |mask: u32| init.comp_mask & mask != 0;
    if init.comp_mask & !MASK != 0 {
        return fail_null(libc::EOPNOTSUPP);
    }
    if !given(IBV_SRQ_INIT_ATTR_PD) {
        return fail_null(libc::EINVAL);
    }
    let kind = if given(IBV_SRQ_INIT_ATTR_TYPE) { init.srq_type } else { IBV_SRQT_BASIC };
    let xrc = match kind {
        IBV_SRQT_BASIC => None,
        IBV_SRQT_XRC if given(IBV_SRQ_INIT_ATTR_XRCD) && given(IBV_SRQ_INIT_ATTR_CQ) => Some((init.xrcd, init.cq)),
        IBV_SRQT_XRC => return fail_null(libc::EINVAL),
        _ => return fail_null(libc::EOPNOTSUPP),
    };
    pointer(create(init.pd, init.srq_context, &mut init.attr, xrc))
}

/// Changes the size, or arms the limit event.
pub unsafe extern "C" fn ibv_modify_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    let mask = mask as u32;
    if srq.is_null() || srq_attr.is_null() || mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: a queue of ours, and the caller's attributes.
    let (this, attr) = unsafe { (Srq::of(srq), &*srq_attr) };
    let attr = SrqAttr { max_wr: attr.max_wr, max_sge: attr.max_sge, srq_limit: attr.srq_limit };
    let (set_max, set_limit) = (mask & IBV_SRQ_MAX_WR != 0, mask & IBV_SRQ_LIMIT != 0);
    code(this.process.control(|hca, _| hca.modify_srq(this.id, &attr, set_max, set_limit)))
}

/// Returns the sizes, and the limit.
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int {
    if srq.is_null() || srq_attr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a queue of ours.
    let this = unsafe { Srq::of(srq) };
    match this.process.control(|hca, _| hca.query_srq(this.id)) {
        Err(errno) => fail(errno),
        Ok(attr) => {
            let answer = ibv_srq_attr { max_wr: attr.max_wr, max_sge: attr.max_sge, srq_limit: attr.srq_limit };
            // SAFETY: the caller's place for the answer.
            unsafe { *srq_attr = answer };
            0
        }
    }
}

/// Destroys a queue; EBUSY while queue pairs use it. Waits until all its events are acknowledged.
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    if srq.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a queue of ours.
    let this = unsafe { Srq::of(srq) };
    if let Err(errno) = this.process.control(|hca, _| hca.destroy_srq(this.id)) {
        return fail(errno);
    }
    // The adapter has forgotten the queue. Once no event in progress names it either, purge its unread events.
    this.process.quiesce();
    let address = std::ptr::from_ref(this).addr();
    let context = this.context();
    context.disown(Owned::Srq(this.id));
    context.events.purge(|item| item.about == About::Srq(address));
    // SAFETY: the public part is alive until the last line, and the program gives the queue up.
    unsafe {
        let (mutex, cond) = (&raw mut (*srq).mutex, &raw mut (*srq).cond);
        wait_acknowledged(mutex, cond, &raw const (*srq).events_completed, this.reported.get());
        Pd::release((*srq).pd);
        Srq::free(srq);
    }
    0
}

pub(crate) unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int {
    if srq.is_null() || srq_num.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a queue of ours.
    let this = unsafe { Srq::of(srq) };
    if !this.is_xrc {
        return fail(libc::EINVAL);
    }
    match this.process.control(|hca, _| hca.srq_number(this.id)) {
        Err(errno) => fail(errno),
        Ok(number) => {
            // SAFETY: the caller's place for the answer.
            unsafe { *srq_num = number };
            0
        }
    }
}

pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a queue of ours, and the caller's list.
    unsafe {
        let this = Srq::of(srq);
        let may_post = |hca: &mut Adapter| hca.may_post_srq_recv(this.id);
        post_recvs(this.process, wr, bad_wr, may_post, |hca, request| hca.post_srq_recv(this.id, request))
    }
}
