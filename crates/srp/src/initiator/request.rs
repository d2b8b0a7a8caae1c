//! Requests for a disk, cut into commands: a disk limits the blocks of a command.

use super::action::{DiskCommandData, DiskContent, RequestKey};
use super::disk::{Discard, DiskInfo};
use super::failure::RequestFailure;
use crate::scsi::{CDB_LEN, Cdb, Lun};

/// Force Unit Access, of READ and WRITE.
const FUA: u8 = 0x08;
/// UNMAP, of WRITE SAME.
const UNMAP_BIT: u8 = 0x08;
/// Bytes of UNMAP's parameter list with one descriptor.
const UNMAP_LIST_LEN: u16 = 24;

/// Operation on a disk. Offsets and lengths are bytes, in whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOperation {
    /// Read.
    Read {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
    },
    /// Write; `durable`: the data survives a power failure, if the disk has Force Unit Access.
    Write {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
        /// Force Unit Access.
        durable: bool,
    },
    /// Write zeros; `may_free`: their space may be freed.
    WriteZeroes {
        /// Begin.
        offset: u64,
        /// Length.
        length: u64,
        /// The zeros may be a hole.
        may_free: bool,
    },
    /// Free space.
    Discard {
        /// Begin.
        offset: u64,
        /// Length.
        length: u64,
    },
    /// Make all completed writes durable.
    Flush,
}

/// Part of a request that one command executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First block.
    pub first: u64,
    /// Number of blocks; 0: the whole disk.
    pub count: u64,
    /// Begin within the request's data.
    pub at: usize,
}

/// Part of a request, on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The request.
    pub request: RequestKey,
    /// The part.
    pub span: Span,
    /// Times that it was sent in vain.
    pub attempts: u32,
    /// Times that the target or the disk was busy.
    pub busy: u32,
}

/// Request in progress.
#[derive(Debug)]
pub struct Request {
    /// Number of the disk.
    pub lun: Lun,
    /// Pieces that have not ended.
    pub open: usize,
    /// First failure of a piece. No further pieces are cut then.
    pub failure: Option<RequestFailure>,
    operation: DiskOperation,
    /// Blocks that are cut off.
    cut: u64,
    is_cut_up: bool,
}

impl Request {
    /// Checks a request against its disk.
    ///
    /// # Errors
    /// The disk would refuse it.
    pub fn new(operation: DiskOperation, disk: &DiskInfo) -> Result<Request, RequestFailure> {
        let (is_change, is_known, range) = match operation {
            DiskOperation::Read { offset, length } => (false, true, Some((offset, length.into()))),
            DiskOperation::Write { offset, length, .. } => (true, true, Some((offset, length.into()))),
            DiskOperation::WriteZeroes { offset, length, .. } => {
                (true, disk.has_write_zeroes(), Some((offset, length)))
            }
            DiskOperation::Discard { offset, length } => (true, disk.has_discard(), Some((offset, length))),
            DiskOperation::Flush => (false, true, None),
        };
        if let Some((offset, length)) = range {
            let block = 1_u64 << disk.block_shift;
            if length == 0 || !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
                return Err(RequestFailure::Unaligned);
            }
            if offset.checked_add(length).is_none_or(|end| end > disk.bytes()) {
                return Err(RequestFailure::OutOfRange);
            }
        }
        match (is_known, is_change && disk.read_only) {
            (false, _) => Err(RequestFailure::NotSupported),
            (_, true) => Err(RequestFailure::ReadOnly),
            _ => Ok(Request { lun: disk.lun, open: 0, failure: None, operation, cut: 0, is_cut_up: false }),
        }
    }

    /// Whether no further piece will be cut.
    pub fn is_cut_up(&self) -> bool {
        self.is_cut_up || self.failure.is_some()
    }

    /// Cuts off the next piece.
    pub fn cut(&mut self, key: RequestKey, disk: &DiskInfo) -> Option<Piece> {
        if self.is_cut_up() {
            return None;
        }
        let (offset, length, most) = match self.operation {
            DiskOperation::Read { offset, length } | DiskOperation::Write { offset, length, .. } => {
                (offset, length.into(), disk.transfer_blocks.into())
            }
            DiskOperation::WriteZeroes { offset, length, .. } => (offset, length, disk.same_blocks),
            DiskOperation::Discard { offset, length } => match disk.discard {
                Some(Discard::Unmap(blocks)) => (offset, length, blocks),
                _ => (offset, length, disk.same_blocks),
            },
            DiskOperation::Flush => (0, 0, 1),
        };
        let (begin, all) = (offset >> disk.block_shift, length >> disk.block_shift);
        let count = all.saturating_sub(self.cut).min(most.clamp(1, u32::MAX.into()));
        let span = Span { first: begin + self.cut, count, at: (self.cut << disk.block_shift) as usize };
        self.cut += count;
        self.is_cut_up = self.cut >= all;
        self.open += 1;
        Some(Piece { request: key, span, attempts: 0, busy: 0 })
    }

    /// Returns the command of a piece, and its data.
    pub fn command(&self, piece: &Piece, disk: &DiskInfo) -> (Cdb, DiskCommandData) {
        let span = piece.span;
        let data = DiskContent::Request {
            request: piece.request,
            offset: span.at,
            length: (span.count << disk.block_shift) as u32,
        };
        match self.operation {
            DiskOperation::Read { .. } => (blocks(0x28, 0x88, 0, span), DiskCommandData::Awaited(data)),
            DiskOperation::Write { durable, .. } => {
                let options = if durable && disk.has_fua { FUA } else { 0 };
                (blocks(0x2a, 0x8a, options, span), DiskCommandData::Lent(data))
            }
            DiskOperation::WriteZeroes { may_free, .. } => write_same(span, may_free && disk.frees_zeroes, disk),
            DiskOperation::Discard { .. } => match disk.discard {
                Some(Discard::Unmap(_)) => unmap(span),
                _ => write_same(span, true, disk),
            },
            // No address and no count: all of the disk.
            DiskOperation::Flush => (blocks(0x35, 0x91, 0, span), DiskCommandData::None),
        }
    }
}

/// Returns a command of ten bytes, or of sixteen where the blocks need it.
fn blocks(ten: u8, sixteen: u8, options: u8, span: Span) -> Cdb {
    let mut cdb = [0; CDB_LEN];
    cdb[1] = options;
    match (u32::try_from(span.first), u16::try_from(span.count)) {
        (Ok(first), Ok(count)) => {
            cdb[0] = ten;
            cdb[2..6].copy_from_slice(&first.to_be_bytes());
            cdb[7..9].copy_from_slice(&count.to_be_bytes());
        }
        _ => {
            cdb[0] = sixteen;
            cdb[2..10].copy_from_slice(&span.first.to_be_bytes());
            cdb[10..14].copy_from_slice(&(span.count as u32).to_be_bytes());
        }
    }
    Cdb(cdb)
}

/// Returns WRITE SAME (16) with a block of zeros.
fn write_same(span: Span, frees: bool, disk: &DiskInfo) -> (Cdb, DiskCommandData) {
    let mut cdb = [0; CDB_LEN];
    (cdb[0], cdb[1]) = (0x93, if frees { UNMAP_BIT } else { 0 });
    cdb[2..10].copy_from_slice(&span.first.to_be_bytes());
    cdb[10..14].copy_from_slice(&(span.count as u32).to_be_bytes());
    (Cdb(cdb), DiskCommandData::Lent(DiskContent::Bytes(vec![0; 1 << disk.block_shift])))
}

/// Returns UNMAP with one descriptor.
fn unmap(span: Span) -> (Cdb, DiskCommandData) {
    let mut cdb = [0; CDB_LEN];
    cdb[0] = 0x42;
    cdb[7..9].copy_from_slice(&UNMAP_LIST_LEN.to_be_bytes());
    let list = [
        &(UNMAP_LIST_LEN - 2).to_be_bytes()[..],
        &(UNMAP_LIST_LEN - 8).to_be_bytes(),
        &[0; 4],
        &span.first.to_be_bytes(),
        &(span.count as u32).to_be_bytes(),
        &[0; 4],
    ];
    (Cdb(cdb), DiskCommandData::Lent(DiskContent::Bytes(list.concat())))
}

#[cfg(test)]
mod tests {
    use super::super::address::UnitAddress;
    use super::*;

    fn disk() -> DiskInfo {
        let mut disk = DiskInfo::new(UnitAddress { lun: 0, bytes: [0; 8] }, &[0; 36]).expect("a disk");
        (disk.blocks, disk.same_blocks, disk.has_fua) = (1 << 40, 1 << 16, true);
        disk.discard = Some(Discard::Unmap(100));
        disk
    }

    fn commands(operation: DiskOperation, disk: &DiskInfo) -> Vec<(Cdb, DiskCommandData)> {
        let mut request = Request::new(operation, disk).expect("a request");
        let mut commands = Vec::new();
        while let Some(piece) = request.cut(5, disk) {
            commands.push(request.command(&piece, disk));
        }
        commands
    }

    #[test]
    fn transfers_are_cut_at_the_disks_limit() {
        let found = commands(DiskOperation::Write { offset: 512, length: 5 << 19, durable: true }, &disk());
        let pieces: Vec<_> =
            found.iter().map(|(cdb, _)| (cdb.byte(0), cdb.byte(1), cdb.be32(2), cdb.be16(7))).collect();
        assert_eq!(pieces, [(0x2a, 8, 1, 2048), (0x2a, 8, 2049, 2048), (0x2a, 8, 4097, 1024)]);
        let last = DiskContent::Request { request: 5, offset: 2 << 20, length: 1 << 19 };
        assert_eq!(found[2].1, DiskCommandData::Lent(last));
        let far = commands(DiskOperation::Read { offset: 512 << 33, length: 512 }, &disk());
        assert_eq!((far[0].0.byte(0), far[0].0.be64(2), far[0].0.be32(10)), (0x88, 1 << 33, 1));
        let flush = commands(DiskOperation::Flush, &disk());
        assert_eq!((flush.len(), flush[0].0.byte(0), flush[0].0.be16(7)), (1, 0x35, 0));
    }

    #[test]
    fn zeroes_and_discards_follow_the_disk() {
        let length = (65536 + 1) << 9;
        let same = commands(DiskOperation::WriteZeroes { offset: 0, length, may_free: true }, &disk());
        let fields: Vec<_> =
            same.iter().map(|(cdb, _)| (cdb.byte(0), cdb.byte(1), cdb.be64(2), cdb.be32(10))).collect();
        assert_eq!(fields, [(0x93, 0, 0, 65536), (0x93, 0, 65536, 1)]);
        assert_eq!(same[0].1, DiskCommandData::Lent(DiskContent::Bytes(vec![0; 512])));
        let discard = DiskOperation::Discard { offset: 512, length: 101 << 9 };
        let unmaps = commands(discard, &disk());
        let expected = [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 100, 0, 0, 0, 0];
        assert_eq!(unmaps[0].1, DiskCommandData::Lent(DiskContent::Bytes(expected.to_vec())));
        assert_eq!((unmaps.len(), unmaps[0].0.byte(0), unmaps[0].0.be16(7)), (2, 0x42, 24));
        let by_same = DiskInfo { discard: Some(Discard::WriteSame), frees_zeroes: true, ..disk() };
        assert_eq!(commands(discard, &by_same)[0].0.byte(1), 8);
        let freed = commands(DiskOperation::WriteZeroes { offset: 0, length: 512, may_free: true }, &by_same);
        assert_eq!(freed[0].0.byte(1), 8);
    }

    #[test]
    fn requests_are_checked_before_they_are_sent() {
        let failure = |operation, disk: &DiskInfo| Request::new(operation, disk).err();
        let read = |offset, length| DiskOperation::Read { offset, length };
        assert_eq!(failure(read(1, 512), &disk()), Some(RequestFailure::Unaligned));
        assert_eq!(failure(read(0, 0), &disk()), Some(RequestFailure::Unaligned));
        assert_eq!(failure(read((512 << 40) - 512, 1024), &disk()), Some(RequestFailure::OutOfRange));
        assert_eq!(failure(read(!511, 512), &disk()), Some(RequestFailure::OutOfRange));
        let fixed = DiskInfo { read_only: true, ..disk() };
        let write = DiskOperation::Write { offset: 0, length: 512, durable: false };
        assert_eq!(
            (failure(write, &fixed), failure(DiskOperation::Flush, &fixed)),
            (Some(RequestFailure::ReadOnly), None)
        );
        let bare = DiskInfo { same_blocks: 0, discard: None, ..disk() };
        let zeroes = DiskOperation::WriteZeroes { offset: 0, length: 512, may_free: false };
        let discard = DiskOperation::Discard { offset: 0, length: 512 };
        assert_eq!([zeroes, discard].map(|one| failure(one, &bare)), [Some(RequestFailure::NotSupported); 2]);
    }
}
