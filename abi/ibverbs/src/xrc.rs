//! XRC domains. All opens of the same file in this process share one domain.

use libc::c_int;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use weft_abi_types::{IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, ibv_context, ibv_xrcd, ibv_xrcd_init_attr};
use weft_verbs::XrcdId;

use crate::context::Context;
use crate::errors::{code, errno, pointer};
use crate::object::{Object, zeroed};
use crate::owned::Owned;
use crate::process::Process;

/// An XRC domain, opened once.
#[repr(C)]
pub(crate) struct Xrcd {
    public: UnsafeCell<ibv_xrcd>,
    pub(crate) id: XrcdId,
    process: Process,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Xrcd {
    type Public = ibv_xrcd;
}

/// Returns a number that identifies a file.
fn inode_of(fd: c_int) -> Result<u64, c_int> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a place for the answer.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return Err(errno());
    }
    // SAFETY: fstat succeeded and filled it in.
    let stat = unsafe { stat.assume_init() };
    Ok(stat.st_ino ^ stat.st_dev.rotate_left(40))
}

fn open(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> Result<*mut ibv_xrcd, c_int> {
    const NEEDED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if context.is_null() || attr.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's attributes.
    let attr = unsafe { &*attr };
    if attr.comp_mask & !NEEDED != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if attr.comp_mask & NEEDED != NEEDED || attr.oflags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
        return Err(libc::EINVAL);
    }
    // Without a file it can only be a new domain.
    let key = if attr.fd == -1 { None } else { Some(inode_of(attr.fd)?) };
    // SAFETY: a context of ours.
    let this = unsafe { Context::of(context) };
    let existing = match key {
        None => false,
        Some(key) => this.process.control(|hca, _| Ok(hca.has_xrcd(this.device, key)))?,
    };
    if key.is_some() && !existing && attr.oflags & libc::O_CREAT == 0 {
        return Err(libc::EAGAIN);
    }
    if existing && attr.oflags & libc::O_EXCL != 0 {
        return Err(libc::EINVAL);
    }
    let id = this.process.control(|hca, _| hca.open_xrcd(this.device, key))?;
    this.own(Owned::Xrcd(id));
    let mut public: ibv_xrcd = zeroed();
    public.context = context;
    Ok(Xrcd { public: UnsafeCell::new(public), id, process: this.process }.leak())
}

pub(crate) unsafe extern "C" fn open_xrcd(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd {
    pointer(open(context, attr))
}

pub(crate) unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    if xrcd.is_null() {
        return code(Err(libc::EINVAL));
    }
    // SAFETY: a domain of ours, and its context.
    let (this, context) = unsafe { (Xrcd::of(xrcd), Context::of((*xrcd).context)) };
    if let Err(errno) = this.process.control(|hca, _| hca.close_xrcd(this.id)) {
        return code(Err(errno));
    }
    context.disown(Owned::Xrcd(this.id));
    // SAFETY: the program gives this handle up.
    unsafe { Xrcd::free(xrcd) };
    0
}
