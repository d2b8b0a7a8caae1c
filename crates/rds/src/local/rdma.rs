//! Parts of messages about memory: a region that a program offers, and the operation that accompanies a datagram. The pages
//! themselves are in the program's page file, in which each lies at its address; the file accompanies the record.
//!
//! ```text
//! region:     0 address   8 length   16 flags
//! operation:  0 flags   4 key   8 address   16 token   24 length   28 number of pieces   32 pieces: address, length (16 bytes)
//! ```

use crate::limits::{RDMA_BYTES_MAX, RDMA_PIECES_MAX, REGION_BYTES_MAX};
use crate::rdma::{Direction, RdmaOptions};

/// Bytes of an operation without its pieces.
pub const OPERATION_LEN: usize = 32;
/// Bytes of a piece.
const PIECE_LEN: usize = 16;
/// Bytes of a region's description.
const REGION_LEN: usize = 20;
/// Length of every page file: whatever an address can be.
pub const PAGE_FILE_BYTES: u64 = 1 << 52;

/// Flag of a region: it ends once a peer has used it.
const USE_ONCE: u32 = 1;

const WRITE: u32 = 1;
const FENCE: u32 = 2;
const SILENT: u32 = 4;
const NOTIFY: u32 = 8;
const REPORT_ERRORS: u32 = 16;

/// Piece of a program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalPiece {
    /// Address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
}

impl LocalPiece {
    /// Whether it has bytes, and ends within the page file.
    fn is_valid(&self) -> bool {
        self.length > 0 && self.address.checked_add(self.length).is_some_and(|end| end <= PAGE_FILE_BYTES)
    }
}

/// Region that a program offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfferedRegion {
    /// Memory.
    pub memory: LocalPiece,
    /// It ends once a peer has used it (`RDS_RDMA_USE_ONCE`).
    pub is_used_once: bool,
}

impl OfferedRegion {
    /// Returns the bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let flags = if self.is_used_once { USE_ONCE } else { 0 };
        let fields: [&[u8]; 3] =
            [&self.memory.address.to_be_bytes(), &self.memory.length.to_be_bytes(), &flags.to_be_bytes()];
        fields.concat()
    }

    /// Reads a region. `None`: no region may be like that.
    pub fn parse(bytes: &[u8]) -> Option<OfferedRegion> {
        let bytes = bytes.first_chunk::<REGION_LEN>()?;
        let memory = LocalPiece { address: long(bytes, 0)?, length: long(bytes, 8)? };
        let is_valid = memory.is_valid() && memory.length <= REGION_BYTES_MAX;
        is_valid.then_some(OfferedRegion { memory, is_used_once: word(bytes, 16)? & USE_ONCE != 0 })
    }
}

/// Operation of a program. The data of a WRITE is behind it; the pieces are where the data of a READ goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalOperation {
    /// Direction.
    pub direction: Direction,
    /// Options.
    pub options: RdmaOptions,
    /// Key of the peer's memory.
    pub key: u32,
    /// Address in the peer's region.
    pub address: u64,
    /// The program's number.
    pub token: u64,
    /// Bytes.
    pub length: u32,
    /// Memory for the data of a READ.
    pub pieces: Vec<LocalPiece>,
}

impl LocalOperation {
    /// Returns the bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let options = self.options;
        let flags = [
            (self.direction == Direction::Write, WRITE),
            (options.is_fenced, FENCE),
            (options.is_silent, SILENT),
            (options.notifies, NOTIFY),
            (options.reports_errors, REPORT_ERRORS),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        let fields: [&[u8]; 6] = [
            &u32::to_be_bytes(flags),
            &self.key.to_be_bytes(),
            &self.address.to_be_bytes(),
            &self.token.to_be_bytes(),
            &self.length.to_be_bytes(),
            &(self.pieces.len() as u32).to_be_bytes(),
        ];
        let mut bytes = fields.concat();
        for piece in &self.pieces {
            bytes.extend([piece.address.to_be_bytes(), piece.length.to_be_bytes()].concat());
        }
        bytes
    }

    /// Reads an operation. Returns it with what is behind it: the data of a WRITE, and the datagram. `None`: no operation may be
    /// like that.
    pub fn parse(bytes: &[u8]) -> Option<(LocalOperation, &[u8], &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<OPERATION_LEN>()?;
        let flags = word(head, 0)?;
        let direction = if flags & WRITE != 0 { Direction::Write } else { Direction::Read };
        let options = RdmaOptions {
            is_fenced: flags & FENCE != 0,
            is_silent: flags & SILENT != 0,
            notifies: flags & NOTIFY != 0,
            reports_errors: flags & REPORT_ERRORS != 0,
        };
        let (length, count) = (word(head, 24)?, word(head, 28)? as usize);
        if length as usize > RDMA_BYTES_MAX || count > RDMA_PIECES_MAX {
            return None;
        }
        let (list, rest) = rest.split_at_checked(count * PIECE_LEN)?;
        let piece = |bytes: &[u8]| Some(LocalPiece { address: long(bytes, 0)?, length: long(bytes, 8)? });
        let pieces: Vec<_> = list.chunks_exact(PIECE_LEN).map(piece).collect::<Option<_>>()?;
        let sum = pieces.iter().try_fold(0_u64, |sum, piece| sum.checked_add(piece.length))?;
        let wanted = if direction == Direction::Read { u64::from(length) } else { 0 };
        if sum != wanted || !pieces.iter().all(LocalPiece::is_valid) {
            return None;
        }
        let data = if direction == Direction::Write { length as usize } else { 0 };
        let (data, payload) = rest.split_at_checked(data)?;
        let (key, address, token) = (word(head, 4)?, long(head, 8)?, long(head, 16)?);
        Some((LocalOperation { direction, options, key, address, token, length, pieces }, data, payload))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(direction: Direction) -> LocalOperation {
        LocalOperation {
            direction,
            options: RdmaOptions { is_fenced: true, notifies: true, ..RdmaOptions::default() },
            key: 7,
            address: 1 << 40,
            token: u64::MAX,
            length: 9,
            pieces: Vec::new(),
        }
    }

    #[test]
    fn operations_survive_their_bytes() {
        let write = operation(Direction::Write);
        let bytes = [&write.to_bytes()[..], b"nine byte", b"payload"].concat();
        assert_eq!(LocalOperation::parse(&bytes), Some((write, &b"nine byte"[..], &b"payload"[..])));
        let pieces = vec![LocalPiece { address: 4096, length: 4 }, LocalPiece { address: 1, length: 5 }];
        let read = LocalOperation { pieces, ..operation(Direction::Read) };
        let bytes = [&read.to_bytes()[..], b"payload"].concat();
        assert_eq!(LocalOperation::parse(&bytes), Some((read, &b""[..], &b"payload"[..])));
    }

    #[test]
    fn forged_lengths_are_no_operations() {
        let read = |pieces: &[(u64, u64)], length| {
            let pieces = pieces.iter().map(|(address, length)| LocalPiece { address: *address, length: *length });
            LocalOperation { pieces: pieces.collect(), length, ..operation(Direction::Read) }.to_bytes()
        };
        assert!(LocalOperation::parse(&read(&[(0, 9)], 9)).is_some());
        assert!(LocalOperation::parse(&read(&[(0, 8)], 9)).is_none());
        assert!(LocalOperation::parse(&read(&[(0, 9), (5, 0)], 9)).is_none());
        assert!(LocalOperation::parse(&read(&[(u64::MAX, 9)], 9)).is_none());
        assert!(LocalOperation::parse(&read(&[(0, u64::MAX), (0, 10)], 9)).is_none());
        let many: Vec<_> = (0..=RDMA_PIECES_MAX as u64).map(|_| (0, 1)).collect();
        assert!(LocalOperation::parse(&read(&many, many.len() as u32)).is_none());
        let write = LocalOperation { length: 1 << 30, ..operation(Direction::Write) };
        assert!(LocalOperation::parse(&[&write.to_bytes()[..], &[0; 64]].concat()).is_none());
        assert!(LocalOperation::parse(&operation(Direction::Write).to_bytes()).is_none(), "no data");
    }

    #[test]
    fn regions_have_bytes_and_a_bound() {
        let region = |address, length| OfferedRegion { memory: LocalPiece { address, length }, is_used_once: true };
        let valid = region(4097, 4096);
        assert_eq!(OfferedRegion::parse(&valid.to_bytes()), Some(valid));
        for (address, length) in [(0, 0), (u64::MAX, 2), (0, REGION_BYTES_MAX + 1), (PAGE_FILE_BYTES, 1)] {
            assert_eq!(OfferedRegion::parse(&region(address, length).to_bytes()), None, "{address} {length}");
        }
    }
}
