//! Management datagrams for the tools: safe objects over a `libibumad` that is loaded at run time, Weft's or the
//! system's.
//!
//! C structures from the library are copied and released at once; a [`Packet`] is the buffer that its calls fill.

mod ca;
mod library;
mod packet;
mod port;

pub use ca::{Ca, CaPort};
#[cfg(feature = "replace")]
pub use library::{Calls, replace};
pub use library::{IssmNode, Library};
pub use packet::{Address, Grh, Packet};
pub use port::{MethodMask, Port, Registration};

use std::io;

/// The error of a call that answers with a negative errno and may have set errno too.
fn error_of(rc: libc::c_int) -> io::Error {
    let told = io::Error::last_os_error();
    match told.raw_os_error() {
        None | Some(0) => io::Error::from_raw_os_error(rc.saturating_neg().max(1)),
        Some(_) => told,
    }
}

/// Sets errno to 0, so that [`error_of`] does not report an earlier error.
fn forget_error() {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = 0 };
}
