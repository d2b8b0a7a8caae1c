//! Where a GMP goes to or came from.

use weft_verbs::{Gid, GidType};

/// Both ends of a GMP as seen from here, and how it travels. A received datagram's address sends the answer back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GmpAddress {
    /// The local device, numbered by who owns devices.
    pub device: u32,
    /// Port of the device, 1.
    pub port: u8,
    /// Row of the local GID in the port's table.
    pub sgid_index: u8,
    /// The local GID.
    pub sgid: Gid,
    /// Its framing.
    pub gid_type: GidType,
    /// The GID of the other end.
    pub dgid: Gid,
    /// LID of the other end; 0 on RoCE, which has none.
    pub dlid: u16,
    /// Queue pair of the other end: 1, unless a class was redirected.
    pub remote_qpn: u32,
    /// Partition.
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
    /// Whether packets carry a GRH: always on RoCE, on InfiniBand where routers may stand between.
    pub fn is_global(&self) -> bool {
        self.dlid == 0 || self.hop_limit > 1
    }

    /// Whether two addresses name the same two ends, whatever path the datagrams took.
    pub fn same_ends(&self, other: &GmpAddress) -> bool {
        self.device == other.device && self.port == other.port && self.sgid == other.sgid && self.dgid == other.dgid
    }
}
