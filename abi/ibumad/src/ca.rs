//! Channel adapters: none are found.

use libc::{ENODEV, c_char, c_int, c_void};

/// Nothing to set up.
pub extern "C" fn umad_init() -> c_int {
    0
}

/// Nothing to take down.
pub extern "C" fn umad_done() -> c_int {
    0
}

/// No adapters.
pub extern "C" fn umad_get_cas_names(_cas: *mut [c_char; 20], _max: c_int) -> c_int {
    0
}

/// The adapter is not there.
pub extern "C" fn umad_get_ca_portguids(_ca_name: *const c_char, _guids: *mut u64, _max: c_int) -> c_int {
    -ENODEV
}

/// The adapter is not there.
pub extern "C" fn umad_get_ca(_ca_name: *const c_char, _ca: *mut c_void) -> c_int {
    -ENODEV
}

/// Nothing was handed out.
pub extern "C" fn umad_release_ca(_ca: *mut c_void) -> c_int {
    -ENODEV
}

/// An empty list.
pub extern "C" fn umad_get_ca_device_list() -> *mut c_void {
    // SAFETY: errno is this thread's own; 0 tells an empty list from a failure.
    unsafe { *libc::__errno_location() = 0 };
    std::ptr::null_mut()
}

/// An empty list holds nothing to free.
pub extern "C" fn umad_free_ca_device_list(_head: *mut c_void) {}

/// An empty list is sorted.
pub extern "C" fn umad_sort_ca_device_list(_head: *mut *mut c_void, _size: usize) -> c_int {
    0
}

/// No pairs of management interfaces.
pub extern "C" fn umad_get_smi_gsi_pairs(_pairs: *mut c_void, _max: usize) -> c_int {
    0
}

/// The adapter is not there: 1, as for a name that no pair carries.
pub extern "C" fn umad_get_smi_gsi_pair_by_ca_name(
    _name: *const c_char,
    _portnum: u8,
    _pair: *mut c_void,
    _enforce_smi: c_int,
) -> c_int {
    1
}
