//! Reports of a program on a virtual host about undeliverable packets, so that the fabric's ports count and report them
//! as on a wire: packets sent over a closed path, and packets with a wrong key.

use serde::{Deserialize, Serialize};

/// Packets that a queue pair sent over a closed path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostPackets {
    /// Number of the path.
    pub path: u32,
    /// Source queue pair.
    pub src_qp: u32,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// How many.
    pub packets: u64,
    /// Bytes of payload in them.
    pub bytes: u64,
}

/// A packet that a queue pair rejected for its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyViolation {
    /// Device that received it.
    pub device: u32,
    /// Port of the device.
    pub port: u8,
    /// Source LID.
    pub slid: u16,
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Whether the key is a Q_Key; else it is a P_Key.
    pub is_qkey: bool,
    /// The key.
    pub key: u32,
    /// Source queue pair.
    pub src_qp: u32,
    /// Queue pair that rejected it.
    pub dest_qp: u32,
    /// GIDs of its GRH, the sender's first, if it has one.
    pub gids: Option<[[u8; 16]; 2]>,
}
