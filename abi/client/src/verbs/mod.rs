//! Verbs for the tools: safe objects over a `libibverbs` that is loaded at run time, Weft's or the system's.
//!
//! Each object keeps its parents alive and is destroyed when dropped, in the order that verbs require. Memory that an
//! adapter may write at any time is never exposed as a slice: [`Buffer`] copies in and out.

mod ah;
mod buffer;
mod context;
mod cq;
mod device;
mod dm;
mod library;
mod memory;
mod qp;
mod region;
mod srq;
mod window;
mod wr;

pub use ah::{Ah, Path};
pub use buffer::{Buffer, Pd, Sge};
pub use context::{Context, GidRow};
pub use cq::{Channel, Cq, TimestampCq, Wc};
pub use device::{Device, DeviceList};
pub use dm::{DM_ALIGN, DeviceMemory};
pub use library::Library;
pub use memory::Memory;
pub use qp::{Connect, Qp, QpRequest, no_attributes};
pub use region::Region;
pub use srq::{Srq, SrqRequest, Xrcd};
pub use window::Window;
pub use wr::{Op, Remote, SendChain, SendRequest, UdTarget};

use std::io;

/// Converts a call's return value, an errno or -1 with errno set, to a result.
pub(crate) fn check(rc: libc::c_int) -> io::Result<()> {
    match rc {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// Converts a call's return value, a pointer or null with errno set, to a result.
pub(crate) fn check_ptr<T>(ptr: *mut T) -> io::Result<*mut T> {
    if ptr.is_null() {
        return Err(io::Error::last_os_error());
    }
    Ok(ptr)
}
