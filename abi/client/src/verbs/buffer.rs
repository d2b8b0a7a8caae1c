//! Protection domains and registered memory.

use std::io;
use std::rc::Rc;

use weft_abi_types::{IBV_ACCESS_ON_DEMAND, ibv_mr, ibv_pd, ibv_sge, inlines};

use super::{Context, Memory, check, check_ptr};

/// A protection domain, shared by its clones.
#[derive(Clone, Debug)]
pub struct Pd(Rc<PdInner>);

#[derive(Debug)]
struct PdInner {
    context: Context,
    ptr: *mut ibv_pd,
}

impl Pd {
    /// Allocates a protection domain.
    pub fn new(context: &Context) -> io::Result<Pd> {
        // SAFETY: the context is open.
        let ptr = check_ptr(unsafe { (context.library().verbs.ibv_alloc_pd)(context.ptr()) })?;
        Ok(Pd(Rc::new(PdInner { context: context.clone(), ptr })))
    }

    /// The device of the domain.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    pub(crate) fn ptr(&self) -> *mut ibv_pd {
        self.0.ptr
    }
}

impl Drop for PdInner {
    fn drop(&mut self) {
        // SAFETY: all objects in the domain held a clone of it and are gone.
        unsafe { (self.context.library().verbs.ibv_dealloc_pd)(self.ptr) };
    }
}

/// A scatter/gather entry: a piece of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sge {
    /// Address.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Local key.
    pub lkey: u32,
}

impl From<Sge> for ibv_sge {
    fn from(sge: Sge) -> ibv_sge {
        ibv_sge { addr: sge.addr, length: sge.length, lkey: sge.lkey }
    }
}

/// Zeroed memory registered with an adapter, which may change it at any time.
#[derive(Debug)]
pub struct Buffer {
    pd: Pd,
    mr: *mut ibv_mr,
    memory: Memory,
}

impl Buffer {
    /// Allocates `len` bytes (at least one) and registers them with the rights `access` (`IBV_ACCESS_LOCAL_WRITE` ...).
    /// With `implicit`, registers the whole address space on demand instead, and uses the buffer through that region.
    pub fn new(pd: &Pd, len: usize, access: u32, implicit: bool) -> io::Result<Buffer> {
        let memory = Memory::new(len)?;
        let (addr, length, access) = if implicit {
            let access = access | IBV_ACCESS_ON_DEMAND;
            (std::ptr::null_mut(), usize::MAX, access)
        } else {
            (memory.start().cast(), len, access)
        };
        let verbs = pd.context().library().verbs;
        // SAFETY: the memory stays allocated until the region is gone (see drop).
        let mr = check_ptr(unsafe { (verbs.ibv_reg_mr)(pd.ptr(), addr, length, access as i32) })?;
        Ok(Buffer { pd: pd.clone(), mr, memory })
    }

    /// The memory, for other threads. It stays allocated as long as this handle, but its registration does not.
    pub fn memory(&self) -> Memory {
        self.memory.clone()
    }

    pub(super) fn region(&self) -> *mut ibv_mr {
        self.mr
    }

    /// Address for the peer's work requests.
    pub fn addr(&self) -> u64 {
        self.memory.start() as u64
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// L_Key, for local work requests.
    pub fn lkey(&self) -> u32 {
        // SAFETY: as for `rkey`.
        unsafe { (*self.mr).lkey }
    }

    /// R_Key, for the peer's work requests.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is registered; its keys do not change.
        unsafe { (*self.mr).rkey }
    }

    /// The entry for `length` bytes from `offset` on, for a work request.
    ///
    /// # Panics
    /// The range exceeds the buffer.
    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        let (end, len) = (offset.checked_add(length), self.len());
        assert!(end.is_some_and(|end| end <= len), "{length} bytes at {offset} are not within a buffer of {len}");
        Sge { addr: self.addr() + offset as u64, length: length as u32, lkey: self.lkey() }
    }

    /// Copies `bytes` to the buffer at `offset`.
    ///
    /// # Panics
    /// The range exceeds the buffer.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.memory.write(offset, bytes);
    }

    /// Copies `into.len()` bytes from the buffer at `offset`.
    ///
    /// # Panics
    /// The range exceeds the buffer.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        self.memory.read(offset, into);
    }

    /// Sets `length` bytes from `offset` on to `byte`.
    ///
    /// # Panics
    /// The range exceeds the buffer.
    pub fn fill(&self, offset: usize, length: usize, byte: u8) {
        self.memory.fill(offset, length, byte);
    }

    /// The current byte at `offset`, even if an adapter has just changed it.
    ///
    /// # Panics
    /// The offset is outside the buffer.
    pub fn byte(&self, offset: usize) -> u8 {
        self.memory.byte(offset)
    }

    /// Asks the system to prefetch the pages (`ibv_advise_mr`, on-demand paging only).
    pub fn prefetch(&self) -> io::Result<()> {
        let mut sge = ibv_sge::from(self.sge(0, self.len()));
        // SAFETY: the domain is alive and the list has one entry.
        check(unsafe {
            inlines::ibv_advise_mr(
                self.pd.ptr(),
                weft_abi_types::IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                weft_abi_types::IBV_ADVISE_MR_FLAG_FLUSH,
                &mut sge,
                1,
            )
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the region is deregistered before its memory goes.
        let failed = unsafe { (self.pd.context().library().verbs.ibv_dereg_mr)(self.mr) } != 0;
        if failed {
            // An adapter may still write to it, so it stays allocated.
            std::mem::forget(self.memory.clone());
        }
    }
}
