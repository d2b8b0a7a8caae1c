//! fork(2): no page is pinned, so all may be copied on write, and no preparation is needed.

use libc::{c_int, c_void};
use weft_abi_types::{IBV_FORK_UNNEEDED, ibv_fork_status};

/// Does nothing: no preparation is needed.
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// Reports that fork is always safe.
pub extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    IBV_FORK_UNNEEDED
}

/// Does nothing: no page needs a mark.
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// Does nothing: no page has a mark.
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}
