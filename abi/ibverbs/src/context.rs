//! An open device: the context, with the tables of calls through which inlined verbs come in.

use libc::{c_int, c_void};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use weft_abi_types::inlines::VERBS_ABI_IS_EXTENDED;
use weft_abi_types::{ibv_context, ibv_device, verbs_context};
use weft_engine::ContextId;
use weft_verbs::{CqId, DeviceAttr, DeviceId, MrId, MwId, PdId, QpId, SrqId, XrcdId};

use crate::device::Device;
use crate::errors::{code, errno, fail_null, pointer};
use crate::event::{self, AsyncItem};
use crate::object::{Object, zeroed};
use crate::process::Process;
use crate::queue::EventQueue;
use crate::{cq, cq_ex, dm, mr, mw, port, post, qp, query, srq, td, xrc};

/// Completion vectors that are offered at most; they are a hint here, the engine has one thread.
const COMP_VECTORS_MAX: usize = 64;

/// What was made on a context and not destroyed yet, in the order in which closing it must take them down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owned {
    Qp(QpId),
    Srq(SrqId),
    Mw(MwId),
    Mr(MrId),
    Xrcd(XrcdId),
    Cq(CqId),
    Pd(PdId),
}

/// An open device.
#[repr(C)]
pub(crate) struct Context {
    public: UnsafeCell<verbs_context>,
    pub(crate) device: DeviceId,
    /// Where its objects live.
    pub(crate) process: Process,
    /// Asynchronous events; `async_fd` is its descriptor.
    pub(crate) events: Arc<EventQueue<AsyncItem>>,
    /// `cmd_fd`: nothing is ever said over it, but programs may pass it around as a descriptor.
    _cmd_fd: OwnedFd,
    /// By what the engine knows it.
    engine_id: OnceLock<ContextId>,
    /// The device as it was when it was opened: what a forked child is told, which cannot ask.
    at_open: OnceLock<DeviceAttr>,
    /// What is to be taken down, and how often it was opened (XRC domains and their targets can be shared).
    owned: Mutex<BTreeMap<Owned, u32>>,
}

impl Context {
    /// The context behind a pointer that a program passed.
    ///
    /// # Safety
    /// The pointer came from `ibv_open_device` and was not closed.
    pub(crate) unsafe fn of<'a>(context: *mut ibv_context) -> &'a Context {
        // SAFETY: ibv_open_device hands out the `context` field of the verbs_context that a Context begins with.
        unsafe { &*context.byte_sub(offset_of!(verbs_context, context)).cast::<Context>() }
    }

    /// The public pointer.
    pub(crate) fn public(&self) -> *mut ibv_context {
        // SAFETY: only the address of a field is taken.
        unsafe { &raw mut (*self.public.get()).context }
    }

    /// The context whose public pointer has this address.
    ///
    /// # Safety
    /// It is open.
    pub(crate) unsafe fn at<'a>(address: usize) -> &'a Context {
        // SAFETY: by the contract; the address was exposed when the context was opened.
        unsafe { Context::of(std::ptr::with_exposed_provenance_mut(address)) }
    }

    fn owned(&self) -> MutexGuard<'_, BTreeMap<Owned, u32>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device as it is now.
    pub(crate) fn device_attr(&self) -> Result<DeviceAttr, c_int> {
        match self.at_open.get() {
            Some(attr) if self.process.is_dead() => Ok(attr.clone()),
            _ => self.process.device(self.device),
        }
    }

    /// Notes an object made.
    pub(crate) fn own(&self, object: Owned) {
        *self.owned().entry(object).or_default() += 1;
    }

    /// Notes an object destroyed.
    pub(crate) fn disown(&self, object: Owned) {
        let mut owned = self.owned();
        if let Some(count) = owned.get_mut(&object) {
            *count -= 1;
            if *count == 0 {
                owned.remove(&object);
            }
        }
    }
}

/// Refuses to make an object of parts that were not all made on one context: closing a context takes down what was made
/// on it, and nothing else. Null stands for a part that is not there.
pub(crate) fn of_one(context: *mut ibv_context, parts: &[*mut ibv_context]) -> Result<(), c_int> {
    let foreign = parts.iter().any(|part| !part.is_null() && *part != context);
    if foreign { Err(libc::EINVAL) } else { Ok(()) }
}

/// The contexts of parts, null for those that are null; for [`of_one`]. Unsafe: the parts are null or objects of ours.
macro_rules! contexts_of {
    ($($part:expr),*) => {
        [$($part.as_ref().map_or(std::ptr::null_mut(), |part| part.context)),*]
    };
}
pub(crate) use contexts_of;

/// An answer for calls that left the tables long ago.
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
    v.alloc_parent_domain = Some(td::alloc_parent_domain);
    v.create_cq_ex = Some(cq_ex::create_cq_ex);
    v.create_qp_ex = Some(qp::create_qp_ex);
    v.open_qp = Some(qp::open_qp);
    v.create_srq_ex = Some(srq::create_srq_ex);
    v.get_srq_num = Some(srq::get_srq_num);
    v.open_xrcd = Some(xrc::open_xrcd);
    v.close_xrcd = Some(xrc::close_xrcd);
    // Work queues, indirection tables, flows, counters, tag matching, rate limits and moderation need an Ethernet
    // adapter: their slots stay empty, which the inlines answer with EOPNOTSUPP.

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
    // SAFETY: no pointers.
    let cmd_fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if cmd_fd < 0 {
        return Err(errno());
    }
    // SAFETY: the descriptor was just opened and is nobody else's.
    let cmd_fd = unsafe { OwnedFd::from_raw_fd(cmd_fd) };
    let public = UnsafeCell::new(tables(device, cmd_fd.as_raw_fd(), events.fd()));
    let context = Box::new(Context {
        public,
        device: id,
        process,
        events,
        _cmd_fd: cmd_fd,
        engine_id: OnceLock::new(),
        at_open: OnceLock::new(),
        owned: Mutex::default(),
    });
    let public = context.public();
    // SAFETY: nobody else's yet; the mutex is in its final place.
    unsafe { libc::pthread_mutex_init(&raw mut (*public).mutex, std::ptr::null()) };
    let engine_id = process.open(id, public)?;
    let _ = context.engine_id.set(engine_id);
    if let Ok(attr) = process.device(id) {
        let _ = context.at_open.set(attr);
    }
    let context: *mut Context = Box::into_raw(context);
    // SAFETY: just made; from here on it is the program's.
    let (public, events) = unsafe { ((*context).public(), (*context).events.clone()) };
    event::CONTEXTS.insert(public.addr(), events);
    Ok(public)
}

/// Opens a device.
pub extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(open(device))
}

/// Closes a device. What the program left on it goes too, as it does when the kernel closes the descriptor; its
/// pointers to those objects are dead then.
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    if context.is_null() {
        return code(Err(libc::EINVAL));
    }
    event::CONTEXTS.remove(context.addr());
    // SAFETY: a context of ours, which the program gives up.
    let this = unsafe { Context::of(context) };
    let left = std::mem::take(&mut *this.owned());
    for object in left.keys() {
        // A queue pair that others have open too lives on, and must not speak to this context.
        if let Owned::Qp(id) = *object {
            qp::forget_handles(this.process, id, context);
        }
    }
    if let Some(engine_id) = this.engine_id.get() {
        this.process.close(*engine_id, left);
    }
    // SAFETY: leaked by open() as a Box<Context>, and the engine knows it no more.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(this).cast_mut()) });
    0
}

/// Contexts cannot be shared between processes.
pub extern "C" fn ibv_import_device(_cmd_fd: c_int) -> *mut ibv_context {
    fail_null(libc::EOPNOTSUPP)
}
