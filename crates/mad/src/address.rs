//! Address of a GMP: where it is sent or where it came from.

use weft_verbs::{Gid, GidType};

/// Both ends of a GMP as this side sees them, and its path. The address of a received datagram also routes the reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GmpAddress {
    /// Number that the devices' owner gave the local device.
    pub device: u32,
    /// Port of the device, 1.
    pub port: u8,
    /// Index of the local GID in the port's GID table.
    pub sgid_index: u8,
    /// The local GID.
    pub sgid: Gid,
    /// Framing of the local GID: InfiniBand, RoCE v1 or RoCE v2.
    pub gid_type: GidType,
    /// The GID of the other end.
    pub dgid: Gid,
    /// LID of the other end; 0 on RoCE, which has none.
    pub dlid: u16,
    /// Queue pair of the other end: 1 unless the class was redirected.
    pub remote_qpn: u32,
    /// P_Key.
    pub pkey: u16,
    /// Service level.
    pub sl: u8,
    /// Traffic class (IPv4 TOS).
    pub traffic_class: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// Hop limit (TTL); 0 is sent as 64.
    pub hop_limit: u8,
    /// Interface that link-local addresses are scoped to.
    pub ifindex: u32,
}

impl GmpAddress {
    /// Returns whether packets carry a GRH: always on RoCE; on InfiniBand when routers may be on the path.
    pub fn is_global(&self) -> bool {
        self.dlid == 0 || self.hop_limit > 1
    }

    /// Returns whether two addresses name the same two ends, whatever path the datagrams took.
    pub fn same_ends(&self, other: &GmpAddress) -> bool {
        self.device == other.device && self.port == other.port && self.sgid == other.sgid && self.dgid == other.dgid
    }
}
