//! Data buffers: memory of the initiator, or bytes of the command itself (SRP §5.6; immediate data: SRP-2).
//!
//! ```text
//! direct    | address (8) | key (4) | length (4) |
//! indirect  | table: address (8), key (4), length (4) | total length (4) | first descriptors of the table ... |
//! immediate | length (4) |  with the data at the place that login agreed on
//! ```

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::DESCRIPTORS_MAX;

/// Bytes of a descriptor.
pub const DESCRIPTOR_LEN: usize = 16;
/// Bytes before the descriptors of an indirect one.
const INDIRECT_LEN: usize = DESCRIPTOR_LEN + 4;

/// Memory of the initiator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Address.
    pub address: u64,
    /// Key.
    pub key: u32,
    /// Bytes.
    pub length: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PieceBytes {
    address: U64,
    key: U32,
    length: U32,
}

const _: () = assert!(size_of::<PieceBytes>() == DESCRIPTOR_LEN);

impl PieceBytes {
    fn piece(&self) -> Piece {
        Piece { address: self.address.get(), key: self.key.get(), length: self.length.get() }
    }
}

impl Piece {
    /// Returns the bytes.
    pub fn to_bytes(&self) -> [u8; DESCRIPTOR_LEN] {
        let fields = PieceBytes { address: self.address.into(), key: self.key.into(), length: self.length.into() };
        zerocopy::transmute!(fields)
    }
}

/// Format of a descriptor, as a command names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferFormat {
    /// No buffer.
    None,
    /// Direct.
    Direct,
    /// Indirect.
    Indirect,
    /// Immediate data.
    Immediate,
}

impl BufferFormat {
    /// Returns the format's four bits.
    pub fn code(self) -> u8 {
        match self {
            BufferFormat::None => 0,
            BufferFormat::Direct => 1,
            BufferFormat::Indirect => 2,
            BufferFormat::Immediate => 3,
        }
    }

    /// Reads a format of four bits.
    pub fn parse(code: u8) -> Option<BufferFormat> {
        Some(match code {
            0 => BufferFormat::None,
            1 => BufferFormat::Direct,
            2 => BufferFormat::Indirect,
            3 => BufferFormat::Immediate,
            _ => return None,
        })
    }
}

/// Reason why a buffer is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DescriptorError {
    /// The information unit ends before the descriptor does.
    #[error("the descriptor is longer than its information unit")]
    Short,
    /// The lengths of an indirect descriptor contradict each other.
    #[error("the lengths of the descriptors contradict each other")]
    Lengths,
    /// More descriptors than a buffer may have.
    #[error("more than {DESCRIPTORS_MAX} descriptors")]
    TooMany,
}

/// Data buffer that is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DataBuffer {
    /// Memory of the initiator, in order.
    pub pieces: Vec<Piece>,
    /// Bytes of the command.
    pub immediate: Option<Vec<u8>>,
    /// Bytes of all.
    pub length: u32,
}

impl DataBuffer {
    fn of_pieces(pieces: Vec<Piece>, length: u32) -> DataBuffer {
        DataBuffer { pieces, immediate: None, length }
    }

    /// Returns the memory of the first bytes.
    pub fn first(&self, bytes: u32) -> Vec<Piece> {
        let mut left = bytes;
        let mut pieces = Vec::new();
        for piece in &self.pieces {
            let length = piece.length.min(left);
            if length > 0 {
                pieces.push(Piece { length, ..*piece });
            }
            left -= length;
        }
        pieces
    }
}

/// Indirect descriptor whose table is not wholly in the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indirect {
    /// Memory of the table.
    pub table: Piece,
    /// Bytes of the buffer.
    pub length: u32,
}

impl Indirect {
    /// Reads the table, which has been fetched.
    ///
    /// # Errors
    /// The table is malformed.
    pub fn with_table(&self, bytes: &[u8]) -> Result<DataBuffer, DescriptorError> {
        table(bytes, self.length)
    }
}

/// Buffer as a command describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Descriptors {
    /// It is known.
    Known(DataBuffer),
    /// Its table is in the initiator's memory.
    Indirect(Indirect),
}

impl Descriptors {
    /// Reads the descriptor at the begin of `bytes`, and returns the rest. `count`: descriptors of the table that stand in
    /// the command.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(format: BufferFormat, count: u8, bytes: &[u8]) -> Result<(Descriptors, &[u8]), DescriptorError> {
        let known = |pieces, length| Descriptors::Known(DataBuffer::of_pieces(pieces, length));
        match format {
            BufferFormat::None => Ok((known(Vec::new(), 0), bytes)),
            BufferFormat::Direct => {
                let (fields, rest) = PieceBytes::ref_from_prefix(bytes).map_err(|_| DescriptorError::Short)?;
                let piece = fields.piece();
                Ok((known(vec![piece], piece.length), rest))
            }
            BufferFormat::Indirect => {
                let (head, rest) = bytes.split_at_checked(INDIRECT_LEN).ok_or(DescriptorError::Short)?;
                let (fields, length) = PieceBytes::ref_from_prefix(head).map_err(|_| DescriptorError::Short)?;
                let length = U32::read_from_bytes(length).map_err(|_| DescriptorError::Short)?.get();
                let there = usize::from(count) * DESCRIPTOR_LEN;
                let (list, rest) = rest.split_at_checked(there).ok_or(DescriptorError::Short)?;
                let indirect = Indirect { table: fields.piece(), length };
                let descriptors = indirect.table.length as usize / DESCRIPTOR_LEN;
                match descriptors {
                    _ if !(indirect.table.length as usize).is_multiple_of(DESCRIPTOR_LEN) => {
                        Err(DescriptorError::Lengths)
                    }
                    0 => Err(DescriptorError::Lengths),
                    n if n > DESCRIPTORS_MAX => Err(DescriptorError::TooMany),
                    n if n < usize::from(count) => Err(DescriptorError::Lengths),
                    n if n == usize::from(count) => Ok((Descriptors::Known(table(list, length)?), rest)),
                    _ => Ok((Descriptors::Indirect(indirect), rest)),
                }
            }
            BufferFormat::Immediate => {
                let (length, rest) = U32::ref_from_prefix(bytes).map_err(|_| DescriptorError::Short)?;
                Ok((known(Vec::new(), length.get()), rest))
            }
        }
    }
}

/// Reads a table of descriptors for a buffer of `length` bytes.
///
/// # Errors
/// It has other bytes than the buffer, or too many descriptors.
pub fn table(bytes: &[u8], length: u32) -> Result<DataBuffer, DescriptorError> {
    let fields = <[PieceBytes]>::ref_from_bytes(bytes).map_err(|_| DescriptorError::Lengths)?;
    if fields.len() > DESCRIPTORS_MAX {
        return Err(DescriptorError::TooMany);
    }
    let pieces: Vec<Piece> = fields.iter().map(PieceBytes::piece).collect();
    let total: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
    if total != u64::from(length) {
        return Err(DescriptorError::Lengths);
    }
    Ok(DataBuffer::of_pieces(pieces, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(length: u32) -> Piece {
        Piece { address: 0x1000, key: 7, length }
    }

    fn indirect(table_len: u32, length: u32, list: &[Piece]) -> Vec<u8> {
        let list: Vec<u8> = list.iter().flat_map(Piece::to_bytes).collect();
        [&piece(table_len).to_bytes()[..], &length.to_be_bytes(), &list].concat()
    }

    #[test]
    fn buffers_of_all_formats_are_read() {
        let direct = [&piece(9).to_bytes()[..], &[1, 2]].concat();
        let (found, rest) = Descriptors::parse(BufferFormat::Direct, 0, &direct).expect("direct");
        assert_eq!(found, Descriptors::Known(DataBuffer::of_pieces(vec![piece(9)], 9)));
        assert_eq!(rest, [1, 2]);
        let bytes = indirect(32, 30, &[piece(10), piece(20)]);
        let (found, _) = Descriptors::parse(BufferFormat::Indirect, 2, &bytes).expect("indirect");
        let Descriptors::Known(buffer) = found else { panic!("{found:?}") };
        assert_eq!(buffer.first(12), [piece(10), piece(2)]);
        assert_eq!(buffer.first(10), [piece(10)]);
        // A part of the table is in the command.
        let (found, _) = Descriptors::parse(BufferFormat::Indirect, 1, &bytes).expect("a table elsewhere");
        let Descriptors::Indirect(elsewhere) = found else { panic!("{found:?}") };
        assert_eq!(elsewhere.with_table(&bytes[20..]).map(|buffer| buffer.pieces.len()), Ok(2));
        assert_eq!(elsewhere.with_table(&bytes[21..]), Err(DescriptorError::Lengths));
    }

    #[test]
    fn forged_lengths_are_refused() {
        let parse = |count, bytes: &[u8]| Descriptors::parse(BufferFormat::Indirect, count, bytes).map(drop);
        assert_eq!(parse(2, &indirect(32, 31, &[piece(10), piece(20)])), Err(DescriptorError::Lengths));
        assert_eq!(parse(3, &indirect(32, 30, &[piece(10), piece(20)])), Err(DescriptorError::Short));
        assert_eq!(parse(2, &indirect(16, 30, &[piece(10), piece(20)])), Err(DescriptorError::Lengths));
        assert_eq!(parse(0, &indirect(33, 30, &[])), Err(DescriptorError::Lengths));
        assert_eq!(parse(0, &indirect(!15, 30, &[])), Err(DescriptorError::TooMany));
        assert_eq!(parse(2, &indirect(32, 5, &[piece(u32::MAX), piece(6)])), Err(DescriptorError::Lengths));
        let short = Descriptors::parse(BufferFormat::Direct, 0, &[0; 15]);
        assert_eq!(short, Err(DescriptorError::Short));
    }
}
