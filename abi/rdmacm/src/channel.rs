//! Event channels, identifiers and devices: there are none, and ENODEV says so.

use libc::{ENODEV, c_int, c_void};
use weft_abi_types::ibv_context;

use crate::{fail, fail_null};

/// No channel can be made.
pub extern "C" fn rdma_create_event_channel() -> *mut c_void {
    fail_null(ENODEV)
}

/// Nothing was made, so nothing is destroyed.
pub extern "C" fn rdma_destroy_event_channel(_channel: *mut c_void) {}

/// No identifier can be made.
pub extern "C" fn rdma_create_id(
    _channel: *mut c_void,
    _id: *mut *mut c_void,
    _context: *mut c_void,
    _port_space: c_int,
) -> c_int {
    fail(ENODEV)
}

/// No endpoint can be made.
pub extern "C" fn rdma_create_ep(
    _id: *mut *mut c_void,
    _res: *mut c_void,
    _pd: *mut c_void,
    _qp_init_attr: *mut c_void,
) -> c_int {
    fail(ENODEV)
}

/// No address can be resolved.
pub extern "C" fn rdma_getaddrinfo(
    _node: *const libc::c_char,
    _service: *const libc::c_char,
    _hints: *const c_void,
    _res: *mut *mut c_void,
) -> c_int {
    fail(ENODEV)
}

/// Nothing was resolved, so nothing is freed.
pub extern "C" fn rdma_freeaddrinfo(_res: *mut c_void) {}

/// No devices.
pub unsafe extern "C" fn rdma_get_devices(num_devices: *mut c_int) -> *mut *mut ibv_context {
    if !num_devices.is_null() {
        // SAFETY: the caller passes null or a place for the count.
        unsafe { *num_devices = 0 };
    }
    fail_null(ENODEV)
}

/// No list was handed out, so nothing is freed.
pub extern "C" fn rdma_free_devices(_list: *mut *mut ibv_context) {}
