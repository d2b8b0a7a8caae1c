//! Standard output and standard error: a reader that goes away (`weft link | head -1`) ends the printing, not the process
//! with a panic; what a full disk swallows is told, and the exit code says so.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};

/// The errno with which output was lost, or 0.
static LOST: AtomicI32 = AtomicI32::new(0);

/// Writes `text` to standard output and flushes it.
pub fn print(text: &str) {
    #[cfg(test)]
    if heard::hear(text) {
        return;
    }
    print_bytes(text.as_bytes());
}

/// Writes bytes that may be no text to standard output and flushes it.
pub fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        note(&error);
    }
}

/// Writes a line to standard error.
pub fn complain(line: Arguments<'_>) {
    // One write: lines of several processes stay whole.
    complain_text(&format!("{line}\n"));
}

/// Writes `text` to standard error. Where nobody can be told, nothing is said.
pub fn complain_text(text: &str) {
    #[cfg(test)]
    if heard::hear(text) {
        return;
    }
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Keeps that output was lost. Whoever closed the pipe does not want to hear about it.
fn note(error: &io::Error) {
    if error.kind() != io::ErrorKind::BrokenPipe {
        LOST.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Relaxed);
    }
}

/// What the process ends with: `code`, or failure where its output was lost.
pub fn end(code: ExitCode) -> ExitCode {
    match LOST.load(Ordering::Relaxed) {
        0 => code,
        errno => {
            let why = crate::errno::text(&io::Error::from_raw_os_error(errno));
            complain(format_args!("standard output: {why}: what was to be said is lost"));
            ExitCode::FAILURE
        }
    }
}

/// Prints one formatted line to standard output.
#[macro_export]
macro_rules! outln {
    ($($arg:tt)*) => { $crate::output::print(&(format!($($arg)*) + "\n")) };
}

/// Prints one formatted line to standard error; unlike `eprintln!` it does not panic when that is gone.
#[macro_export]
macro_rules! errln {
    ($($arg:tt)*) => { $crate::output::complain(format_args!($($arg)*)) };
}

#[cfg(test)]
pub mod heard {
    //! What tests hear of what a tool prints.

    use std::cell::RefCell;

    thread_local! {
        static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
    }

    /// Keeps what this thread prints from now on.
    pub fn listen() {
        HEARD.set(Some(String::new()));
    }

    /// What it has printed since.
    pub fn take() -> String {
        HEARD.take().unwrap_or_default()
    }

    pub(super) fn hear(text: &str) -> bool {
        HEARD.with_borrow_mut(|heard| heard.as_mut().map(|heard| heard.push_str(text))).is_some()
    }
}
