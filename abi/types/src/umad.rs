//! Management datagrams: adapters and ports as in `<infiniband/umad.h>`, and the buffer that carries a MAD.

use libc::{c_char, c_int, c_uint};

use crate::{be16, be32, be64};

pub const UMAD_CA_NAME_LEN: usize = 20;
pub const UMAD_CA_MAX_PORTS: usize = 10;
pub const UMAD_MAX_DEVICES: usize = 128;
pub const UMAD_MAX_PORTS: usize = 192;
pub const UMAD_USER_RMPP: u32 = 1;

/// Destination or source of a MAD; multi-byte fields except the P_Key index are in network order.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ib_mad_addr {
    pub qpn: be32,
    pub qkey: be32,
    pub lid: be16,
    pub sl: u8,
    pub path_bits: u8,
    pub grh_present: u8,
    pub gid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub gid: [u8; 16],
    pub flow_label: be32,
    pub pkey_index: u16,
    pub reserved: [u8; 6],
}

/// The header of the buffer; the MAD follows it.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ib_user_mad {
    pub agent_id: u32,
    pub status: u32,
    pub timeout_ms: u32,
    pub retries: u32,
    pub length: u32,
    pub addr: ib_mad_addr,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct umad_port {
    pub ca_name: [c_char; UMAD_CA_NAME_LEN],
    pub portnum: c_int,
    pub base_lid: c_uint,
    pub lmc: c_uint,
    pub sm_lid: c_uint,
    pub sm_sl: c_uint,
    pub state: c_uint,
    pub phys_state: c_uint,
    pub rate: c_uint,
    pub capmask: be32,
    pub gid_prefix: be64,
    pub port_guid: be64,
    pub pkeys_size: c_uint,
    pub pkeys: *mut u16,
    pub link_layer: [c_char; UMAD_CA_NAME_LEN],
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct umad_ca {
    pub ca_name: [c_char; UMAD_CA_NAME_LEN],
    pub node_type: c_uint,
    pub numports: c_int,
    pub fw_ver: [c_char; 20],
    pub ca_type: [c_char; 40],
    pub hw_ver: [c_char; 20],
    pub node_guid: be64,
    pub system_guid: be64,
    pub ports: [*mut umad_port; UMAD_CA_MAX_PORTS],
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct umad_ca_pair {
    pub smi_name: [c_char; UMAD_CA_NAME_LEN],
    pub smi_preferred_port: u32,
    pub gsi_name: [c_char; UMAD_CA_NAME_LEN],
    pub gsi_preferred_port: u32,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct umad_device_node {
    pub next: *mut umad_device_node,
    pub ca_name: *const c_char,
}

#[repr(C)]
#[derive(Copy, Clone, Debug, Default)]
pub struct umad_reg_attr {
    pub mgmt_class: u8,
    pub mgmt_class_version: u8,
    pub flags: u32,
    pub method_mask: [u64; 2],
    pub oui: u32,
    pub rmpp_version: u8,
}

const _: () = assert!(size_of::<ib_user_mad>() == 64 && size_of::<ib_mad_addr>() == 44);
