//! One connection: what was agreed on so far, what is repeated, and until when.

use weft_mad::{GmpAddress, MadBytes, Retry};
use weft_verbs::{Duration, Gid, Instant, Mtu, QpType};

use super::book::RemoteQp;
use super::comm_id::ConnId;
use super::param::QpParams;
use super::state::{LapState, State};

/// A connection, or a request for a service.
#[derive(Debug)]
pub(super) struct Conn {
    pub id: ConnId,
    pub state: State,
    pub lap: LapState,
    /// Its owner has gone: it says goodbye on its own and tells nobody.
    pub orphan: bool,
    /// Where the peer is.
    pub to: GmpAddress,
    /// GID of the peer on the alternate path.
    pub alternate_dgid: Option<Gid>,
    /// Transaction of the message that is being answered, or of our own first.
    pub tid: u64,
    pub service_id: u64,
    /// The peer's communication id, 0 while it is not known; of a request for a service its request id.
    pub remote_comm_id: u32,
    pub remote_ca_guid: u64,
    pub qp_type: QpType,
    pub local_qpn: u32,
    pub remote_qpn: u32,
    pub path_mtu: Mtu,
    pub pkey: u16,
    pub sq_psn: u32,
    pub rq_psn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    /// Local ACK timeout, and the time of Timewait: 4.096 µs · 2ⁿ.
    pub ack_timeout: u8,
    /// How long one try of a message waits.
    pub timeout: Duration,
    pub max_cm_retries: u8,
    pub peer_to_peer: bool,
    /// The message that is repeated until it is answered.
    pub ask: Option<Box<MadBytes>>,
    pub retry: Option<Retry>,
    /// The message that is repeated when what it answers comes again.
    pub reply: Option<Box<MadBytes>>,
    /// When the timer goes off.
    pub deadline: Option<Instant>,
}

impl Conn {
    /// A connection of which nothing is known but where the peer is.
    pub fn new(id: ConnId, to: GmpAddress, service_id: u64, tid: u64) -> Conn {
        Conn {
            id,
            state: State::Idle,
            lap: LapState::Uninit,
            orphan: false,
            to,
            alternate_dgid: None,
            tid,
            service_id,
            remote_comm_id: 0,
            remote_ca_guid: 0,
            qp_type: QpType::Rc,
            local_qpn: 0,
            remote_qpn: 0,
            path_mtu: Mtu::Mtu256,
            pkey: to.pkey,
            sq_psn: 0,
            rq_psn: 0,
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            ack_timeout: 0,
            timeout: Duration::ZERO,
            max_cm_retries: 0,
            peer_to_peer: false,
            ask: None,
            retry: None,
            reply: None,
            deadline: None,
        }
    }

    /// What an old connection of the peer's queue pair is known by.
    pub fn remote_qp(&self) -> RemoteQp {
        (self.to.dgid, self.remote_ca_guid, self.remote_qpn)
    }

    /// Whether a datagram comes from the peer: on the path that is used, or on the alternate one.
    pub fn is_peer(&self, from: &GmpAddress) -> bool {
        let on_alternate = self.alternate_dgid == Some(from.dgid) && self.to.device == from.device;
        self.to.same_ends(from) || on_alternate
    }

    /// What the queue pair is to be modified with.
    pub fn qp_params(&self) -> QpParams {
        use State::*;
        let known =
            matches!(self.state, ReqRcvd | MraReqSent | RepRcvd | MraRepSent | RepSent | MraRepRcvd | Established);
        QpParams {
            qp_type: self.qp_type,
            address: self.to,
            path_mtu: self.path_mtu,
            pkey: self.pkey,
            remote_qpn: self.remote_qpn,
            rq_psn: self.rq_psn,
            sq_psn: self.sq_psn,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            timeout: self.ack_timeout,
            may_init: known || matches!(self.state, ReqSent | MraReqRcvd),
            may_rtr: known,
            may_rts: known,
        }
    }
}
