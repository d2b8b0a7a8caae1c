//! Outcome of a procedure.

use crate::protocol::status::Status;

/// Failure of a procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The reply has this status.
    Status(Status),
    /// The arguments are malformed.
    Arguments,
}

impl<E: Into<Status>> From<E> for Failure {
    fn from(status: E) -> Failure {
        Failure::Status(status.into())
    }
}

/// Requires an argument.
pub fn argument<T>(value: Option<T>) -> Result<T, Failure> {
    value.ok_or(Failure::Arguments)
}

/// Result of a procedure, whose results are written.
pub type Outcome = Result<(), Failure>;
