//! Units and limits of the traffic that programs report and the fabric's ports count.

/// Packets and bytes in one report: no program moves as much between two reports.
pub(super) const PASSED_MAX: u64 = 1 << 40;
/// Bytes of a packet besides its payload: LRH, BTH and ICRC.
pub(super) const HEADERS_BYTES: u64 = 24;
