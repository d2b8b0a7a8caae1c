//! Opening and closing devices, and the tables of calls that inlined verbs use.

use libc::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use weft_abi_types::inlines::VERBS_ABI_IS_EXTENDED;
use weft_abi_types::{ibv_context, ibv_device, verbs_context};

use crate::context::Context;
use crate::device::Device;
use crate::errors::{code, errno, fail_null, pointer};
use crate::event::{self, Sink};
use crate::object::{Object, zeroed};
use crate::owned::Owned;
use crate::process::Process;
use crate::queue::EventQueue;
use crate::{cq, cq_create, dm, mr, mw, parent_domain, port, post, qp, qp_create, query, srq, td, xrc};

/// Maximum number of completion vectors offered; they are a hint here, as the engine has one thread.
const COMP_VECTORS_MAX: usize = 64;

/// Does nothing: for calls that left the tables long ago.
extern "C" fn gone() -> *mut c_void {
    fail_null(libc::ENOSYS)
}

fn tables(device: *mut ibv_device, cmd_fd: c_int, async_fd: c_int) -> verbs_context {
    let mut v: verbs_context = zeroed();
    v.sz = size_of::<verbs_context>();
    v.query_port = Some(port::query_port);
    v.query_device_ex = Some(query::query_device_ex);
    v.query_rt_values = Some(query::query_rt_values);
    v.advise_mr = Some(mr::advise_mr);
    v.alloc_null_mr = Some(mr::alloc_null_mr);
    v.alloc_dm = Some(dm::alloc_dm);
    v.free_dm = Some(dm::free_dm);
    v.reg_dm_mr = Some(dm::reg_dm_mr);
    v.alloc_td = Some(td::alloc_td);
    v.dealloc_td = Some(td::dealloc_td);
    v.alloc_parent_domain = Some(parent_domain::alloc_parent_domain);
    v.create_cq_ex = Some(cq_create::create_cq_ex);
    v.create_qp_ex = Some(qp_create::create_qp_ex);
    v.open_qp = Some(qp_create::open_qp);
    v.create_srq_ex = Some(srq::create_srq_ex);
    v.get_srq_num = Some(srq::get_srq_num);
    v.open_xrcd = Some(xrc::open_xrcd);
    v.close_xrcd = Some(xrc::close_xrcd);
    // Work queues, indirection tables, flows, counters, tag matching, rate limits and moderation need an Ethernet
    // adapter: their slots stay empty, for which the inlines return EOPNOTSUPP.

    let c = &mut v.context;
    c.device = device;
    c.cmd_fd = cmd_fd;
    c.async_fd = async_fd;
    c.num_comp_vectors = std::thread::available_parallelism().map_or(1, |n| n.get().min(COMP_VECTORS_MAX)) as c_int;
    c.abi_compat = std::ptr::without_provenance_mut(VERBS_ABI_IS_EXTENDED);
    let ops = &mut c.ops;
    ops.alloc_mw = Some(mw::alloc_mw);
    ops.bind_mw = Some(mw::bind_mw);
    ops.dealloc_mw = Some(mw::dealloc_mw);
    ops.poll_cq = Some(cq::poll_cq);
    ops.req_notify_cq = Some(cq::req_notify_cq);
    ops.post_srq_recv = Some(srq::post_srq_recv);
    ops.post_send = Some(post::post_send);
    ops.post_recv = Some(post::post_recv);
    ops._compat_alloc_pd = Some(gone);
    ops._compat_dealloc_pd = Some(gone);
    ops._compat_reg_mr = Some(gone);
    ops._compat_rereg_mr = Some(gone);
    ops._compat_dereg_mr = Some(gone);
    ops._compat_create_cq = Some(gone);
    ops._compat_cq_event = Some(gone);
    ops._compat_resize_cq = Some(gone);
    ops._compat_destroy_cq = Some(gone);
    ops._compat_create_srq = Some(gone);
    ops._compat_modify_srq = Some(gone);
    ops._compat_query_srq = Some(gone);
    ops._compat_destroy_srq = Some(gone);
    ops._compat_create_qp = Some(gone);
    ops._compat_query_qp = Some(gone);
    ops._compat_modify_qp = Some(gone);
    ops._compat_destroy_qp = Some(gone);
    ops._compat_create_ah = Some(gone);
    ops._compat_destroy_ah = Some(gone);
    ops._compat_attach_mcast = Some(gone);
    ops._compat_detach_mcast = Some(gone);
    ops._compat_async_event = Some(gone);
    v
}

fn open(device: *mut ibv_device) -> Result<*mut ibv_context, c_int> {
    if device.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a device of ours.
    let id = unsafe { Device::of(device) }.id;
    let process = Process::this()?;
    let events = Arc::new(EventQueue::new(process)?);
    // SAFETY: the call passes no pointers.
    let cmd_fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if cmd_fd < 0 {
        return Err(errno());
    }
    // SAFETY: the descriptor was just opened, and has no other owner.
    let cmd_fd = unsafe { OwnedFd::from_raw_fd(cmd_fd) };
    let public = tables(device, cmd_fd.as_raw_fd(), events.fd());
    let context = Box::new(Context::new(public, id, process, events, cmd_fd));
    let public = context.public();
    // SAFETY: only this function knows the context yet; the mutex is in its final place.
    unsafe { libc::pthread_mutex_init(&raw mut (*public).mutex, std::ptr::null()) };
    let engine_id = process.open(id, Arc::new(Sink::new(public)))?;
    let _ = context.engine_id.set(engine_id);
    if let Ok(attr) = process.device(id) {
        let _ = context.at_open.set(attr);
    }
    let context: *mut Context = Box::into_raw(context);
    // SAFETY: just created; from here on it is the program's.
    let (public, events) = unsafe { ((*context).public(), (*context).events.clone()) };
    event::CONTEXTS.insert(public.addr(), events);
    Ok(public)
}

/// Opens a device.
pub extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(open(device))
}

/// Closes a device and destroys the objects that the program left on it, as closing a kernel descriptor does; the
/// program's pointers to them become invalid.
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    if context.is_null() {
        return code(Err(libc::EINVAL));
    }
    event::CONTEXTS.remove(context.addr());
    // SAFETY: a context of ours, which the program gives up.
    let this = unsafe { Context::of(context) };
    let left = this.take_owned();
    for object in left.keys() {
        // A queue pair that other contexts have also opened lives on, and must not report to this context.
        if let Owned::Qp(id) = *object {
            qp::forget_handles(this.process, id, context);
        }
    }
    if let Some(engine_id) = this.engine_id.get() {
        this.process.close(*engine_id, left);
    }
    // SAFETY: leaked by open() as a Box<Context>, and the engine has forgotten it.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(this).cast_mut()) });
    0
}

/// Fails: contexts cannot be shared between processes.
pub extern "C" fn ibv_import_device(_cmd_fd: c_int) -> *mut ibv_context {
    fail_null(libc::EOPNOTSUPP)
}
