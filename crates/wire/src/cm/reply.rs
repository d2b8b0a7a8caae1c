//! The replies to a REQ until the connection is established: MRA, REP and RTU (IBA 12.6.6, 12.6.8, 12.6.9).

use super::PrivateData;
use super::layout::{Bytes, Scattered, bits, int, message, open};
use crate::Psn;

/// Bytes of private data in an MRA.
pub const MRA_PRIVATE_MAX: usize = 222;
/// Bytes of private data in a REP.
pub const REP_PRIVATE_MAX: usize = 196;
/// Bytes of private data in an RTU.
pub const RTU_PRIVATE_MAX: usize = 224;

open! {
    /// The message that an MRA acknowledges, 2 bits.
    MessageMraed(u8) {
        REQ = 0, "REQ";
        REP = 1, "REP";
        LAP = 2, "LAP";
    }
}

open! {
    /// Outcome for the alternate path of a REQ, 2 bits (IBA 12.7.30).
    Failover(u8) {
        ACCEPTED = 0, "accepted, or none was offered";
        NOT_SUPPORTED = 1, "not supported";
        REJECTED = 2, "supported, and rejected";
    }
}

message! {
    /// Message receipt acknowledgement: the response will come, but later than promised.
    Mra {
        /// The sender's communication ID.
        local_comm_id: u32 = int(0, 4),
        /// The receiver's communication ID.
        remote_comm_id: u32 = int(4, 4),
        /// The message received.
        message_mraed: MessageMraed = bits(8, 0, 2),
        /// Time that the sender still needs: 4.096 us * 2^n, 5 bits.
        service_timeout: u8 = bits(9, 0, 5),
        /// The consumer's private data.
        private_data: PrivateData<MRA_PRIVATE_MAX> = Bytes(10),
    }
}

message! {
    /// Reply to a REQ: the passive side names its queue pair.
    Rep {
        /// The sender's communication ID.
        local_comm_id: u32 = int(0, 4),
        /// The receiver's communication ID.
        remote_comm_id: u32 = int(4, 4),
        /// Q_Key (reliable datagram only).
        local_qkey: u32 = int(8, 4),
        /// The sender's queue pair, 24 bits; 0 for XRC, whose target queue pair is in [`Rep::local_eecn`].
        local_qpn: u32 = int(12, 3),
        /// End-to-end context (reliable datagram), or the target queue pair (XRC), 24 bits.
        local_eecn: u32 = int(16, 3),
        /// First PSN that the sender will use.
        starting_psn: Psn = int(20, 3),
        /// IEEE OUI of the vendor that defined the options (enhanced connection establishment), 24 bits, 0 for none.
        /// The options themselves are in the attribute modifier of the datagram's header.
        vendor_id: u32 = Scattered([15, 19, 23]),
        /// READs and atomics that the sender accepts at the same time.
        responder_resources: u8 = int(24, 1),
        /// READs and atomics that the sender will have outstanding.
        initiator_depth: u8 = int(25, 1),
        /// Longest time between a packet and its acknowledgement: 4.096 us * 2^n, 5 bits.
        target_ack_delay: u8 = bits(26, 0, 5),
        /// Outcome for the alternate path.
        failover: Failover = bits(26, 5, 2),
        /// Whether the sender's adapter implements end-to-end credits.
        end_to_end_flow_control: bool = bits(26, 7, 1),
        /// RNR retries for the receiver's queue pair, 3 bits.
        rnr_retry_count: u8 = bits(27, 0, 3),
        /// Whether the sender's queue pair receives from a shared receive queue.
        srq: bool = bits(27, 3, 1),
        /// GUID of the sender's adapter.
        local_ca_guid: u64 = int(28, 8),
        /// The consumer's private data.
        private_data: PrivateData<REP_PRIVATE_MAX> = Bytes(36),
    }
}

message! {
    /// Ready to use: the active side has accepted the REP.
    Rtu {
        /// The sender's communication ID.
        local_comm_id: u32 = int(0, 4),
        /// The receiver's communication ID.
        remote_comm_id: u32 = int(4, 4),
        /// The consumer's private data.
        private_data: PrivateData<RTU_PRIVATE_MAX> = Bytes(8),
    }
}
