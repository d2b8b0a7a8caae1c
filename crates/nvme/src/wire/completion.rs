//! Completion queue entry (NVM Express 1.4 §4.6), a response capsule:
//!
//! ```text
//!  0 | result (8 bytes) | 8 | SQ head | SQ identifier | 12 | command identifier | status, phase tag |
//! ```

use zerocopy::byteorder::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Status;

/// Bytes of a completion.
pub const COMPLETION_LEN: usize = 16;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WireCompletion {
    result: U64,
    sq_head: U16,
    sq_id: U16,
    command_id: U16,
    status: U16,
}

const _: () = assert!(size_of::<WireCompletion>() == COMPLETION_LEN);

/// Completion of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Command-specific result.
    pub result: u64,
    /// Submission queue head pointer; 0xffff if the host does not want it.
    pub sq_head: u16,
    /// Identifier of the command.
    pub command_id: u16,
    /// Status.
    pub status: Status,
}

impl Completion {
    /// Reads a response capsule.
    pub fn parse(bytes: &[u8]) -> Option<Completion> {
        let (wire, _) = WireCompletion::read_from_prefix(bytes).ok()?;
        Some(Completion {
            result: wire.result.get(),
            sq_head: wire.sq_head.get(),
            command_id: wire.command_id.get(),
            status: Status::from_wire(wire.status.get()),
        })
    }

    /// Returns the bytes. Fabrics have neither submission queue identifier nor phase tag.
    pub fn to_bytes(&self) -> [u8; COMPLETION_LEN] {
        let wire = WireCompletion {
            result: self.result.into(),
            sq_head: self.sq_head.into(),
            sq_id: 0.into(),
            command_id: self.command_id.into(),
            status: self.status.to_wire().into(),
        };
        zerocopy::transmute!(wire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_survives_the_wire() {
        let completion =
            Completion { result: 0x1_0000_0002, sq_head: 3, command_id: 4, status: Status::INVALID_FIELD.final_one() };
        let bytes = completion.to_bytes();
        assert_eq!(bytes, [2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0x04, 0x80]);
        assert_eq!(Completion::parse(&bytes), Some(completion));
        assert_eq!(Completion::parse(&bytes[..15]), None);
    }
}
