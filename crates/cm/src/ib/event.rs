//! What the owner of connections is told.

use weft_mad::GmpAddress;
use weft_verbs::QpType;
use weft_wire::cm::{ApStatus, Failover, RejectReason, SidrStatus};

use super::comm_id::ConnId;
use super::param::{Ece, ListenId};
use super::path::Path;

/// Something happened to a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The connection.
    pub conn: ConnId,
    /// What happened.
    pub kind: EventKind,
    /// The private data of the message that caused it, all that the message has room for: zeros at the end are not
    /// told apart from data. Empty if there was no message.
    pub private_data: Vec<u8>,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// A request for a connection. The connection is new, except when both sides asked for it (peer to peer): then it
    /// is the one that [`super::Cm::send_req`] gave, and this side answers. Answer by `send_rep`, `send_rej`, `send_mra`
    /// or `destroy`.
    ReqReceived(Box<ReqReceived>),
    /// The request was answered. Go on by `send_rtu` or `send_rej`.
    RepReceived(Box<RepReceived>),
    /// The peer is ready: the connection stands.
    RtuReceived,
    /// [`super::Cm::establish`] was called: the connection stands.
    UserEstablished,
    /// The peer does not want the connection, or not any more.
    RejReceived(RejReceived),
    /// The peer asks for time: 4.096 µs · 2ⁿ.
    MraReceived {
        /// n.
        service_timeout: u8,
    },
    /// The peer ends the connection. Answer by `send_drep`.
    DreqReceived,
    /// The peer has agreed that the connection ends.
    DrepReceived,
    /// No packet of the old connection can come any more: the queue pair may be used again.
    TimewaitExit,
    /// Nobody answered the request.
    ReqError,
    /// Nobody took note of the answer.
    RepError,
    /// Nobody answered the end; it has ended all the same.
    DreqError,
    /// A request for a service. The connection is new and only serves for `send_sidr_rep`, after which it is gone.
    SidrReqReceived(SidrReqReceived),
    /// The answer to a request for a service.
    SidrRepReceived(SidrRepReceived),
    /// Nobody answered the request for a service.
    SidrReqError,
    /// The peer wants another alternate path. Answer by `send_apr`.
    LapReceived(Box<Path>),
    /// The answer about the alternate path.
    AprReceived(AprReceived),
    /// Nobody answered about the alternate path.
    LapError,
}

/// A request, seen from the side that received it: "remote" is who asks, and the paths lead from here to there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReqReceived {
    /// The listener that it was for; `None` peer to peer.
    pub listen: Option<ListenId>,
    /// Where it came from.
    pub from: GmpAddress,
    /// The service that is wanted.
    pub service_id: u64,
    /// Path of the connection.
    pub primary: Path,
    /// Alternate path.
    pub alternate: Option<Path>,
    /// The asking adapter.
    pub remote_ca_guid: u64,
    /// Its Q_Key.
    pub remote_qkey: u32,
    /// Its queue pair.
    pub remote_qpn: u32,
    /// Type that the queue pair on this side must have: RC, UC, or the target of XRC.
    pub qp_type: QpType,
    /// The first PSN that this side is to use.
    pub starting_psn: u32,
    /// READs and atomics that the peer sends at once.
    pub responder_resources: u8,
    /// READs and atomics that the peer takes at once.
    pub initiator_depth: u8,
    /// Time in which this side is expected to answer: 4.096 µs · 2ⁿ.
    pub local_cm_response_timeout: u8,
    /// Time in which the peer answers.
    pub remote_cm_response_timeout: u8,
    /// Whether the peer has end-to-end flow control.
    pub flow_control: bool,
    /// Retries without an answer.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
    /// Whether the peer takes receives from a shared queue.
    pub srq: bool,
    /// Options offered.
    pub ece: Ece,
}

/// An answer, seen from the side that received it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepReceived {
    /// The answering adapter.
    pub remote_ca_guid: u64,
    /// Its Q_Key.
    pub remote_qkey: u32,
    /// Its queue pair.
    pub remote_qpn: u32,
    /// The first PSN that this side is to use.
    pub starting_psn: u32,
    /// READs and atomics that the peer sends at once.
    pub responder_resources: u8,
    /// READs and atomics that the peer takes at once.
    pub initiator_depth: u8,
    /// How long the peer may take to acknowledge.
    pub target_ack_delay: u8,
    /// What became of the alternate path.
    pub failover: Failover,
    /// Whether the peer has end-to-end flow control.
    pub flow_control: bool,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
    /// Whether the peer takes receives from a shared queue.
    pub srq: bool,
    /// Options taken.
    pub ece: Ece,
}

/// A rejection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejReceived {
    /// Why.
    pub reason: RejectReason,
    /// More about it.
    pub ari: Vec<u8>,
}

/// A request for a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrReqReceived {
    /// The listener that it was for.
    pub listen: ListenId,
    /// Where it came from.
    pub from: GmpAddress,
    /// The service.
    pub service_id: u64,
    /// Partition wanted.
    pub pkey: u16,
}

/// An answer to a request for a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SidrRepReceived {
    /// Where it came from.
    pub from: GmpAddress,
    /// Whether the service is there.
    pub status: SidrStatus,
    /// The queue pair.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// Options taken.
    pub ece: Ece,
    /// More about the status.
    pub info: Vec<u8>,
}

/// An answer about an alternate path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AprReceived {
    /// What became of it.
    pub status: ApStatus,
    /// More about it.
    pub info: Vec<u8>,
}
