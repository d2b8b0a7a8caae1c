//! Answers to the peer's requests, while they wait and while they are sent.

use weft_wire::NakCode;
use weft_wire::iwarp::{ReadRequest, Terminate};

/// An answer that waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// To a READ: its bytes are read when they are sent.
    Read { msn: u32, request: ReadRequest },
    /// To an atomic: the value before it.
    Value { id: u32, value: u64 },
    /// None: the request is refused, and ends the stream behind the answers to those before it.
    Refused { terminate: Terminate, code: NakCode },
}

/// An answer that is being cut into segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerInProgress {
    pub answer: Answer,
    /// Bytes that are written.
    pub offset: u32,
}
