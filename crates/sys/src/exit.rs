//! Orderly process exit.

use std::io;
use std::sync::OnceLock;

static HANDLER: OnceLock<fn()> = OnceLock::new();

/// Registers `handler` to run when the program returns from `main` or calls `exit`. Other threads may still run and may
/// hold any lock, so the handler must not wait for a lock without a bound. There is one handler for each process; a
/// second call changes nothing.
pub fn at_exit(handler: fn()) -> io::Result<()> {
    if HANDLER.set(handler).is_err() {
        return Ok(());
    }
    // SAFETY: the handler is a function of the C calling convention and lives for ever (this code is never unloaded:
    // our libraries are linked with -z nodelete).
    match unsafe { libc::atexit(at_end) } {
        0 => Ok(()),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

extern "C" fn at_end() {
    if let Some(handler) = HANDLER.get() {
        handler();
    }
}
