//! Names of objects, stacks and calls.

/// An object's address.
pub type Handle = u64;

/// A stack of return addresses that the library has stored.
pub type StackId = u32;

/// The stack of the call in progress: the library captures it only if a breach names it.
pub const CURRENT_STACK: StackId = 0;

/// A call and its place in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// Name of the call.
    pub call: &'static str,
    /// Its callers.
    pub stack: StackId,
}

impl Site {
    /// The call in progress.
    pub const fn current(call: &'static str) -> Site {
        Site { call, stack: CURRENT_STACK }
    }
}
