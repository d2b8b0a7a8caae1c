//! fork(2): nothing is pinned, so pages may be copied on write as they like, and nothing need be prepared.

use libc::{c_int, c_void};
use weft_abi_types::{IBV_FORK_UNNEEDED, ibv_fork_status};

/// Nothing to prepare.
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// There is nothing that fork could break.
pub extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    IBV_FORK_UNNEEDED
}

/// Nothing to mark.
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// Nothing to unmark.
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}
