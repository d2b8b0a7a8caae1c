//! Device memory: memory of the adapter itself.

use std::io;

use weft_abi_types::{IBV_ACCESS_ZERO_BASED, ibv_alloc_dm_attr, ibv_dm, ibv_mr, inlines};

use super::{Pd, Sge, check, check_ptr};

/// Unit in bytes of copies to and from device memory.
pub const DM_ALIGN: usize = 4;

/// A registered piece of device memory; its addresses start at zero.
#[derive(Debug)]
pub struct DeviceMemory {
    pd: Pd,
    dm: *mut ibv_dm,
    mr: *mut ibv_mr,
    len: usize,
}

impl DeviceMemory {
    /// Allocates and registers `len` bytes, rounded up to whole units.
    pub fn new(pd: &Pd, len: usize, access: u32) -> io::Result<DeviceMemory> {
        let len = len.next_multiple_of(DM_ALIGN);
        let mut attr = ibv_alloc_dm_attr { length: len, log_align_req: 0, comp_mask: 0 };
        // SAFETY: the device is open and the attributes complete.
        let dm = check_ptr(unsafe { inlines::ibv_alloc_dm(pd.context().ptr(), &mut attr) })?;
        let access = access | IBV_ACCESS_ZERO_BASED;
        // SAFETY: domain and memory are alive; the memory stays until the region is gone (see drop).
        match check_ptr(unsafe { inlines::ibv_reg_dm_mr(pd.ptr(), dm, 0, len, access) }) {
            Ok(mr) => Ok(DeviceMemory { pd: pd.clone(), dm, mr, len }),
            Err(e) => {
                // SAFETY: just allocated, and nothing refers to it.
                unsafe { inlines::ibv_free_dm(dm) };
                Err(e)
            }
        }
    }

    /// The entry for `length` bytes from `offset` on, for a work request.
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.len), "{length} bytes at {offset}");
        // SAFETY: the region is registered; its keys do not change.
        Sge { addr: offset as u64, length: length as u32, lkey: unsafe { (*self.mr).lkey } }
    }

    /// Copies whole units from `bytes` to the memory at `offset`; fails if the library cannot.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the memory is alive, the bytes are readable; the call checks the bounds.
        unsafe {
            match (*self.dm).memcpy_to_dm {
                Some(copy) => check(copy(self.dm, offset as u64, bytes.as_ptr().cast(), bytes.len())),
                None => Err(io::ErrorKind::Unsupported.into()),
            }
        }
    }

    /// Copies whole units from the memory at `offset` to `bytes`.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        // SAFETY: the memory is alive, the bytes are writable; the call checks the bounds.
        unsafe {
            match (*self.dm).memcpy_from_dm {
                Some(copy) => check(copy(bytes.as_mut_ptr().cast(), self.dm, offset as u64, bytes.len())),
                None => Err(io::ErrorKind::Unsupported.into()),
            }
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: the region is deregistered first; if that fails the memory stays, because an adapter may still use
        // it.
        unsafe {
            if (self.pd.context().library().verbs.ibv_dereg_mr)(self.mr) == 0 {
                inlines::ibv_free_dm(self.dm);
            }
        }
    }
}
