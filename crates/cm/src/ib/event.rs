//! Events for the owner of connections.

use weft_mad::GmpAddress;
use weft_verbs::QpType;
use weft_wire::cm::{ApStatus, Failover, RejectReason, SidrStatus};

use super::comm_id::ConnId;
use super::param::{Ece, ListenId};
use super::path::Path;

/// Event of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The connection.
    pub conn: ConnId,
    /// The event.
    pub kind: EventKind,
    /// Private data of the message that caused it, at the message's full length: trailing zeros are indistinguishable
    /// from data. Empty if there was no message.
    pub private_data: Vec<u8>,
}

/// Kind of event, with its details.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// A request for a connection. The connection is new, except when both sides requested it (peer to peer): then it
    /// is the one that [`super::Cm::send_req`] returned, and this side is passive. Answer by `send_rep`, `send_rej`,
    /// `send_mra` or `destroy`.
    ReqReceived(Box<ReqReceived>),
    /// A REP to the request. Go on with `send_rtu` or `send_rej`.
    RepReceived(Box<RepReceived>),
    /// The peer is ready: the connection is established.
    RtuReceived,
    /// The owner called [`super::Cm::establish`]: the connection is established.
    UserEstablished,
    /// The peer rejects the connection, or drops it later.
    RejReceived(RejReceived),
    /// The peer asks for more time: 4.096 µs · 2ⁿ.
    MraReceived {
        /// n.
        service_timeout: u8,
    },
    /// The peer ends the connection. Answer with `send_drep`.
    DreqReceived,
    /// The peer has confirmed the end of the connection.
    DrepReceived,
    /// No packet of the old connection can arrive any more: the queue pair may be reused.
    TimewaitExit,
    /// The REQ got no answer.
    ReqError,
    /// The REP got no answer.
    RepError,
    /// The DREQ got no answer; the connection has ended all the same.
    DreqError,
    /// A SIDR request. The connection is new and serves only for `send_sidr_rep`, which removes it.
    SidrReqReceived(SidrReqReceived),
    /// The answer to a SIDR request.
    SidrRepReceived(SidrRepReceived),
    /// The SIDR request got no answer.
    SidrReqError,
    /// The peer proposes another alternate path. Answer with `send_apr`.
    LapReceived(Box<Path>),
    /// The answer to a proposed alternate path.
    AprReceived(AprReceived),
    /// The LAP got no answer.
    LapError,
}

/// A request as its receiver sees it: "remote" is the requester, and the paths lead from here to there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReqReceived {
    /// The listener; `None` for peer to peer.
    pub listen: Option<ListenId>,
    /// Where it came from.
    pub from: GmpAddress,
    /// Requested service.
    pub service_id: u64,
    /// Path of the connection.
    pub primary: Path,
    /// Alternate path.
    pub alternate: Option<Path>,
    /// Node GUID of the requester's CA.
    pub remote_ca_guid: u64,
    /// Its Q_Key.
    pub remote_qkey: u32,
    /// Its queue pair.
    pub remote_qpn: u32,
    /// Type that the queue pair on this side must have: RC, UC, or XRC target.
    pub qp_type: QpType,
    /// First PSN that this side must send.
    pub starting_psn: u32,
    /// READs and atomics that the peer has outstanding at most.
    pub responder_resources: u8,
    /// READs and atomics that the peer accepts at once.
    pub initiator_depth: u8,
    /// Time in which this side must answer: 4.096 µs · 2ⁿ.
    pub local_cm_response_timeout: u8,
    /// Time in which the peer answers.
    pub remote_cm_response_timeout: u8,
    /// Whether the peer supports end-to-end flow control.
    pub flow_control: bool,
    /// Retries after a missing acknowledgement.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
    /// Whether the peer's queue pair uses a shared receive queue.
    pub srq: bool,
    /// Options offered.
    pub ece: Ece,
}

/// A REP as its receiver sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepReceived {
    /// Node GUID of the answering CA.
    pub remote_ca_guid: u64,
    /// Its Q_Key.
    pub remote_qkey: u32,
    /// Its queue pair.
    pub remote_qpn: u32,
    /// First PSN that this side must send.
    pub starting_psn: u32,
    /// READs and atomics that the peer has outstanding at most.
    pub responder_resources: u8,
    /// READs and atomics that the peer accepts at once.
    pub initiator_depth: u8,
    /// Time that the peer may take to acknowledge.
    pub target_ack_delay: u8,
    /// Whether the peer accepted the alternate path.
    pub failover: Failover,
    /// Whether the peer supports end-to-end flow control.
    pub flow_control: bool,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
    /// Whether the peer's queue pair uses a shared receive queue.
    pub srq: bool,
    /// Options chosen.
    pub ece: Ece,
}

/// A rejection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejReceived {
    /// Reason.
    pub reason: RejectReason,
    /// Additional rejection information.
    pub ari: Vec<u8>,
}

/// A SIDR request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrReqReceived {
    /// The listener.
    pub listen: ListenId,
    /// Where it came from.
    pub from: GmpAddress,
    /// The service.
    pub service_id: u64,
    /// Requested partition.
    pub pkey: u16,
}

/// An answer to a SIDR request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SidrRepReceived {
    /// Where it came from.
    pub from: GmpAddress,
    /// Whether the service exists.
    pub status: SidrStatus,
    /// The queue pair.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// Options chosen.
    pub ece: Ece,
    /// Additional information about the status.
    pub info: Vec<u8>,
}

/// An APR.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AprReceived {
    /// Whether the peer accepted the path.
    pub status: ApStatus,
    /// Additional information about the status.
    pub info: Vec<u8>,
}
