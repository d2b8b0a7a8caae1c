//! Numbers and structures of the protocol; all are big-endian.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a server: "NBDMAGIC".
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Newstyle, and the begin of each option: "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begin of an answer to an option.
pub const ANSWER_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begin of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begin of a simple reply.
pub const REPLY_MAGIC: u32 = 0x6744_6698;

/// Flags of the handshake, of both ends: fixed newstyle; no zeros after the answer to EXPORT_NAME.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// See [`FIXED_NEWSTYLE`].
pub const NO_ZEROES: u16 = 1 << 1;

/// Options.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
}

/// Types of answers to options.
pub mod answer {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const ERROR_UNSUPPORTED: u32 = 1 << 31 | 1;
    pub const ERROR_INVALID: u32 = 1 << 31 | 3;
    pub const ERROR_UNKNOWN: u32 = 1 << 31 | 6;
    pub const ERROR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Types of information.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags of an export.
pub mod flag {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Types of requests.
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
}

/// Flags of requests: force unit access; zeros are not to be a hole.
pub const COMMAND_FUA: u16 = 1 << 0;
/// See [`COMMAND_FUA`].
pub const COMMAND_NO_HOLE: u16 = 1 << 1;

/// First structure of the server.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Greeting {
    pub magic: U64,
    pub option_magic: U64,
    pub flags: U16,
}

/// Header of an option.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct OptionHeader {
    pub magic: U64,
    pub option: U32,
    pub length: U32,
}

/// Header of an answer to an option.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AnswerHeader {
    pub magic: U64,
    pub option: U32,
    pub kind: U32,
    pub length: U32,
}

/// Header of a request.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RequestHeader {
    pub magic: U32,
    pub flags: U16,
    pub command: U16,
    pub cookie: U64,
    pub offset: U64,
    pub length: U32,
}

/// Simple reply, which data follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SimpleReply {
    pub magic: U32,
    pub error: U32,
    pub cookie: U64,
}

const _: () = {
    assert!(size_of::<Greeting>() == 18);
    assert!(size_of::<OptionHeader>() == 16);
    assert!(size_of::<AnswerHeader>() == 20);
    assert!(size_of::<RequestHeader>() == 28);
    assert!(size_of::<SimpleReply>() == 16);
};
