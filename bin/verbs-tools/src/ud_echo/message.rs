//! The message: a question, and the answer with the server's address in it.

use super::address::{Address, MESSAGE_BYTES};
use super::end::End;

/// First bytes of a message.
const MAGIC: [u8; 8] = *b"weftecho";

/// A message. All numbers are big-endian on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Random number of the client's run.
    pub nonce: u64,
    /// Number of the server among those that the client asks.
    pub number: u32,
    /// Queue pair that waits for the answer.
    pub requester_qpn: u32,
    /// In a question the server that the client means, in an answer the one that answers.
    pub responder: Address,
}

impl Message {
    /// Reads the message that arrived in a slot; `None` if it is another program's.
    pub fn read(end: &End, slot: usize) -> Option<Message> {
        let mut bytes = [0; MESSAGE_BYTES];
        end.read(slot, &mut bytes);
        Message::parse(&bytes)
    }

    /// Writes the message into a slot.
    pub fn write(&self, end: &End, slot: usize) {
        end.write(slot, &self.bytes());
    }

    fn bytes(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.requester_qpn.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.responder.qpn.to_be_bytes());
        bytes[28..30].copy_from_slice(&self.responder.lid.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8; MESSAGE_BYTES]) -> Option<Message> {
        let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if bytes[..8] != MAGIC {
            return None;
        }
        Some(Message {
            nonce: u64::from(word(8)?) << 32 | u64::from(word(12)?),
            number: word(16)?,
            requester_qpn: word(20)?,
            responder: Address { qpn: word(24)?, lid: (word(28)? >> 16) as u16 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_wire() {
        let responder = Address { lid: 0xbeef, qpn: 0x12_3456 };
        let message = Message { nonce: 0x0123_4567_89ab_cdef, number: 7, requester_qpn: 0x65_4321, responder };
        let mut bytes = message.bytes();
        assert_eq!(Message::parse(&bytes), Some(message));
        bytes[0] ^= 1;
        assert_eq!(Message::parse(&bytes), None);
    }
}
