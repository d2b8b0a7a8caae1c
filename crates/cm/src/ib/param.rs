//! What commands are given.

use weft_mad::GmpAddress;
use weft_verbs::QpType;
use weft_wire::cm::{Failover, SidrStatus};

use super::path::Path;

/// A listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenId(pub u64);

/// What the communication manager must know of a local device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaInfo {
    /// Its node GUID: how peers tell adapters apart.
    pub node_guid: u64,
    /// How long it may take to acknowledge a packet: 4.096 µs · 2ⁿ; 15 of Soft-RoCE.
    pub ack_delay: u8,
}

/// Options of a vendor that the two sides agree on (enhanced connection establishment). A vendor of 0 offers nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ece {
    /// The vendor, 24 bits.
    pub vendor_id: u32,
    /// Options as that vendor means them.
    pub attr_mod: u32,
}

/// A request for a connection. What the wire calls "local" is this side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReqParams {
    /// Where the datagram goes.
    pub to: GmpAddress,
    /// The service that is wanted.
    pub service_id: u64,
    /// Path of the connection.
    pub primary: Path,
    /// Path to change over to when the primary fails. Its partition and MTU must be the primary's.
    pub alternate: Option<Path>,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Its type: RC, UC, or the initiator of XRC.
    pub qp_type: QpType,
    /// The first PSN that the peer shall use.
    pub starting_psn: u32,
    /// READs and atomics taken from the peer at once.
    pub responder_resources: u8,
    /// READs and atomics sent to the peer at once.
    pub initiator_depth: u8,
    /// Whether end-to-end flow control is there.
    pub flow_control: bool,
    /// Retries that the peer's queue pair makes without an answer.
    pub retry_count: u8,
    /// Retries that the peer's queue pair makes after RNR.
    pub rnr_retry_count: u8,
    /// Whether the queue pair takes receives from a shared queue.
    pub srq: bool,
    /// Time in which the peer answers: 4.096 µs · 2ⁿ; 20 of Linux's RDMA CM.
    pub remote_cm_response_timeout: u8,
    /// Time in which this side answers.
    pub local_cm_response_timeout: u8,
    /// How often either side repeats a message that is not answered, [`super::limits::CM_RETRIES_MAX`] at most.
    pub max_cm_retries: u8,
    /// Whether the other side sends a request of the same kind to this one, and both mean one connection.
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
    /// The first PSN that the peer shall use.
    pub starting_psn: u32,
    /// READs and atomics taken from the peer at once.
    pub responder_resources: u8,
    /// READs and atomics sent to the peer at once.
    pub initiator_depth: u8,
    /// What becomes of the alternate path.
    pub failover: Failover,
    /// Whether end-to-end flow control is there.
    pub flow_control: bool,
    /// Retries that the peer's queue pair makes after RNR.
    pub rnr_retry_count: u8,
    /// Whether the queue pair takes receives from a shared queue.
    pub srq: bool,
    /// Options taken.
    pub ece: Ece,
    /// Private data, 196 bytes at most.
    pub private_data: Vec<u8>,
}

/// A request for the datagram queue pair behind a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SidrReqParams {
    /// Where the datagram goes.
    pub to: GmpAddress,
    /// The service that is wanted.
    pub service_id: u64,
    /// Partition.
    pub pkey: u16,
    /// How long one try waits, in milliseconds; 4096 of Linux's RDMA CM.
    pub timeout_ms: u32,
    /// How often it is repeated, [`super::limits::CM_RETRIES_MAX`] at most.
    pub max_cm_retries: u8,
    /// Private data, 216 bytes at most.
    pub private_data: Vec<u8>,
}

/// An answer to a request for a service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SidrRepParams {
    /// Whether the service is here.
    pub status: SidrStatus,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// Options taken.
    pub ece: Ece,
    /// More about the status, 72 bytes at most.
    pub info: Vec<u8>,
    /// Private data, 136 bytes at most.
    pub private_data: Vec<u8>,
}

/// What a connection has agreed on so far: what its queue pair is to be modified with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpParams {
    /// Type of the queue pair.
    pub qp_type: QpType,
    /// Where the peer is: GIDs, traffic class, port.
    pub address: GmpAddress,
    /// MTU of the path.
    pub path_mtu: weft_verbs::Mtu,
    /// Partition of the connection.
    pub pkey: u16,
    /// The peer's queue pair; 0 while it is not known.
    pub remote_qpn: u32,
    /// The first PSN that the peer will use.
    pub rq_psn: u32,
    /// The first PSN that this side is to use.
    pub sq_psn: u32,
    /// READs and atomics taken from the peer at once.
    pub responder_resources: u8,
    /// READs and atomics sent to the peer at once.
    pub initiator_depth: u8,
    /// Retries without an answer.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
    /// Local ACK timeout.
    pub timeout: u8,
    /// Whether the state of the connection allows the queue pair INIT.
    pub may_init: bool,
    /// Whether it allows RTR: the peer's number and PSN are known.
    pub may_rtr: bool,
    /// Whether it allows RTS.
    pub may_rts: bool,
}
