//! Addresses, keys and handles of the tests.

use weft_verbs::{CqId, PdId, SrqId, XrcdId};

/// Start address of the memory, so that addresses do not look like offsets.
pub const BASE: u64 = 0x10_0000;
/// Bytes of memory per side.
pub const MEMORY: usize = 4 << 20;
/// Local and remote key of a region over the whole memory with all rights.
pub const KEY: u32 = 0x101;
/// A region over the whole memory with local read only.
pub const KEY_READ_ONLY: u32 = 0x202;
/// A key for tests of windows and invalidation.
pub const KEY_WINDOW: u32 = 0x303;
pub const PD: PdId = PdId { index: 1, generation: 1 };
pub const SEND_CQ: CqId = CqId { index: 1, generation: 0 };
pub const RECV_CQ: CqId = CqId { index: 2, generation: 0 };
pub const XRC_CQ: CqId = CqId { index: 3, generation: 0 };
pub const SRQ: SrqId = SrqId { index: 1, generation: 0 };
pub const XRCD: XrcdId = XrcdId { index: 1, generation: 0 };
pub const SRQN: u32 = 0x77;
