//! The wrapped calls.

mod define;
mod files;
mod names;
mod walks;

/// Looks all wrapped calls up.
pub fn resolve() {
    files::resolve();
    names::resolve();
    walks::resolve();
}
