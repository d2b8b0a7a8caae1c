//! Memory that the service reaches, too: it moves onto the page file of this process, where it keeps its addresses.

use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};

use weft_rds::local::PAGE_FILE_BYTES;
use weft_sys::page_file::{Immovable, MoveError, PageFile, forking};

use crate::failure::Failure;

static FILE: AtomicPtr<PageFile> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the page file of this process, which lives as long as the process does.
fn file() -> io::Result<&'static PageFile> {
    let known = FILE.load(Ordering::Acquire);
    // SAFETY: null, or a file that was leaked.
    if let Some(file) = unsafe { known.as_ref() }.filter(|file| file.is_own()) {
        return Ok(file);
    }
    let file = Box::into_raw(Box::new(PageFile::new("weft-rds-pages", PAGE_FILE_BYTES)?));
    // SAFETY: just leaked.
    let file = unsafe { &*file };
    let place = std::ptr::from_ref(file).cast_mut();
    match FILE.compare_exchange(known, place, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            forking::keep_private(file)?;
            Ok(file)
        }
        // SAFETY: another thread of this process leaked it; ours stays empty.
        Err(other) => Ok(unsafe { &*other }),
    }
}

/// Moves memory onto the page file, unless it is there. Returns the file.
pub fn take_in(address: u64, length: u64) -> Result<&'static PageFile, Failure> {
    let file = file()?;
    let error = match file.take_in(address, length) {
        Ok(()) => return Ok(file),
        Err(error) => error,
    };
    let errno = match &error {
        MoveError::Immovable(Immovable::Hole | Immovable::ReadOnly) => libc::EFAULT,
        MoveError::Immovable(Immovable::Shared | Immovable::Stack | Immovable::Threads) => libc::EOPNOTSUPP,
        MoveError::System(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    let line = format!("weft rds: RDMA with {length} bytes at {address:#x}: {error}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
    Err(Failure(errno))
}
