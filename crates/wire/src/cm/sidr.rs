//! Service ID resolution, which finds the queue pair that serves a datagram service (IBA 12.11).

use super::layout::{Bytes, Scattered, int, message, open};
use super::{PrivateData, ServiceId};

/// Bytes of private data in a SIDR_REQ.
pub const SIDR_REQ_PRIVATE_MAX: usize = 216;
/// Bytes of private data in a SIDR_REP.
pub const SIDR_REP_PRIVATE_MAX: usize = 136;
/// Bytes of additional information in a SIDR_REP.
pub const SIDR_REP_INFO_MAX: usize = 72;

open! {
    /// Status in a SIDR_REP (IBA 12.11.2.1).
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
        /// ID of the request.
        request_id: u32 = int(0, 4),
        /// Partition key.
        pkey: u16 = int(4, 2),
        /// The requested service.
        service_id: ServiceId = int(8, 8),
        /// The consumer's private data.
        private_data: PrivateData<SIDR_REQ_PRIVATE_MAX> = Bytes(16),
    }
}

message! {
    /// Service ID resolution response.
    SidrRep {
        /// ID of the request.
        request_id: u32 = int(0, 4),
        /// The status.
        status: SidrStatus = int(4, 1),
        /// Length of the meaningful part of [`SidrRep::info`] in bytes.
        info_len: u8 = int(5, 1),
        /// IEEE OUI of the vendor that defined the options (enhanced connection establishment), 24 bits, 0 for none.
        /// The options themselves are in the attribute modifier of the datagram's header.
        vendor_id: u32 = Scattered([6, 7, 11]),
        /// The queue pair, 24 bits.
        qpn: u32 = int(8, 3),
        /// The requested service.
        service_id: ServiceId = int(12, 8),
        /// The queue pair's Q_Key.
        qkey: u32 = int(20, 4),
        /// Additional information.
        info: PrivateData<SIDR_REP_INFO_MAX> = Bytes(24),
        /// The consumer's private data.
        private_data: PrivateData<SIDR_REP_PRIVATE_MAX> = Bytes(96),
    }
}
