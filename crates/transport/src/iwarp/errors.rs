//! Errors in their three languages: faults of an access, TERMINATE's codes, and a queue pair's events and completions.

use weft_verbs::WcStatus;
use weft_wire::NakCode;
use weft_wire::iwarp::{TermError, Terminate, TerminateOrder};

use crate::RemoteFault;
use crate::execute::Refusal;

/// TERMINATE of the peer, and the order of its bits.
pub(super) type ReceivedTerminate = (Terminate, TerminateOrder);

/// A refused segment: the error for the peer, the class of event for this side, and the status of the receive in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    pub error: TermError,
    pub code: NakCode,
    pub recv: Option<WcStatus>,
}

impl Refused {
    /// An access that the peer may not make.
    pub fn access(error: TermError) -> Refused {
        Refused { error, code: NakCode::REMOTE_ACCESS, recv: None }
    }

    /// A segment that breaks the protocol.
    pub const fn protocol(error: TermError) -> Refused {
        Refused { error, code: NakCode::INVALID_REQUEST, recv: None }
    }

    /// A fault of this side's receive.
    pub fn receive(error: TermError, status: WcStatus) -> Refused {
        Refused { error, code: NakCode::REMOTE_OPERATIONAL, recv: Some(status) }
    }

    /// A message that the executor refused.
    pub fn message(refusal: Refusal) -> Refused {
        match refusal {
            Refusal::NotReady | Refusal::CannotFetch => Refused::protocol(TermError::UNTAGGED_NO_BUFFER),
            Refusal::Fatal { code, recv: recv @ Some(WcStatus::RemInvReqErr) } => {
                Refused { error: TermError::CANNOT_INVALIDATE, code, recv }
            }
            Refusal::Fatal { code, recv: recv @ Some(WcStatus::LocLenErr) } => {
                Refused { error: TermError::UNTAGGED_TOO_LONG, code, recv }
            }
            Refusal::Fatal { code, recv } => Refused { error: TermError::DDP_CATASTROPHE, code, recv },
        }
    }
}

/// Returns the error of DDP for an access to a tagged buffer. DDP has no code for a missing right (as siw).
pub(super) fn tagged(fault: RemoteFault) -> TermError {
    match fault {
        RemoteFault::BadKey | RemoteFault::NoRight => TermError::TAGGED_STAG,
        RemoteFault::OutOfBounds => TermError::TAGGED_BOUNDS,
        RemoteFault::WrongDomain => TermError::TAGGED_NOT_ASSOCIATED,
    }
}

/// Returns the error of RDMAP for the source of a Read Request, or the target of an Atomic Request.
pub(super) fn source(fault: RemoteFault) -> TermError {
    match fault {
        RemoteFault::BadKey => TermError::READ_STAG,
        RemoteFault::OutOfBounds => TermError::READ_BOUNDS,
        RemoteFault::WrongDomain => TermError::READ_NOT_ASSOCIATED,
        RemoteFault::NoRight => TermError::READ_ACCESS,
    }
}

/// Returns the status of the request that a peer's TERMINATE is about.
pub(super) fn status(terminate: &Terminate) -> WcStatus {
    match terminate.error {
        error if error.is_protection() => WcStatus::RemAccessErr,
        TermError { layer: 0, etype: 2, .. } | TermError { layer: 1, etype: 2, .. } => WcStatus::RemInvReqErr,
        _ => WcStatus::RemOpErr,
    }
}
