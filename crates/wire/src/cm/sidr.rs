//! Service ID resolution: which queue pair serves a datagram service (IBA 12.11).

use super::layout::{Bytes, Scattered, int, message, open};
use super::{PrivateData, ServiceId};

/// Bytes of private data in a SIDR_REQ.
pub const SIDR_REQ_PRIVATE_MAX: usize = 216;
/// Bytes of private data in a SIDR_REP.
pub const SIDR_REP_PRIVATE_MAX: usize = 136;
/// Bytes of additional information in a SIDR_REP.
pub const SIDR_REP_INFO_MAX: usize = 72;

open! {
    /// Answer to a SIDR_REQ (IBA 12.11.2.1).
    SidrStatus(u8) {
        SUCCESS = 0, "QPN and Q_Key are valid";
        UNSUPPORTED = 1, "service ID not supported";
        REJECT = 2, "rejected by the service";
        NO_QP = 3, "no QP available";
        REDIRECT = 4, "ask elsewhere";
        UNSUPPORTED_VERSION = 5, "class version not supported";
    }
}

message! {
    /// Service ID resolution request.
    SidrReq {
        /// Number of the request.
        request_id: u32 = int(0, 4),
        /// Partition key.
        pkey: u16 = int(4, 2),
        /// The service asked for.
        service_id: ServiceId = int(8, 8),
        /// The consumer's.
        private_data: PrivateData<SIDR_REQ_PRIVATE_MAX> = Bytes(16),
    }
}

message! {
    /// Service ID resolution response.
    SidrRep {
        /// Number of the request.
        request_id: u32 = int(0, 4),
        /// The answer.
        status: SidrStatus = int(4, 1),
        /// Bytes of [`SidrRep::info`] that mean something.
        info_len: u8 = int(5, 1),
        /// IEEE OUI of who defined the options (enhanced connection establishment), 24 bits, 0 for none. The options
        /// themselves are the attribute modifier of the datagram's header.
        vendor_id: u32 = Scattered([6, 7, 11]),
        /// The queue pair, 24 bits.
        qpn: u32 = int(8, 3),
        /// The service asked for.
        service_id: ServiceId = int(12, 8),
        /// The queue pair's Q_Key.
        qkey: u32 = int(20, 4),
        /// Additional information.
        info: PrivateData<SIDR_REP_INFO_MAX> = Bytes(24),
        /// The consumer's.
        private_data: PrivateData<SIDR_REP_PRIVATE_MAX> = Bytes(96),
    }
}
