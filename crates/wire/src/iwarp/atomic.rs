//! Headers of RFC 7306, after those of DDP. Linux's siw knows none of them.
//!
//! ```text
//!   Atomic Request (§5.2.1)                      Atomic Response (§5.2.2)
//! |  reserved (28 bits)           |AOpCode|    |      original request's identifier        |
//! |       request identifier              |    |      original value (8)                   |
//! |       remote STag                     |
//! |       remote tagged offset (8)        |      Immediate Data (§6.2)
//! |       add or swap data (8)            |    |      immediate data (8)                   |
//! |       add or swap mask (8)            |
//! |       compare data (8)                |
//! |       compare mask (8)                |
//! ```

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Tagged;

/// Atomic operation; unknown values survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicKind(pub u8);

impl AtomicKind {
    /// FetchAdd.
    pub const FETCH_ADD: AtomicKind = AtomicKind(0);
    /// CmpSwap.
    pub const CMP_SWAP: AtomicKind = AtomicKind(2);
}

/// An Atomic Request.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct AtomicRequest {
    kind: U32,
    id: U32,
    target: Tagged,
    data: U64,
    data_mask: U64,
    compare: U64,
    compare_mask: U64,
}

const _: () = assert!(size_of::<AtomicRequest>() == 52);

impl AtomicRequest {
    /// Composes an addition. Its mask of zeros makes the sum one field of 64 bits (§5.1.1).
    pub fn fetch_add(id: u32, target: Tagged, add: u64) -> AtomicRequest {
        AtomicRequest::of(AtomicKind::FETCH_ADD, id, target, [add, 0, 0, 0])
    }

    /// Composes a comparison and exchange of all 64 bits (§5.1.3).
    pub fn compare_swap(id: u32, target: Tagged, compare: u64, swap: u64) -> AtomicRequest {
        AtomicRequest::of(AtomicKind::CMP_SWAP, id, target, [swap, u64::MAX, compare, u64::MAX])
    }

    fn of(kind: AtomicKind, id: u32, target: Tagged, [data, data_mask, compare, compare_mask]: [u64; 4]) -> Self {
        AtomicRequest {
            kind: u32::from(kind.0).into(),
            id: id.into(),
            target,
            data: data.into(),
            data_mask: data_mask.into(),
            compare: compare.into(),
            compare_mask: compare_mask.into(),
        }
    }

    /// The operation.
    pub fn kind(&self) -> AtomicKind {
        AtomicKind(self.kind.get() as u8 & 0xf)
    }

    /// The requester's identifier, which the response repeats.
    pub fn id(&self) -> u32 {
        self.id.get()
    }

    /// The eight bytes that it changes.
    pub fn target(&self) -> Tagged {
        self.target
    }

    /// Addend, or new value.
    pub fn data(&self) -> u64 {
        self.data.get()
    }

    /// Expected value.
    pub fn compare(&self) -> u64 {
        self.compare.get()
    }

    /// Whether its masks are those of an operation on all 64 bits, the only kind that verbs have.
    pub fn is_whole(&self) -> bool {
        match self.kind() {
            AtomicKind::FETCH_ADD => self.data_mask.get() == 0,
            AtomicKind::CMP_SWAP => self.data_mask.get() == u64::MAX && self.compare_mask.get() == u64::MAX,
            _ => false,
        }
    }
}

/// An Atomic Response.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct AtomicResponse {
    id: U32,
    value: U64,
}

const _: () = assert!(size_of::<AtomicResponse>() == 12);

impl AtomicResponse {
    /// Composes the header.
    pub fn new(id: u32, value: u64) -> AtomicResponse {
        AtomicResponse { id: id.into(), value: value.into() }
    }

    /// The request's identifier.
    pub fn id(&self) -> u32 {
        self.id.get()
    }

    /// The value before the operation.
    pub fn value(&self) -> u64 {
        self.value.get()
    }
}

/// Immediate Data: between Weft's peers the four bytes of verbs, followed by the length of the WRITE that they report,
/// which a completion shows.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ImmediateData {
    imm: [u8; 4],
    written: U32,
}

const _: () = assert!(size_of::<ImmediateData>() == 8);

impl ImmediateData {
    /// Composes the header from the four bytes as the program gave them.
    pub fn new(imm: [u8; 4], written: u32) -> ImmediateData {
        ImmediateData { imm, written: written.into() }
    }

    /// The program's four bytes.
    pub fn imm(&self) -> [u8; 4] {
        self.imm
    }

    /// Bytes of the WRITE before it.
    pub fn written(&self) -> u32 {
        self.written.get()
    }
}
