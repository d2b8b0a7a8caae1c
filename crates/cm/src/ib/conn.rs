//! One connection: its negotiated parameters, its pending message, and its timer.

use weft_mad::{GmpAddress, MadBytes, Retry};
use weft_verbs::{Duration, Gid, Instant, Mtu, QpType};

use super::comm_id::ConnId;
use super::param::QpParams;
use super::state::{LapState, State};

/// A peer's queue pair: GID, CA GUID and number.
pub(super) type RemoteQp = (Gid, u64, u32);

/// Connection, or SIDR request.
#[derive(Debug)]
pub(super) struct Conn {
    pub id: ConnId,
    pub state: State,
    pub lap: LapState,
    /// Whether its owner has destroyed it: it finishes the disconnect on its own and reports no events.
    pub orphan: bool,
    /// Address of the peer.
    pub to: GmpAddress,
    /// GID of the peer on the alternate path.
    pub alternate_dgid: Option<Gid>,
    /// Transaction id of the message to answer, or of the first message that this side sent.
    pub tid: u64,
    pub service_id: u64,
    /// The peer's communication id, 0 until known; of a SIDR request, its request id.
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
    /// Local ACK timeout, and the duration of Timewait: 4.096 µs · 2ⁿ.
    pub ack_timeout: u8,
    /// Timeout of one try of a message.
    pub timeout: Duration,
    pub max_cm_retries: u8,
    pub peer_to_peer: bool,
    /// Pending message, repeated until the peer answers it.
    pub ask: Option<Box<MadBytes>>,
    pub retry: Option<Retry>,
    /// Answer, sent again when the message that it answers is repeated.
    pub reply: Option<Box<MadBytes>>,
    /// Expiry of the timer.
    pub deadline: Option<Instant>,
}

impl Conn {
    /// Creates a connection of which only the peer's address is known.
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

    /// Returns the identity of the peer's queue pair, by which an old connection is found.
    pub fn remote_qp(&self) -> RemoteQp {
        (self.to.dgid, self.remote_ca_guid, self.remote_qpn)
    }

    /// Returns whether a datagram comes from the peer, on the primary or the alternate path.
    pub fn is_peer(&self, from: &GmpAddress) -> bool {
        let on_alternate = self.alternate_dgid == Some(from.dgid) && self.to.device == from.device;
        self.to.same_ends(from) || on_alternate
    }

    /// Returns the parameters for modifying the queue pair.
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
