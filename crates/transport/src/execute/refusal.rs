//! Reasons why a request is not executed.

use weft_verbs::WcStatus;
use weft_wire::NakCode;

/// Reason why a request is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// There is no receive: the peer may retry.
    NotReady,
    /// This process cannot read the memory that a frame names: the peer must send the bytes.
    CannotFetch,
    /// The connection ends.
    Fatal {
        /// The NAK code for the peer.
        code: NakCode,
        /// Completion status of the receive in use, if there is one.
        recv: Option<WcStatus>,
    },
}

/// The request is invalid.
pub(super) const INVALID: Refusal = Refusal::Fatal { code: NakCode::INVALID_REQUEST, recv: None };
/// The key, the range or the right is wrong.
pub(super) const NO_ACCESS: Refusal = Refusal::Fatal { code: NakCode::REMOTE_ACCESS, recv: None };

impl From<NakCode> for Refusal {
    fn from(code: NakCode) -> Refusal {
        Refusal::Fatal { code, recv: None }
    }
}

/// A receive whose status was injected: the peer hears what a receive with this error tells it.
pub(super) fn injected(status: WcStatus) -> Refusal {
    let code = match status {
        WcStatus::LocLenErr | WcStatus::RemInvReqErr => NakCode::INVALID_REQUEST,
        WcStatus::LocAccessErr => NakCode::REMOTE_ACCESS,
        _ => NakCode::REMOTE_OPERATIONAL,
    };
    Refusal::Fatal { code, recv: Some(status) }
}

/// A fault of the local receive.
pub(super) fn local_fault(status: WcStatus) -> Refusal {
    Refusal::Fatal { code: NakCode::REMOTE_OPERATIONAL, recv: Some(status) }
}
