//! Ports: none can be opened, so no port id is valid.

use libc::{EINVAL, ENODEV, c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

static DEBUG_LEVEL: AtomicI32 = AtomicI32::new(0);

/// The port is not there.
pub extern "C" fn umad_get_port(_ca_name: *const c_char, _portnum: c_int, _port: *mut c_void) -> c_int {
    -ENODEV
}

/// Nothing was handed out.
pub extern "C" fn umad_release_port(_port: *mut c_void) -> c_int {
    -ENODEV
}

/// The port is not there.
pub extern "C" fn umad_get_issm_path(
    _ca_name: *const c_char,
    _portnum: c_int,
    _path: *mut c_char,
    _max: c_int,
) -> c_int {
    -ENODEV
}

/// The port is not there.
pub extern "C" fn umad_open_port(_ca_name: *const c_char, _portnum: c_int) -> c_int {
    -ENODEV
}

/// The port is not there.
pub extern "C" fn umad_open_smi_port(_ca_name: *const c_char, _portnum: c_int) -> c_int {
    -ENODEV
}

/// Nothing was opened.
pub extern "C" fn umad_close_port(_port_id: c_int) -> c_int {
    -EINVAL
}

/// A port id is its descriptor.
pub extern "C" fn umad_get_fd(port_id: c_int) -> c_int {
    port_id
}

/// Not a port.
pub extern "C" fn umad_register(
    _port_id: c_int,
    _mgmt_class: c_int,
    _mgmt_version: c_int,
    _rmpp_version: u8,
    _method_mask: *mut c_long,
) -> c_int {
    -EINVAL
}

/// Not a port.
pub extern "C" fn umad_register_oui(
    _port_id: c_int,
    _mgmt_class: c_int,
    _rmpp_version: u8,
    _oui: *mut u8,
    _method_mask: *mut c_long,
) -> c_int {
    -EINVAL
}

/// Not a port; this one returns an errno value.
pub extern "C" fn umad_register2(_port_fd: c_int, _attr: *mut c_void, _agent_id: *mut u32) -> c_int {
    EINVAL
}

/// Not a port.
pub extern "C" fn umad_unregister(_port_id: c_int, _agent_id: c_int) -> c_int {
    -EINVAL
}

/// Not a port.
pub extern "C" fn umad_send(
    _port_id: c_int,
    _agent_id: c_int,
    _umad: *mut c_void,
    _length: c_int,
    _timeout_ms: c_int,
    _retries: c_int,
) -> c_int {
    -EINVAL
}

/// Not a port.
pub extern "C" fn umad_recv(_port_id: c_int, _umad: *mut c_void, _length: *mut c_int, _timeout_ms: c_int) -> c_int {
    -EINVAL
}

/// Not a port.
pub extern "C" fn umad_poll(_port_id: c_int, _timeout_ms: c_int) -> c_int {
    -EINVAL
}

/// Sets the level unless it is negative, and tells it. This library prints nothing at any level.
pub extern "C" fn umad_debug(level: c_int) -> c_int {
    if level >= 0 {
        DEBUG_LEVEL.store(level, Ordering::Relaxed);
    }
    DEBUG_LEVEL.load(Ordering::Relaxed)
}

/// Prints nothing.
pub extern "C" fn umad_addr_dump(_addr: *mut c_void) {}

/// Prints nothing.
pub extern "C" fn umad_dump(_umad: *mut c_void) {}
