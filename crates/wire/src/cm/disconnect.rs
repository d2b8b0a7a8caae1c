//! The end of a connection: DREQ and DREP (IBA 12.6.10, 12.6.11).

use super::PrivateData;
use super::layout::{Bytes, int, message};

/// Bytes of private data in a DREQ.
pub const DREQ_PRIVATE_MAX: usize = 220;
/// Bytes of private data in a DREP.
pub const DREP_PRIVATE_MAX: usize = 224;

message! {
    /// Disconnection request.
    Dreq {
        /// The sender's communication ID.
        local_comm_id: u32 = int(0, 4),
        /// The receiver's communication ID.
        remote_comm_id: u32 = int(4, 4),
        /// The receiver's queue pair (or end-to-end context), 24 bits, which verifies that both sides mean the same
        /// connection.
        remote_qpn: u32 = int(8, 3),
        /// The consumer's private data.
        private_data: PrivateData<DREQ_PRIVATE_MAX> = Bytes(12),
    }
}

message! {
    /// Disconnection reply.
    Drep {
        /// The sender's communication ID.
        local_comm_id: u32 = int(0, 4),
        /// The receiver's communication ID.
        remote_comm_id: u32 = int(4, 4),
        /// The consumer's private data.
        private_data: PrivateData<DREP_PRIVATE_MAX> = Bytes(8),
    }
}
