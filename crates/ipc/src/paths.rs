//! Paths over the InfiniBand fabric. A program on a virtual host asks whether its packets would arrive, learns when
//! that changes, and reports its traffic, so that the counters of the ports on the path are right.

use serde::{Deserialize, Serialize};

/// A path for packets of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PathRequest {
    /// Device of the program's host.
    pub device: u32,
    /// Port of the device.
    pub port: u8,
    /// Destination LID; 0 from an Ethernet port.
    pub dlid: u16,
    /// Destination GID from an Ethernet port; zero elsewhere.
    pub dgid: [u8; 16],
    /// Service level.
    pub sl: u8,
    /// P_Key.
    pub pkey: u16,
    /// Payload of the longest packet in bytes.
    pub mtu: u16,
    /// Slot of the destination process.
    pub slot: u32,
    /// Whether the return path must be open too.
    pub there_and_back: bool,
}

/// The daemon's reply about a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathReply {
    /// Number of the path, which change events carry.
    pub path: u32,
    /// Whether packets arrive now.
    pub open: bool,
    /// Whether the process is on the host that has the destination LID, so that the two may connect directly.
    pub meets: bool,
}

/// Traffic over a path since the last report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathTraffic {
    /// Number of the path.
    pub path: u32,
    /// Packets sent.
    pub packets: u64,
    /// Payload bytes sent.
    pub bytes: u64,
    /// Packets received in return, without acknowledgements.
    pub packets_back: u64,
    /// Payload bytes received in return.
    pub bytes_back: u64,
}

/// Membership of a program in a multicast group of the fabric, at one of its host's ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct GroupMember {
    /// Device of the program's host.
    pub device: u32,
    /// Port of the device.
    pub port: u8,
    /// LID of the group (MLID).
    pub mlid: u16,
    /// GID of the group (MGID).
    pub mgid: [u8; 16],
}

/// Destinations of packets to a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupReply {
    /// Number of the path, which change events carry.
    pub path: u32,
    /// Slots of the processes that listen at those destinations, the requester's own included if it listens.
    pub slots: Vec<u32>,
}
