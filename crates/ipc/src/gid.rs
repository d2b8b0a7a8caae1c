//! Rows of a GID table.

use serde::{Deserialize, Serialize};

/// RoCE version of a GID; the numbers are those of `enum ibv_gid_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(u32)]
pub enum GidType {
    /// RoCE v1: ethertype 0x8915. The daemon lists no RoCE v1 rows: see [`crate::DeviceInfo::add_roce_v1`].
    RoceV1 = 0,
    /// RoCE v2: UDP over the IP address in the GID.
    RoceV2 = 2,
}

/// One row of the GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GidEntry {
    /// Row number.
    pub index: u32,
    /// IPv6 address, or IPv4 address mapped into IPv6.
    pub gid: [u8; 16],
    /// RoCE version.
    pub gid_type: GidType,
    /// Interface that has the address.
    pub ifindex: u32,
}
