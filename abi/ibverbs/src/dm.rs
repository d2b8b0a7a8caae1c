//! Device memory, which hardware adapters have on board. Here it is ordinary memory that only keys and the two copy
//! calls reach.

use libc::{c_int, c_uint, c_void};
use std::cell::UnsafeCell;
use weft_abi_types::{ibv_alloc_dm_attr, ibv_context, ibv_dm, ibv_dmah, ibv_dmah_init_attr, ibv_mr, ibv_pd};
use weft_verbs::Access;

use crate::errors::{code, errno, fail, fail_minus_one, fail_null, pointer};
use crate::mr::{self, Kind, access_of};
use crate::object::{Object, zeroed};
use crate::pd::Pd;

/// Maximum size of one piece of device memory in bytes: what a hardware adapter might have.
pub(crate) const DM_SIZE_MAX: usize = 1 << 20;

/// Copies use words of this many bytes, like hardware device memory.
const DM_WORD: u64 = 4;

/// A page, or a divisor of one.
const PAGE: usize = 4096;

/// Maximum alignment, as a power of two: a page.
const LOG_ALIGN_MAX: u32 = 12;

/// Rights that a region over device memory may have.
const DM_ACCESS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::ZERO_BASED)
    .union(Access::RELAXED_ORDERING);

/// Device memory.
#[repr(C)]
struct Dm {
    public: UnsafeCell<ibv_dm>,
    addr: *mut c_void,
    length: usize,
    /// Length of the mapping in bytes: whole pages, and one more, for a region of zero bytes.
    mapped: usize,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Dm {
    type Public = ibv_dm;
}

impl Dm {
    /// Returns the address for a copy of `length` bytes at an offset, if it is within the memory and in whole words.
    fn words(&self, offset: u64, length: usize) -> Option<*mut u8> {
        let whole = offset.is_multiple_of(DM_WORD) && (length as u64).is_multiple_of(DM_WORD);
        if whole { self.at(offset, length) } else { None }
    }

    /// Returns the address of an offset, if `length` bytes from there are within the memory.
    fn at(&self, offset: u64, length: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length)?;
        (end <= self.length).then(|| self.addr.cast::<u8>().wrapping_add(offset))
    }
}

fn alloc(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> Result<*mut ibv_dm, c_int> {
    if context.is_null() || attr.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's attributes.
    let attr = unsafe { &*attr };
    if attr.comp_mask != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if attr.length == 0 || attr.log_align_req > LOG_ALIGN_MAX {
        return Err(libc::EINVAL);
    }
    if attr.length > DM_SIZE_MAX {
        return Err(libc::ENOMEM);
    }
    let mapped = attr.length.next_multiple_of(PAGE) + PAGE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
    if addr == libc::MAP_FAILED {
        return Err(errno());
    }
    let mut public: ibv_dm = zeroed();
    public.context = context;
    public.memcpy_to_dm = Some(memcpy_to_dm);
    public.memcpy_from_dm = Some(memcpy_from_dm);
    Ok(Dm { public: UnsafeCell::new(public), addr, length: attr.length, mapped }.leak())
}

pub(crate) unsafe extern "C" fn alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm {
    pointer(alloc(context, attr))
}

pub(crate) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    if dm.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: device memory of ours, which the program gives up; its regions must be gone, as with any memory.
    unsafe {
        let this = Dm::of(dm);
        libc::munmap(this.addr, this.mapped);
        Dm::free(dm);
    }
    0
}

unsafe extern "C" fn memcpy_to_dm(dm: *mut ibv_dm, offset: u64, from: *const c_void, length: usize) -> c_int {
    // SAFETY: device memory of ours.
    let Some(to) = (unsafe { Dm::of(dm) }).words(offset, length) else { return fail(libc::EFAULT) };
    // SAFETY: checked; `from` has `length` bytes, as the caller promises.
    unsafe { to.copy_from(from.cast(), length) };
    0
}

unsafe extern "C" fn memcpy_from_dm(to: *mut c_void, dm: *mut ibv_dm, offset: u64, length: usize) -> c_int {
    // SAFETY: device memory of ours.
    let Some(from) = (unsafe { Dm::of(dm) }).words(offset, length) else { return fail(libc::EFAULT) };
    // SAFETY: checked; `to` has room for `length` bytes, as the caller promises.
    unsafe { to.cast::<u8>().copy_from(from, length) };
    0
}

fn register(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> Result<*mut ibv_mr, c_int> {
    if pd.is_null() || dm.is_null() {
        return Err(libc::EINVAL);
    }
    let access = access_of(access)?;
    // Programs never learn an address of device memory: regions over it count from zero.
    if !access.contains(Access::ZERO_BASED) || !DM_ACCESS.contains(access) {
        return Err(libc::EINVAL);
    }
    // SAFETY: device memory and a domain of ours.
    let (dm, this) = unsafe { (Dm::of(dm), Pd::of(pd)) };
    let place = dm.at(offset, length).ok_or(libc::EINVAL)?;
    // The adapter has no zero-length regions: such a region gets one byte of the spare page.
    let (place, bytes) = match length {
        0 => (dm.addr.cast::<u8>().wrapping_add(dm.mapped - PAGE), 1),
        _ => (place, length as u64),
    };
    let keys = this.process().reg_mr(this.id, place.expose_provenance() as u64, bytes, 0, access)?;
    Ok(mr::make(pd, keys, Kind::Dm, std::ptr::null_mut(), length))
}

pub(crate) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    pointer(register(pd, dm, offset, length, access))
}

/// Fails: device memory cannot be shared between processes.
pub extern "C" fn ibv_import_dm(_context: *mut ibv_context, _dm_handle: u32) -> *mut ibv_dm {
    fail_null(libc::EOPNOTSUPP)
}

/// Does nothing: nothing can be imported.
pub extern "C" fn ibv_unimport_dm(_dm: *mut ibv_dm) {}

/// Fails: device memory has no dma-buf here.
pub extern "C" fn ibv_dm_export_dmabuf_fd(_dm: *mut ibv_dm) -> c_int {
    fail_minus_one(libc::EOPNOTSUPP)
}

/// Fails: DMA handles steer caches of a PCI device, and there is none.
pub extern "C" fn ibv_alloc_dmah(_context: *mut ibv_context, _attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah {
    fail_null(libc::EOPNOTSUPP)
}

/// Fails: no DMA handle exists.
pub extern "C" fn ibv_dealloc_dmah(_dmah: *mut ibv_dmah) -> c_int {
    code(Err(libc::EOPNOTSUPP))
}
