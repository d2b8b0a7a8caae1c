//! A received packet, with information from the lower layers.

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
    /// Interface that it arrived on; 0 if unknown.
    pub ifindex: u32,
    /// Its framing.
    pub gid_type: GidType,
    /// Its local route header, if it came over an InfiniBand fabric.
    pub local: Option<LocalRoute>,
}

/// Fields of a packet's local route header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalRoute {
    /// LID of the sender.
    pub slid: u16,
    /// Destination LID, of a port or of a group.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Low bits of the destination LID.
    pub path_bits: u8,
    /// Whether a global route header followed.
    pub global: bool,
    /// Device and port that received it, if it crossed the fabric hop by hop.
    pub came_to: Option<(DeviceId, u8)>,
    /// Slot of the sending process, as the switches know it: the high bits of its queue pair numbers.
    pub sender: Option<u32>,
}
