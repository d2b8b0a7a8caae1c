//! Messages as SENDs, for devices without immediate data: four bytes each, in the sender's byte order, as rdma-core has
//! them on iWARP.

use libc::c_int;
use weft_abi_types::{ibv_pd, ibv_sge};

use crate::rsocket::memory::{Region, Writer};
use crate::rsocket::proto::inbound::Piece;
use crate::rsocket::proto::message::Message;

/// Bytes of a message.
pub(super) const MESSAGE_BYTES: u32 = size_of::<u32>() as u32;

/// The memory of receives: a ring of places, used and completed in order.
pub(crate) struct SentMessages {
    memory: Region,
    places: u32,
    /// Place of the next receive.
    posted: u32,
    /// Place of the oldest receive that was posted.
    taken: u32,
}

impl SentMessages {
    /// Allocates memory for as many receives.
    pub(super) fn new(pd: *mut ibv_pd, receives: u16) -> Result<SentMessages, c_int> {
        let places = u32::from(receives);
        let memory = Region::new(pd, (places * MESSAGE_BYTES) as usize, Writer::Local)?;
        Ok(SentMessages { memory, places, posted: 0, taken: 0 })
    }

    /// Returns the bytes to send.
    pub(super) fn encode(message: Message) -> [u8; MESSAGE_BYTES as usize] {
        message.encode().to_ne_bytes()
    }

    /// Returns memory for a new receive.
    pub(super) fn place(&mut self) -> ibv_sge {
        let offset = self.posted * MESSAGE_BYTES;
        self.posted = (self.posted + 1) % self.places;
        self.memory.sge(Piece { offset, length: MESSAGE_BYTES })
    }

    /// Takes the message of the oldest receive, into which came `bytes`.
    pub(super) fn take(&mut self, bytes: u32) -> Option<u32> {
        let offset = self.taken * MESSAGE_BYTES;
        self.taken = (self.taken + 1) % self.places;
        let message = self.memory.to_vec(offset as usize, MESSAGE_BYTES as usize);
        Some(u32::from_ne_bytes(message.try_into().ok()?)).filter(|_| bytes == MESSAGE_BYTES)
    }
}
