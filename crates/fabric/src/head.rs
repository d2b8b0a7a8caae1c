//! The fields of a packet that decide its path.

/// Length of a management datagram in four-byte words: LRH, BTH, DETH, 256 bytes, ICRC and VCRC.
pub(crate) const MAD_WORDS: u64 = (8 + 12 + 8 + 256 + 4 + 2_u64).div_ceil(4);
/// Length with a GRH.
pub(crate) const MAD_WORDS_GRH: u64 = MAD_WORDS + 10;

/// Fields of a packet that switches examine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub slid: u16,
    pub dlid: u16,
    pub sl: u8,
    /// Whether it is on VL15: no lanes, no partitions, and it may pass ports that are not active.
    pub management: bool,
    pub pkey: u16,
    pub src_qp: u32,
    pub dest_qp: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// Words on the wire.
    pub words: u64,
}
