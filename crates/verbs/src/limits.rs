//! Limits of the adapter: `ibv_query_device` reports each, and the code enforces it.

/// Work requests on one queue.
pub const QP_WR_MAX: u32 = 32_768;
/// Elements of one scatter/gather list.
pub const SGE_MAX: u32 = 30;
/// Bytes of payload that a work request can take inline.
pub const INLINE_MAX: u32 = 1024;
/// Entries of one completion queue.
pub const CQE_MAX: u32 = 4_194_303;
/// Completion queues of one process.
pub const CQ_MAX: u32 = 65_536;
/// Queue pairs of one process: 14 bits of the queue pair number.
pub const QP_MAX: u32 = 16_384;
/// Memory regions of one process.
pub const MR_MAX: u32 = 524_288;
/// Memory windows of one process.
pub const MW_MAX: u32 = 524_288;
/// Protection domains of one process.
pub const PD_MAX: u32 = 65_536;
/// Shared receive queues of one process.
pub const SRQ_MAX: u32 = 65_536;
/// Work requests on one shared receive queue.
pub const SRQ_WR_MAX: u32 = 32_768;
/// Address handles of one process.
pub const AH_MAX: u32 = 1_048_576;
/// READs and atomics that one queue pair may have outstanding, as initiator and as target.
pub const RD_ATOMIC_MAX: u8 = 128;
/// Multicast groups of one process.
pub const MCAST_GRP_MAX: u32 = 8192;
/// Queue pairs attached to one multicast group.
pub const MCAST_QP_ATTACH_MAX: u32 = 256;
/// Bytes of one message: IBA 9.2.8 allows 2^31.
pub const MSG_SIZE_MAX: u32 = 1 << 31;
/// Rows of a port's P_Key table.
pub const PKEY_TABLE_LEN: u16 = 1;
/// Rows of a port's GID table.
pub const GID_TABLE_LEN: u32 = 256;
/// The P_Key of the default partition, full member.
pub const DEFAULT_PKEY: u16 = 0xffff;
/// Bits of a queue pair number that index within a process's slot.
pub const QPN_INDEX_BITS: u32 = 14;

/// Returns the slot of a queue pair number.
pub const fn slot_of_qpn(qpn: u32) -> u32 {
    qpn >> QPN_INDEX_BITS
}
