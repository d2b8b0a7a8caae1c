//! Creating completion queues, plain and extended.

use libc::{c_int, c_void};
use std::cell::UnsafeCell;
use weft_abi_types::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, IBV_WC_STANDARD_FLAGS, ibv_comp_channel, ibv_context, ibv_cq,
    ibv_cq_ex, ibv_cq_init_attr_ex,
};
use weft_verbs::{CqId, CqInit};

use crate::async_item::Reported;
use crate::channel::Channel;
use crate::context::{Context, contexts_of, of_one};
use crate::cq::Cq;
use crate::cq_cursor::Cursor;
use crate::cq_ex::fill_calls;
use crate::errors::{fail, fail_null, pointer};
use crate::object::{Object, init_sync, zeroed};
use crate::owned::Owned;

/// Fields that programs can request in completions.
const WC_FLAGS: u64 = (IBV_WC_STANDARD_FLAGS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) as u64;

/// Parameters of both creation calls.
struct Request {
    context: *mut ibv_context,
    cqe: i64,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: i64,
    ignore_overrun: bool,
    single_threaded: bool,
    wc_flags: u64,
}

/// Creates a queue.
fn create(request: &Request) -> Result<*mut ibv_cq_ex, c_int> {
    let Request { context, channel, .. } = *request;
    if context.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a channel of ours, or null.
    of_one(context, &unsafe { contexts_of!(channel) })?;
    // SAFETY: a context of ours.
    let (this, vectors) = unsafe { (Context::of(context), (*context).num_comp_vectors) };
    if !(0..i64::from(vectors)).contains(&request.comp_vector) {
        return Err(libc::EINVAL);
    }
    let cqe = u32::try_from(request.cqe).map_err(|_| libc::EINVAL)?;

    // The adapter needs the address as a cookie, so the object comes first, with an ID that is filled in below.
    let mut public: ibv_cq_ex = zeroed();
    public.context = context;
    public.channel = channel;
    public.cq_context = request.cq_context;
    fill_calls(&mut public, request.wc_flags);
    let mut object = Box::new(Cq {
        public: UnsafeCell::new(public),
        id: CqId { index: 0, generation: 0 },
        process: this.process,
        channel,
        comp_reported: Reported::default(),
        async_reported: Reported::default(),
        cursor: Cursor::new(request.single_threaded),
    });
    let cookie = (&raw mut *object).expose_provenance() as u64;
    let init = CqInit { cqe, cookie, ignore_overrun: request.ignore_overrun };
    let (id, granted) = this.process.control(|hca, _| {
        let id = hca.create_cq(this.device, &init)?;
        Ok((id, hca.cqe(id)?))
    })?;
    object.id = id;
    this.own(Owned::Cq(id));
    if !channel.is_null() {
        // SAFETY: a channel of ours.
        unsafe { Channel::of(channel) }.count(1);
    }
    let public = Box::into_raw(object).cast::<ibv_cq_ex>();
    // SAFETY: just created, and no other code knows it yet.
    unsafe {
        (*public).handle = id.index;
        (*public).cqe = granted as c_int;
        init_sync(&raw mut (*public).mutex, &raw mut (*public).cond);
    }
    Ok(public)
}

/// Creates a completion queue.
pub extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    let request = Request {
        context,
        cqe: i64::from(cqe),
        cq_context,
        channel,
        comp_vector: i64::from(comp_vector),
        ignore_overrun: false,
        single_threaded: false,
        wc_flags: 0,
    };
    pointer(create(&request)).cast()
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
