//! Reports of injected failures, for the trace and the log.

use weft_verbs::{Instant, Qpn};

/// A report that a failure was injected, or why it was not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InjectedFailure {
    /// When.
    pub at: Instant,
    /// Number of the failure, as given to [`Hca::inject`](crate::Hca::inject).
    pub number: u32,
    /// The queue pair that it struck, if it was one.
    pub qpn: Option<Qpn>,
    /// Whether it struck. If not, the text says why it has no effect.
    pub struck: bool,
    /// The effect, and the specification that asked for it.
    pub text: String,
}
