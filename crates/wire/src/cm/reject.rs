//! REJ and its reject reasons (IBA 12.6.7).

use super::PrivateData;
use super::layout::{Bytes, bits, int, message, open};

/// Bytes of private data in a REJ.
pub const REJ_PRIVATE_MAX: usize = 148;
/// Bytes of additional reject information.
pub const ARI_MAX: usize = 72;

open! {
    /// The message that a REJ rejects, 2 bits.
    MessageRejected(u8) {
        REQ = 0, "REQ";
        REP = 1, "REP";
        NONE = 2, "no message";
    }
}

open! {
    /// Reason for refusing communication (IBA table 99).
    RejectReason(u16) {
        NO_QP = 1, "no QP available";
        NO_EEC = 2, "no EEC available";
        NO_RESOURCES = 3, "no resources available";
        TIMEOUT = 4, "timeout";
        UNSUPPORTED = 5, "unsupported request";
        INVALID_COMM_ID = 6, "invalid communication ID";
        INVALID_COMM_INSTANCE = 7, "invalid communication instance";
        INVALID_SERVICE_ID = 8, "invalid service ID";
        INVALID_TRANSPORT_TYPE = 9, "invalid transport service type";
        STALE_CONN = 10, "stale connection";
        RDC_NOT_EXIST = 11, "RDC does not exist";
        /// The additional information may be an acceptable GID.
        INVALID_GID = 12, "primary remote port GID rejected";
        /// The additional information may be an acceptable LID.
        INVALID_LID = 13, "primary remote port LID rejected";
        INVALID_SL = 14, "invalid primary SL";
        INVALID_TRAFFIC_CLASS = 15, "invalid primary traffic class";
        INVALID_HOP_LIMIT = 16, "invalid primary hop limit";
        INVALID_PACKET_RATE = 17, "invalid primary packet rate";
        INVALID_ALT_GID = 18, "alternate remote port GID rejected";
        INVALID_ALT_LID = 19, "alternate remote port LID rejected";
        INVALID_ALT_SL = 20, "invalid alternate SL";
        INVALID_ALT_TRAFFIC_CLASS = 21, "invalid alternate traffic class";
        INVALID_ALT_HOP_LIMIT = 22, "invalid alternate hop limit";
        INVALID_ALT_PACKET_RATE = 23, "invalid alternate packet rate";
        /// The additional information is the ClassPortInfo of the other CM.
        PORT_CM_REDIRECT = 24, "port and CM redirection";
        /// The additional information is the GID of the other port.
        PORT_REDIRECT = 25, "port redirection";
        /// The additional information is the largest acceptable path MTU.
        INVALID_MTU = 26, "invalid path MTU";
        INSUFFICIENT_RESP_RESOURCES = 27, "insufficient responder resources";
        /// The consumer's own reason is in the private data.
        CONSUMER_DEFINED = 28, "consumer reject";
        INVALID_RNR_RETRY = 29, "RNR retry count rejected";
        DUPLICATE_LOCAL_COMM_ID = 30, "duplicate local communication ID";
        INVALID_CLASS_VERSION = 31, "unsupported class version";
        INVALID_FLOW_LABEL = 32, "invalid primary flow label";
        INVALID_ALT_FLOW_LABEL = 33, "invalid alternate flow label";
        VENDOR_OPTION_NOT_SUPPORTED = 35, "vendor option not supported";
    }
}

message! {
    /// Reject: communication is refused, or given up.
    Rej {
        /// The sender's communication ID, 0 if it has none.
        local_comm_id: u32 = int(0, 4),
        /// The receiver's communication ID.
        remote_comm_id: u32 = int(4, 4),
        /// The message rejected.
        message_rejected: MessageRejected = bits(8, 0, 2),
        /// Length of the meaningful part of [`Rej::ari`] in bytes, 7 bits.
        reject_info_len: u8 = bits(9, 0, 7),
        /// Reason.
        reason: RejectReason = int(10, 2),
        /// Additional reject information.
        ari: PrivateData<ARI_MAX> = Bytes(12),
        /// The consumer's private data.
        private_data: PrivateData<REJ_PRIVATE_MAX> = Bytes(84),
    }
}

impl Rej {
    /// Returns the meaningful part of the additional information.
    pub fn ari(&self) -> &[u8] {
        &self.ari.as_slice()[..usize::from(self.reject_info_len).min(ARI_MAX)]
    }
}
