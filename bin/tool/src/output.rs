//! Standard output and standard error. If the reader goes away (`weft link | head -1`), printing ends, without a panic
//! of the process; output lost to a full disk is reported and makes the exit code a failure.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};

/// The errno of lost output, or 0.
static LOST: AtomicI32 = AtomicI32::new(0);

/// Writes `text` to standard output and flushes it.
pub fn print(text: &str) {
    #[cfg(feature = "capture")]
    if heard::hear(text) {
        return;
    }
    print_bytes(text.as_bytes());
}

/// Writes bytes, not necessarily text, to standard output and flushes it.
pub fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        note(&error);
    }
}

/// Writes a line to standard error.
pub fn complain(line: Arguments<'_>) {
    // A single write keeps lines of several processes whole.
    complain_text(&format!("{line}\n"));
}

/// Writes `text` to standard error, ignoring errors.
pub fn complain_text(text: &str) {
    #[cfg(feature = "capture")]
    if heard::hear(text) {
        return;
    }
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Records that output was lost. A closed pipe does not count: its reader stopped on purpose.
fn note(error: &io::Error) {
    if error.kind() != io::ErrorKind::BrokenPipe {
        LOST.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Relaxed);
    }
}

/// The process's exit code: `code`, or failure if output was lost.
pub fn end(code: ExitCode) -> ExitCode {
    match LOST.load(Ordering::Relaxed) {
        0 => code,
        errno => {
            let why = crate::errno::text(&io::Error::from_raw_os_error(errno));
            complain(format_args!("standard output: {why}: output is lost"));
            ExitCode::FAILURE
        }
    }
}

/// Prints one formatted line to standard output.
#[macro_export]
macro_rules! outln {
    ($($arg:tt)*) => { $crate::output::print(&(format!($($arg)*) + "\n")) };
}

/// Prints one formatted line to standard error; unlike `eprintln!` it does not panic if standard error is closed.
#[macro_export]
macro_rules! errln {
    ($($arg:tt)*) => { $crate::output::complain(format_args!($($arg)*)) };
}

#[cfg(feature = "capture")]
pub mod heard {
    //! Captures a tool's output in tests.

    use std::cell::RefCell;

    thread_local! {
        static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
    }

    /// Starts to capture this thread's output.
    pub fn listen() {
        HEARD.set(Some(String::new()));
    }

    /// Ends the capture and returns the output.
    pub fn take() -> String {
        HEARD.take().unwrap_or_default()
    }

    pub(super) fn hear(text: &str) -> bool {
        HEARD.with_borrow_mut(|heard| heard.as_mut().map(|heard| heard.push_str(text))).is_some()
    }
}
