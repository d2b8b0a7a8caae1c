//! Reasons not to send a call.

use super::registration::RegistrationFailed;

/// Reason why a call cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// All credits are in use: try again after the next reply.
    #[error("no credit for a call")]
    NoCredit,
    /// The call does not fit into any form.
    #[error("the call is too long")]
    TooLong,
    /// The message is not an RPC call, or its transaction is in use.
    #[error("not an RPC call with a new xid")]
    Message,
    /// Memory cannot be registered.
    #[error(transparent)]
    Registration(#[from] RegistrationFailed),
}
