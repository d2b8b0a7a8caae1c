//! The exit status of rping, and its debug output.

/// Prints a line if the options enable debug output.
macro_rules! debug {
    ($options:expr, $($arg:tt)*) => {
        if $options.debug {
            $crate::output::print(&(format!($($arg)*) + "\n"));
        }
    };
}
pub(super) use debug;

/// The program's exit status, as C's `exit` takes it.
pub type Status = i32;

/// The status after a fatal event.
pub const FATAL: Status = -1;
