//! Work completions.

use crate::WcOpcode;

/// `enum ibv_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
#[allow(missing_docs)] // The names are verbs.h's; IBA 11.6.2 says what each means.
pub enum WcStatus {
    #[default]
    Success = 0,
    LocLenErr = 1,
    LocQpOpErr = 2,
    LocEecOpErr = 3,
    LocProtErr = 4,
    WrFlushErr = 5,
    MwBindErr = 6,
    BadRespErr = 7,
    LocAccessErr = 8,
    RemInvReqErr = 9,
    RemAccessErr = 10,
    RemOpErr = 11,
    RetryExcErr = 12,
    RnrRetryExcErr = 13,
    LocRddViolErr = 14,
    RemInvRdReqErr = 15,
    RemAbortErr = 16,
    InvEecnErr = 17,
    InvEecStateErr = 18,
    FatalErr = 19,
    RespTimeoutErr = 20,
    GeneralErr = 21,
}

bitflags::bitflags! {
    /// `IBV_WC_*` flags.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct WcFlags: u32 {
        /// The first 40 bytes of the buffer hold a GRH.
        const GRH = 1;
        /// `imm_data` holds immediate data.
        const WITH_IMM = 1 << 1;
        /// IP checksum verified.
        const IP_CSUM_OK = 1 << 2;
        /// `imm_data` holds the R_Key that the peer invalidated.
        const WITH_INV = 1 << 3;
    }
}

/// `vendor_err` of completions whose status is an injected failure.
pub const VENDOR_ERR_INJECTED: u32 = 0xfa17;

/// A work completion. On an error only `wr_id`, `status`, `qp_num` and `vendor_err` mean anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wc {
    /// The program's ID of the work request.
    pub wr_id: u64,
    /// Completion status.
    pub status: WcStatus,
    /// The completed operation.
    pub opcode: WcOpcode,
    /// Detail for people; 0 if none.
    pub vendor_err: u32,
    /// Byte count (receives, READ, atomics).
    pub byte_len: u32,
    /// Immediate data as received (network order in memory), or the invalidated R_Key.
    pub imm_data: u32,
    /// Number of the local queue pair.
    pub qp_num: u32,
    /// Queue pair number of the peer; for XRC, the SRQ number.
    pub src_qp: u32,
    /// Flags.
    pub flags: WcFlags,
    /// Source LID (0 on RoCE).
    pub slid: u16,
    /// Service level. For a datagram over RoCE, the kind of its network header (bit 3: UDP; bits 0 to 2: 0 GRH, 1 IPv6,
    /// 2 IPv4).
    pub sl: u8,
    /// Path bits.
    pub dlid_path_bits: u8,
    /// P_Key row.
    pub pkey_index: u16,
    /// Whether this completion wakes a CQ armed for solicited events only (the peer asked for it, or it is an error).
    pub solicited: bool,
    /// Nanoseconds of the driver's clock at the time of the completion.
    pub timestamp: u64,
}
