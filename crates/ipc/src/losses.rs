//! What a program on a virtual host tells of packets that came to nothing, so that the fabric's ports count and tell it as
//! they would on a wire: packets that were sent where none arrive, and packets with another's key.

use serde::{Deserialize, Serialize};

use crate::{Client, Request, RequestError, Response};

/// Packets that a queue pair sent by a way that is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostPackets {
    /// Number of the way.
    pub path: u32,
    /// Queue pair that sent them.
    pub src_qp: u32,
    /// Queue pair that they were for.
    pub dest_qp: u32,
    /// How many.
    pub packets: u64,
    /// Bytes of payload in them.
    pub bytes: u64,
}

/// A packet that a queue pair refused for its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyViolation {
    /// Device that it came to.
    pub device: u32,
    /// Its port.
    pub port: u8,
    /// LID of the sender.
    pub slid: u16,
    /// LID that it was sent to.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Whether the key is a Q_Key; else it is a P_Key.
    pub is_qkey: bool,
    /// The key.
    pub key: u32,
    /// Queue pair that sent it.
    pub src_qp: u32,
    /// Queue pair that refused it.
    pub dest_qp: u32,
    /// GIDs of its GRH, the sender's first, if it has one.
    pub gids: Option<[[u8; 16]; 2]>,
}

impl Client {
    /// Tells what was sent in vain.
    pub fn lost_packets(&mut self, lost: Vec<LostPackets>) -> Result<(), RequestError> {
        self.tell_fabric(Request::LostPackets(lost))
    }

    /// Tells of packets with a wrong key.
    pub fn key_violations(&mut self, violations: Vec<KeyViolation>) -> Result<(), RequestError> {
        self.tell_fabric(Request::KeyViolations(violations))
    }

    fn tell_fabric(&mut self, request: Request) -> Result<(), RequestError> {
        match self.request(request)? {
            Response::Done => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }
}
