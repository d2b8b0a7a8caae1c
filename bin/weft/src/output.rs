//! Standard output for commands: a reader that goes away (`weft link | head -1`) ends the printing, not the process
//! with a panic.

use std::io::{self, Write};

/// Writes `text` to standard output and flushes it.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    // Whoever closed the pipe does not want to hear about it.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints one formatted line to standard output.
#[macro_export]
macro_rules! outln {
    ($($arg:tt)*) => { $crate::output::print(&(format!($($arg)*) + "\n")) };
}
