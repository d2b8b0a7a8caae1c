//! The commands.

use weft_mad::GmpAddress;
use weft_verbs::Instant;
use weft_wire::cm::{ApStatus, RejectReason};

use super::cm::Cm;
use super::comm_id::ConnId;
use super::error::CmError;
use super::param::{ListenId, QpParams, RepParams, ReqParams, SidrRepParams, SidrReqParams};
use super::path::Path;
use super::state::State;

type Done = Result<(), CmError>;

#[allow(unused_variables)]
impl Cm {
    /// Listens for requests whose service id is `service_id` in the bits of `mask` (all ones: exactly that one), on
    /// every device. Whoever wants the same service once more gets the same listener, and must give it up as often; a
    /// service that another listener's mask covers is refused.
    pub fn listen(&mut self, service_id: u64, mask: u64) -> Result<ListenId, CmError> {
        Err(CmError::InUse(service_id))
    }

    /// Gives a listener up. Requests that came to it stay.
    pub fn unlisten(&mut self, listen: ListenId) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Asks for a connection (`ib_send_cm_req`).
    pub fn send_req(&mut self, now: Instant, params: &ReqParams) -> Result<ConnId, CmError> {
        Err(CmError::NoSuchConnection)
    }

    /// Answers a request (`ib_send_cm_rep`). It is repeated until the peer is ready.
    pub fn send_rep(&mut self, now: Instant, conn: ConnId, params: &RepParams) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Is ready to use the connection (`ib_send_cm_rtu`): it stands. Private data, 224 bytes at most.
    pub fn send_rtu(&mut self, now: Instant, conn: ConnId, private_data: &[u8]) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Rejects a request, an answer, or the connection at any time before it stands (`ib_send_cm_rej`). 72 bytes of
    /// additional information and 148 of private data at most.
    pub fn send_rej(
        &mut self,
        now: Instant,
        conn: ConnId,
        reason: RejectReason,
        ari: &[u8],
        private_data: &[u8],
    ) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Asks the peer for patience, 4.096 µs · 2^`service_timeout` (`ib_send_cm_mra`). With `delay` it is only sent when
    /// the peer repeats itself (`IB_CM_MRA_FLAG_DELAY`). Private data, 222 bytes at most.
    pub fn send_mra(
        &mut self,
        now: Instant,
        conn: ConnId,
        service_timeout: u8,
        delay: bool,
        private_data: &[u8],
    ) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Ends a connection that stands (`ib_send_cm_dreq`). Private data, 220 bytes at most.
    pub fn send_dreq(&mut self, now: Instant, conn: ConnId, private_data: &[u8]) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Agrees that the connection ends (`ib_send_cm_drep`). Private data, 224 bytes at most.
    pub fn send_drep(&mut self, now: Instant, conn: ConnId, private_data: &[u8]) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Proposes another alternate path (`ib_send_cm_lap`). Private data, 168 bytes at most.
    pub fn send_lap(&mut self, now: Instant, conn: ConnId, alternate: &Path, private_data: &[u8]) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Answers a proposal of another alternate path (`ib_send_cm_apr`). 72 bytes of additional information and 148 of
    /// private data at most.
    pub fn send_apr(&mut self, now: Instant, conn: ConnId, status: ApStatus, info: &[u8], private_data: &[u8]) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Asks for the datagram queue pair behind a service (`ib_send_cm_sidr_req`).
    pub fn send_sidr_req(&mut self, now: Instant, params: &SidrReqParams) -> Result<ConnId, CmError> {
        Err(CmError::NoSuchConnection)
    }

    /// Answers a request for a service (`ib_send_cm_sidr_rep`). The connection that stood for the request is gone then.
    pub fn send_sidr_rep(&mut self, now: Instant, conn: ConnId, params: &SidrRepParams) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// The queue pair has seen the peer's first packet although no RTU came: the connection stands (`ib_cm_notify` with
    /// `IB_EVENT_COMM_EST`). The event [`super::EventKind::UserEstablished`] follows.
    pub fn establish(&mut self, now: Instant, conn: ConnId) -> Done {
        Err(CmError::NoSuchConnection)
    }

    /// Forgets a connection, whatever its state (`ib_destroy_cm_id`); the peer is told as the state demands, by REJ or by
    /// DREQ, which is repeated for a while without the owner. No event comes for it any more. Destroying what is gone
    /// is nothing.
    pub fn destroy(&mut self, now: Instant, conn: ConnId) {}

    /// State of a connection.
    pub fn state(&self, conn: ConnId) -> Option<State> {
        None
    }

    /// What the queue pair of a connection is to be modified with (`ib_cm_init_qp_attr`).
    pub fn qp_params(&self, conn: ConnId) -> Option<QpParams> {
        None
    }

    /// Where the peer of a connection is.
    pub fn address(&self, conn: ConnId) -> Option<GmpAddress> {
        None
    }
}
