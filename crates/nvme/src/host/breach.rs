//! Breaches of the protocol by a target.

/// Breach of the protocol by the target. The controller ends for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Breach {
    /// A response is shorter than a completion.
    #[error("it sent a response that is shorter than a completion")]
    Short,
    /// A completion of no command in progress.
    #[error("it completed command {0:#06x}, which is not in progress")]
    UnknownCommand(u16),
    /// A completion of a command that has not been sent.
    #[error("it completed command {0:#06x}, which was not sent yet")]
    NotSent(u16),
    /// It invalidated a key that the command did not lend.
    #[error("it invalidated key {0:#010x}, which the command did not lend")]
    WrongKey(u32),
    /// A structure contradicts itself or the specification.
    #[error("{0}")]
    Page(&'static str),
}
