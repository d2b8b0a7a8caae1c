//! REQ, request for communication (IBA 12.6.5).

use super::layout::{Bytes, bits, int, message, open};
use super::path::{Path, ReqPath};
use super::{PrivateData, ServiceId};
use crate::Psn;

/// Bytes of private data in a REQ; the RDMA IP CM service takes the first 36 (see [`super::ip`]).
pub const REQ_PRIVATE_MAX: usize = 92;

open! {
    /// Requested transport service, 2 bits.
    TransportService(u8) {
        RC = 0, "reliable connection";
        UC = 1, "unreliable connection";
        RD = 2, "reliable datagram";
        /// [`ExtendedTransport`] selects the service.
        EXTENDED = 3, "extended transport";
    }
}

open! {
    /// Extended transport service, if a REQ has [`TransportService::EXTENDED`], 3 bits (IBA A14.6.3).
    ExtendedTransport(u8) {
        XRC = 1, "extended reliable connection";
    }
}

message! {
    /// Request for communication: the active side names the service, its queue pair and the path.
    Req {
        /// The sender's communication ID.
        local_comm_id: u32 = int(0, 4),
        /// IEEE OUI of the vendor that defined the options (enhanced connection establishment), 24 bits, 0 for none.
        /// The options themselves are in the attribute modifier of the datagram's header.
        vendor_id: u32 = int(5, 3),
        /// The requested service.
        service_id: ServiceId = int(8, 8),
        /// GUID of the sender's adapter.
        local_ca_guid: u64 = int(16, 8),
        /// Q_Key (reliable datagram only).
        local_qkey: u32 = int(28, 4),
        /// The sender's queue pair, 24 bits.
        local_qpn: u32 = int(32, 3),
        /// READs and atomics that the sender accepts at the same time.
        responder_resources: u8 = int(35, 1),
        /// End-to-end context (reliable datagram only), 24 bits.
        local_eecn: u32 = int(36, 3),
        /// READs and atomics that the sender will have outstanding.
        initiator_depth: u8 = int(39, 1),
        /// The receiver's end-to-end context (reliable datagram only), 24 bits.
        remote_eecn: u32 = int(40, 3),
        /// Time within which the receiver must answer: 4.096 us * 2^n, 5 bits.
        remote_cm_response_timeout: u8 = bits(43, 0, 5),
        /// Transport service.
        transport_service: TransportService = bits(43, 5, 2),
        /// Whether the sender's adapter implements end-to-end credits.
        end_to_end_flow_control: bool = bits(43, 7, 1),
        /// First PSN that the sender will use.
        starting_psn: Psn = int(44, 3),
        /// Time within which the sender will answer: 4.096 us * 2^n, 5 bits.
        local_cm_response_timeout: u8 = bits(47, 0, 5),
        /// Transport retries for the receiver's queue pair, 3 bits.
        retry_count: u8 = bits(47, 5, 3),
        /// Partition key.
        pkey: u16 = int(48, 2),
        /// Path MTU: 1 for 256 up to 5 for 4096, 4 bits.
        path_mtu: u8 = bits(50, 0, 4),
        /// Whether a reliable datagram channel exists already.
        rdc_exists: bool = bits(50, 4, 1),
        /// RNR retries for the receiver's queue pair, 3 bits.
        rnr_retry_count: u8 = bits(50, 5, 3),
        /// Retries of a CM message on either side, 4 bits.
        max_cm_retries: u8 = bits(51, 0, 4),
        /// Whether the sender's queue pair receives from a shared receive queue.
        srq: bool = bits(51, 4, 1),
        /// Extended transport service.
        extended_transport: ExtendedTransport = bits(51, 5, 3),
        /// The path.
        primary: Path = ReqPath(52),
        /// Alternate path for failover; zeros for none.
        alternate: Path = ReqPath(96),
        /// Whether the sender understands suggested alternate paths (SAP).
        sap_supported: bool = bits(139, 5, 1),
        /// The consumer's private data.
        private_data: PrivateData<REQ_PRIVATE_MAX> = Bytes(140),
    }
}
