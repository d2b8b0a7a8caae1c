//! Parameters of commands.

use weft_mad::GmpAddress;
use weft_verbs::QpType;
use weft_wire::cm::{Failover, SidrStatus};

use super::path::Path;

/// Number of a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenId(pub u64);

/// Properties of a local device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaInfo {
    /// Node GUID, by which peers tell CAs apart.
    pub node_guid: u64,
    /// Time that it may take to acknowledge a packet: 4.096 µs · 2ⁿ; 15 for Soft-RoCE.
    pub ack_delay: u8,
}

/// Vendor options that the two sides negotiate (enhanced connection establishment). Vendor 0 offers nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ece {
    /// The vendor, 24 bits.
    pub vendor_id: u32,
    /// Vendor-defined options.
    pub attr_mod: u32,
}

/// A request for a connection. The wire's "local" is this side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReqParams {
    /// Destination of the datagram.
    pub to: GmpAddress,
    /// Requested service.
    pub service_id: u64,
    /// Path of the connection.
    pub primary: Path,
    /// Path to migrate to when the primary fails. Its partition and MTU must be the primary's.
    pub alternate: Option<Path>,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Its type: RC, UC, or XRC initiator.
    pub qp_type: QpType,
    /// First PSN that the peer must send.
    pub starting_psn: u32,
    /// READs and atomics that this side accepts at once.
    pub responder_resources: u8,
    /// READs and atomics that this side has outstanding at most.
    pub initiator_depth: u8,
    /// Whether this side supports end-to-end flow control.
    pub flow_control: bool,
    /// Retries of the peer's queue pair after a missing acknowledgement.
    pub retry_count: u8,
    /// Retries of the peer's queue pair after RNR.
    pub rnr_retry_count: u8,
    /// Whether the queue pair uses a shared receive queue.
    pub srq: bool,
    /// Time in which the peer must answer: 4.096 µs · 2ⁿ; 20 in Linux's RDMA CM.
    pub remote_cm_response_timeout: u8,
    /// Time in which this side must answer.
    pub local_cm_response_timeout: u8,
    /// Retries of an unanswered message on either side, [`super::limits::CM_RETRIES_MAX`] at most.
    pub max_cm_retries: u8,
    /// Whether both sides send each other a request, and both requests mean one connection.
    pub peer_to_peer: bool,
    /// Options offered.
    pub ece: Ece,
    /// Private data, 92 bytes at most.
    pub private_data: Vec<u8>,
}

/// An answer to a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RepParams {
    /// Number of the queue pair.
    pub qpn: u32,
    /// Its Q_Key; 0 for connections.
    pub qkey: u32,
    /// First PSN that the peer must send.
    pub starting_psn: u32,
    /// READs and atomics that this side accepts at once.
    pub responder_resources: u8,
    /// READs and atomics that this side has outstanding at most.
    pub initiator_depth: u8,
    /// Whether this side accepts the alternate path.
    pub failover: Failover,
    /// Whether this side supports end-to-end flow control.
    pub flow_control: bool,
    /// Retries of the peer's queue pair after RNR.
    pub rnr_retry_count: u8,
    /// Whether the queue pair uses a shared receive queue.
    pub srq: bool,
    /// Options chosen.
    pub ece: Ece,
    /// Private data, 196 bytes at most.
    pub private_data: Vec<u8>,
}

/// A request for the datagram queue pair behind a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SidrReqParams {
    /// Destination of the datagram.
    pub to: GmpAddress,
    /// Requested service.
    pub service_id: u64,
    /// Partition.
    pub pkey: u16,
    /// Timeout of one try, in milliseconds; 4096 in Linux's RDMA CM.
    pub timeout_ms: u32,
    /// Number of repeats, [`super::limits::CM_RETRIES_MAX`] at most.
    pub max_cm_retries: u8,
    /// Private data, 216 bytes at most.
    pub private_data: Vec<u8>,
}

/// An answer to a SIDR request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SidrRepParams {
    /// Whether the service exists here.
    pub status: SidrStatus,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// Options chosen.
    pub ece: Ece,
    /// Additional information about the status, 72 bytes at most.
    pub info: Vec<u8>,
    /// Private data, 136 bytes at most.
    pub private_data: Vec<u8>,
}

/// Parameters negotiated so far, with which to modify the connection's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpParams {
    /// Type of the queue pair.
    pub qp_type: QpType,
    /// Address of the peer: GIDs, traffic class, port.
    pub address: GmpAddress,
    /// MTU of the path.
    pub path_mtu: weft_verbs::Mtu,
    /// Partition of the connection.
    pub pkey: u16,
    /// The peer's queue pair; 0 until known.
    pub remote_qpn: u32,
    /// First PSN that the peer sends.
    pub rq_psn: u32,
    /// First PSN that this side must send.
    pub sq_psn: u32,
    /// READs and atomics that this side accepts at once.
    pub responder_resources: u8,
    /// READs and atomics that this side has outstanding at most.
    pub initiator_depth: u8,
    /// Retries after a missing acknowledgement.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
    /// Local ACK timeout.
    pub timeout: u8,
    /// Whether the state of the connection allows INIT.
    pub may_init: bool,
    /// Whether the state allows RTR: the peer's queue pair and PSN are known.
    pub may_rtr: bool,
    /// Whether the state allows RTS.
    pub may_rts: bool,
}
