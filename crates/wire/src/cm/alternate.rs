//! Alternate path of an established connection: LAP and APR (IBA 12.8.1, 12.8.2).

use super::PrivateData;
use super::layout::{Bytes, bits, int, message, open};
use super::path::{LapPath, Path};

/// Bytes of private data in a LAP.
pub const LAP_PRIVATE_MAX: usize = 168;
/// Bytes of private data in an APR.
pub const APR_PRIVATE_MAX: usize = 148;
/// Bytes of additional information in an APR.
pub const APR_INFO_MAX: usize = 72;

open! {
    /// Outcome of loading an alternate path (IBA 12.8.2.1).
    ApStatus(u8) {
        SUCCESS = 0, "alternate path information loaded";
        INVALID_COMM_ID = 1, "invalid communication instance";
        UNSUPPORTED = 2, "alternate paths not supported";
        REJECTED = 3, "failover port rejected";
        REDIRECT = 4, "failover port rejected, redirect";
        IS_CURRENT = 5, "proposed alternate path is the current path";
        INVALID_QPN = 6, "QPN or EECN and communication ID do not match";
        INVALID_LID = 7, "proposed alternate remote port LID rejected";
        INVALID_GID = 8, "proposed alternate remote port GID rejected";
        INVALID_FLOW_LABEL = 9, "proposed alternate flow label rejected";
        INVALID_TRAFFIC_CLASS = 10, "proposed alternate traffic class rejected";
        INVALID_HOP_LIMIT = 11, "proposed alternate hop limit rejected";
        INVALID_PACKET_RATE = 12, "proposed alternate packet rate rejected";
        INVALID_SL = 13, "proposed alternate SL rejected";
    }
}

message! {
    /// Load alternate path.
    Lap {
        /// The sender's communication ID.
        local_comm_id: u32 = int(0, 4),
        /// The receiver's communication ID.
        remote_comm_id: u32 = int(4, 4),
        /// The receiver's queue pair (or end-to-end context), 24 bits.
        remote_qpn: u32 = int(12, 3),
        /// Time within which the receiver must answer: 4.096 us * 2^n, 5 bits.
        remote_cm_response_timeout: u8 = bits(15, 0, 5),
        /// The path.
        alternate: Path = LapPath(20),
        /// The consumer's private data.
        private_data: PrivateData<LAP_PRIVATE_MAX> = Bytes(64),
    }
}

message! {
    /// Alternate path response.
    Apr {
        /// The sender's communication ID.
        local_comm_id: u32 = int(0, 4),
        /// The receiver's communication ID.
        remote_comm_id: u32 = int(4, 4),
        /// Length of the meaningful part of [`Apr::info`] in bytes.
        info_len: u8 = int(8, 1),
        /// Outcome.
        status: ApStatus = int(9, 1),
        /// Additional information.
        info: PrivateData<APR_INFO_MAX> = Bytes(12),
        /// The consumer's private data.
        private_data: PrivateData<APR_PRIVATE_MAX> = Bytes(84),
    }
}
