//! A packet on its way in, with what the layers beneath knew of it.

use weft_verbs::{DeviceId, Gid, GidType};
use weft_wire::packet::Packet;

/// A received packet whose ICRC has been verified.
#[derive(Clone, Copy, Debug)]
pub struct RxPacket<'a> {
    /// BTH, extended headers and payload.
    pub packet: Packet<'a>,
    /// Source address as a GID.
    pub sgid: Gid,
    /// Destination address as a GID (a group's, for multicast).
    pub dgid: Gid,
    /// Traffic class (IPv4 TOS), for the GRH of datagrams.
    pub traffic_class: u8,
    /// Hop limit (TTL) left, for the GRH of datagrams.
    pub hop_limit: u8,
    /// Interface it came in by; 0 if unknown.
    pub ifindex: u32,
    /// How it was framed.
    pub gid_type: GidType,
    /// What its local route header said, if it came over an InfiniBand fabric.
    pub local: Option<LocalRoute>,
}

/// What the local route header of a packet said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalRoute {
    /// LID of the sender.
    pub slid: u16,
    /// LID that it was sent to, of a port or of a group.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Low bits of the LID that it was sent to.
    pub path_bits: u8,
    /// A global route header followed.
    pub global: bool,
    /// Device and port that it came to, if it crossed the fabric hop by hop.
    pub came_to: Option<(DeviceId, u8)>,
    /// Slot of the process that sent it, as the switches know it: the high bits of the numbers of its queue pairs.
    pub sender: Option<u32>,
}
