//! Acknowledgements delayed until the next turn.

use weft_verbs::{Instant, QpId};

/// Queue pairs that owe their peers an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct OwedAcks {
    pub(crate) of: Vec<QpId>,
    /// Deadline for sending them.
    pub(crate) until: Option<Instant>,
}
