//! The structures of `<infiniband/umad.h>`, as far as their fields are read. Their layout is part of the library's ABI.

use libc::{c_char, c_int, c_uint};

/// Bytes of a device's name with its end.
pub const CA_NAME_LEN: usize = 20;
/// Ports that fit into a [`umad_ca`], port 0 of a switch among them.
pub const CA_PORTS_MAX: usize = 10;

/// A port as the library found it.
#[repr(C)]
pub struct umad_port {
    pub ca_name: [c_char; CA_NAME_LEN],
    pub portnum: c_int,
    pub base_lid: c_uint,
    pub lmc: c_uint,
    pub sm_lid: c_uint,
    pub sm_sl: c_uint,
    pub state: c_uint,
    pub phys_state: c_uint,
    pub rate: c_uint,
    pub capmask: u32,
    pub gid_prefix: u64,
    pub port_guid: u64,
    pub pkeys_size: c_uint,
    pub pkeys: *mut u16,
    pub link_layer: [c_char; CA_NAME_LEN],
}

/// An adapter as the library found it.
#[repr(C)]
pub struct umad_ca {
    pub ca_name: [c_char; CA_NAME_LEN],
    pub node_type: c_uint,
    pub numports: c_int,
    pub fw_ver: [c_char; 20],
    pub ca_type: [c_char; 40],
    pub hw_ver: [c_char; 20],
    pub node_guid: u64,
    pub system_guid: u64,
    pub ports: [*mut umad_port; CA_PORTS_MAX],
}

/// A name in the list of devices.
#[repr(C)]
pub struct umad_device_node {
    pub next: *mut umad_device_node,
    pub ca_name: *const c_char,
}

const _: () = assert!(size_of::<umad_port>() == 112 && size_of::<umad_ca>() == 208);
