//! Requests for a namespace, cut into commands: a controller limits the data of a command, and a command the number of its
//! blocks.

use super::action::{CommandData, Content, RequestFailure, RequestKey};
use super::identity::{ControllerInfo, NamespaceInfo};
use crate::limits::{BLOCKS_MAX, RANGES_MAX};
use crate::wire::{Command, Descriptor, IoOpcode};
use crate::{Operation, Status};

/// CDW12: Force Unit Access, and of Write Zeroes: deallocate.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
const ZERO_BY_DEALLOCATE: u32 = 1 << 25;
/// CDW11 of Dataset Management: deallocate.
const DEALLOCATE: u32 = 1 << 2;

/// Blocks of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
}

/// Part of a request that one command executes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Span {
    /// Blocks, whose data begins at `at` within the request's data.
    Blocks(Blocks, usize),
    /// Ranges of Dataset Management.
    Ranges(Vec<Blocks>),
    /// The whole namespace.
    All,
}

/// Part of a request, on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The request.
    pub request: RequestKey,
    /// The part.
    pub span: Span,
    /// Times that it was sent in vain.
    pub attempts: u32,
}

/// Request in progress.
#[derive(Debug)]
pub struct Request {
    /// Namespace identifier.
    pub nsid: u32,
    /// Its operation.
    pub operation: Operation,
    /// Pieces that have not ended.
    pub open: usize,
    /// First failure of a piece. No further pieces are cut then.
    pub failure: Option<RequestFailure>,
    block_shift: u8,
    /// Blocks, or ranges, that are cut off.
    cut: u64,
    is_cut_up: bool,
}

impl Request {
    /// Checks a request against its namespace.
    ///
    /// # Errors
    /// The controller would refuse it.
    pub fn new(
        operation: Operation,
        namespace: &NamespaceInfo,
        controller: &ControllerInfo,
    ) -> Result<Request, RequestFailure> {
        let check = |offset: u64, length: u64| blocks(offset, length, namespace).map(drop);
        let (is_change, is_known) = match &operation {
            Operation::Read { offset, length } => (false, check(*offset, (*length).into()).map(|()| true)),
            Operation::Compare { offset, length } => {
                (false, check(*offset, (*length).into()).map(|()| controller.has_compare))
            }
            Operation::Write { offset, length, .. } => (true, check(*offset, (*length).into()).map(|()| true)),
            Operation::WriteZeroes { offset, length, .. } => {
                (true, check(*offset, *length).map(|()| controller.has_write_zeroes))
            }
            Operation::Deallocate(ranges) => {
                let checked = ranges.iter().try_for_each(|(offset, length)| check(*offset, *length));
                (true, checked.map(|()| controller.has_deallocate))
            }
            Operation::Flush => (false, Ok(true)),
        };
        if !is_known? {
            return Err(RequestFailure::Status(Status::INVALID_OPCODE));
        }
        if is_change && namespace.read_only {
            return Err(RequestFailure::Status(Status::WRITE_PROTECTED));
        }
        Ok(Request {
            nsid: namespace.id,
            operation,
            open: 0,
            failure: None,
            block_shift: namespace.block_shift,
            cut: 0,
            is_cut_up: false,
        })
    }

    /// Whether no further piece will be cut.
    pub fn is_cut_up(&self) -> bool {
        self.is_cut_up || self.failure.is_some()
    }

    /// Cuts off the next piece.
    pub fn cut(&mut self, key: RequestKey, controller: &ControllerInfo) -> Option<Piece> {
        if self.is_cut_up() {
            return None;
        }
        let span = match &self.operation {
            Operation::Read { offset, length }
            | Operation::Write { offset, length, .. }
            | Operation::Compare { offset, length } => {
                let most = (controller.transfer_bytes >> self.block_shift).clamp(1, BLOCKS_MAX);
                self.cut_blocks(*offset, (*length).into(), most)
            }
            Operation::WriteZeroes { offset, length, .. } => self.cut_blocks(*offset, *length, BLOCKS_MAX),
            Operation::Deallocate(ranges) => {
                let ranges = self.cut_ranges(ranges);
                self.cut += ranges.len() as u64;
                self.is_cut_up = ranges.len() < RANGES_MAX;
                if ranges.is_empty() {
                    return None;
                }
                Span::Ranges(ranges)
            }
            Operation::Flush => {
                self.is_cut_up = true;
                Span::All
            }
        };
        self.open += 1;
        Some(Piece { request: key, span, attempts: 0 })
    }

    fn cut_blocks(&mut self, offset: u64, length: u64, most: u32) -> Span {
        let (begin, all) = (offset >> self.block_shift, length >> self.block_shift);
        let count = (all - self.cut).min(most.into());
        let at = (self.cut << self.block_shift) as usize;
        let first = begin + self.cut;
        self.cut += count;
        self.is_cut_up = self.cut >= all;
        Span::Blocks(Blocks { first, count }, at)
    }

    /// Returns the next ranges; each has at most 2^32 - 1 blocks.
    fn cut_ranges(&self, ranges: &[(u64, u64)]) -> Vec<Blocks> {
        let most = u64::from(u32::MAX);
        let split = ranges.iter().flat_map(|(offset, length)| {
            let (begin, all) = (offset >> self.block_shift, length >> self.block_shift);
            (0..all.div_ceil(most))
                .map(move |part| Blocks { first: begin + part * most, count: (all - part * most).min(most) })
        });
        split.skip(self.cut as usize).take(RANGES_MAX).collect()
    }

    /// Returns the command of a piece, and its data. Up to `in_capsule` bytes to the target go into the capsule.
    pub fn command(&self, piece: &Piece, in_capsule: u32) -> (Command, CommandData) {
        let opcode = match &self.operation {
            Operation::Read { .. } => IoOpcode::READ,
            Operation::Write { .. } => IoOpcode::WRITE,
            Operation::Compare { .. } => IoOpcode::COMPARE,
            Operation::WriteZeroes { .. } => IoOpcode::WRITE_ZEROES,
            Operation::Deallocate(_) => IoOpcode::DATASET_MANAGEMENT,
            Operation::Flush => IoOpcode::FLUSH,
        };
        let command = Command::new(opcode.0, 0, self.nsid);
        let to_target = |content: Content| {
            if content.len() <= in_capsule { CommandData::Capsule(content) } else { CommandData::Lent(content) }
        };
        let (mut command, data) = match &piece.span {
            Span::All => (command, CommandData::None),
            Span::Ranges(ranges) => {
                let command = command.with_cdw(10, ranges.len() as u32 - 1).with_cdw(11, DEALLOCATE);
                (command, to_target(Content::Bytes(range_list(ranges))))
            }
            Span::Blocks(blocks, at) => {
                let command = command
                    .with_cdw(10, blocks.first as u32)
                    .with_cdw(11, (blocks.first >> 32) as u32)
                    .with_cdw(12, (blocks.count as u32).wrapping_sub(1) & 0xffff | self.flags());
                let length = (blocks.count << self.block_shift) as u32;
                let content = Content::Request { request: piece.request, offset: *at, length };
                let data = match &self.operation {
                    Operation::Read { .. } => CommandData::Awaited(content),
                    Operation::Write { .. } | Operation::Compare { .. } => to_target(content),
                    _ => CommandData::None,
                };
                (command, data)
            }
        };
        if let CommandData::Capsule(content) = &data {
            command.descriptor = Descriptor::InCapsule { offset: 0, length: content.len() }.to_bytes();
        }
        (command, data)
    }

    fn flags(&self) -> u32 {
        let (is_durable, is_hole) = match &self.operation {
            Operation::Write { durable, .. } => (*durable, false),
            Operation::WriteZeroes { durable, deallocate, .. } => (*durable, *deallocate),
            _ => (false, false),
        };
        (if is_durable { FORCE_UNIT_ACCESS } else { 0 }) | (if is_hole { ZERO_BY_DEALLOCATE } else { 0 })
    }
}

/// Returns the blocks of a range in bytes.
fn blocks(offset: u64, length: u64, namespace: &NamespaceInfo) -> Result<Blocks, RequestFailure> {
    let size = 1_u64 << namespace.block_shift;
    if length == 0 || !offset.is_multiple_of(size) || !length.is_multiple_of(size) {
        return Err(RequestFailure::Status(Status::INVALID_FIELD));
    }
    if offset.checked_add(length).is_none_or(|end| end > namespace.bytes()) {
        return Err(RequestFailure::Status(Status::LBA_OUT_OF_RANGE));
    }
    Ok(Blocks { first: offset >> namespace.block_shift, count: length >> namespace.block_shift })
}

/// Returns the ranges as Dataset Management has them: attributes, number of blocks, first block.
fn range_list(ranges: &[Blocks]) -> Vec<u8> {
    let entry = |range: &Blocks| {
        let mut bytes = [0; 16];
        bytes[4..8].copy_from_slice(&(range.count as u32).to_le_bytes());
        bytes[8..].copy_from_slice(&range.first.to_le_bytes());
        bytes
    };
    ranges.iter().flat_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::identity::{Capabilities, NamespaceIds};

    const NAMESPACE: NamespaceInfo = NamespaceInfo {
        id: 1,
        blocks: 1 << 40,
        used_blocks: 0,
        block_shift: 9,
        read_only: false,
        ids: NamespaceIds { eui64: [0; 8], nguid: [0; 16], uuid: [0; 16] },
    };

    fn controller() -> ControllerInfo {
        let page = crate::page::ControllerPage {
            id: 1,
            version: 0,
            is_discovery: false,
            serial: "",
            model: "",
            firmware: "",
            subsystem: "",
            in_capsule_bytes: 4096,
        };
        let capabilities = Capabilities::parse(127).expect("capabilities");
        ControllerInfo::parse(&page.to_bytes(), &capabilities).expect("a controller")
    }

    fn pieces(operation: Operation) -> Vec<Span> {
        let controller = controller();
        let mut request = Request::new(operation, &NAMESPACE, &controller).expect("a request");
        std::iter::from_fn(|| request.cut(5, &controller)).map(|piece| piece.span).collect()
    }

    fn span(first: u64, count: u64, at: usize) -> Span {
        Span::Blocks(Blocks { first, count }, at)
    }

    #[test]
    fn transfers_are_cut_at_the_controllers_limit() {
        let read = Operation::Read { offset: 512, length: 5 << 19 };
        assert_eq!(pieces(read), [span(1, 2048, 0), span(2049, 2048, 1 << 20), span(4097, 1024, 2 << 20)]);
        let one = Operation::Write { offset: 0, length: 512, durable: true };
        assert_eq!(pieces(one), [span(0, 1, 0)]);
        assert_eq!(pieces(Operation::Flush), [Span::All]);
    }

    #[test]
    fn zeroes_and_ranges_are_cut_at_their_fields() {
        let zeroes = Operation::WriteZeroes { offset: 0, length: (65536 + 1) << 9, deallocate: true, durable: false };
        assert_eq!(pieces(zeroes), [span(0, 65536, 0), span(65536, 1, 65536 << 9)]);
        let long = Operation::Deallocate(vec![(0, (1 << 33) << 9), (512, 512)]);
        let max = u64::from(u32::MAX);
        let blocks = |first, count| Blocks { first, count };
        let expected = vec![blocks(0, max), blocks(max, max), blocks(2 * max, 2), blocks(1, 1)];
        assert_eq!(pieces(long), [Span::Ranges(expected)]);
        let many = Operation::Deallocate((0..300).map(|n| (n << 9, 512)).collect());
        let lengths: Vec<usize> =
            pieces(many).iter().map(|span| if let Span::Ranges(ranges) = span { ranges.len() } else { 0 }).collect();
        assert_eq!(lengths, [256, 44]);
        assert_eq!(pieces(Operation::Deallocate((0..256).map(|n| (n << 9, 512)).collect())).len(), 1);
    }

    #[test]
    fn commands_carry_their_blocks_and_data() {
        let controller = controller();
        let write = Operation::Write { offset: 512 << 33, length: 8192, durable: true };
        let mut request = Request::new(write, &NAMESPACE, &controller).expect("a request");
        let piece = request.cut(5, &controller).expect("a piece");
        let (command, data) = request.command(&piece, 4096);
        assert_eq!((command.opcode, command.cdw_pair(10), command.cdw(12)), (1, 1 << 33, 15 | 1 << 30));
        assert_eq!(data, CommandData::Lent(Content::Request { request: 5, offset: 0, length: 8192 }));
        let (command, data) = request.command(&piece, 8192);
        assert_eq!(data, CommandData::Capsule(Content::Request { request: 5, offset: 0, length: 8192 }));
        assert_eq!(command.descriptor, Descriptor::InCapsule { offset: 0, length: 8192 }.to_bytes());
        let mut discard =
            Request::new(Operation::Deallocate(vec![(1024, 1536)]), &NAMESPACE, &controller).expect("one");
        let piece = discard.cut(6, &controller).expect("a piece");
        let (command, data) = discard.command(&piece, 4096);
        assert_eq!((command.opcode, command.cdw(10), command.cdw(11)), (9, 0, 4));
        assert_eq!(data, CommandData::Capsule(Content::Bytes(vec![0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])));
    }

    #[test]
    fn requests_are_checked_before_they_are_sent() {
        let failure = |operation, namespace: &NamespaceInfo| Request::new(operation, namespace, &controller()).err();
        let status = |status| Some(RequestFailure::Status(status));
        let read = |offset, length| Operation::Read { offset, length };
        assert_eq!(failure(read(1, 512), &NAMESPACE), status(Status::INVALID_FIELD));
        assert_eq!(failure(read(0, 0), &NAMESPACE), status(Status::INVALID_FIELD));
        assert_eq!(failure(read((1 << 49) - 512, 1024), &NAMESPACE), status(Status::LBA_OUT_OF_RANGE));
        assert_eq!(failure(read(!511, 512), &NAMESPACE), status(Status::LBA_OUT_OF_RANGE));
        let fixed = NamespaceInfo { read_only: true, ..NAMESPACE };
        let write = Operation::Write { offset: 0, length: 512, durable: false };
        assert_eq!(failure(write, &fixed), status(Status::WRITE_PROTECTED));
        assert_eq!((failure(read(0, 512), &fixed), failure(Operation::Flush, &fixed)), (None, None));
        let bare = ControllerInfo { has_compare: false, ..controller() };
        let compare = Request::new(Operation::Compare { offset: 0, length: 512 }, &NAMESPACE, &bare);
        assert_eq!(compare.err(), status(Status::INVALID_OPCODE));
    }
}
