//! DDP-eligible data of a call (RFC 8166 §3.4.2): the items that the binding of an upper layer lets chunks carry.

use std::ops::Range;

/// Eligible parts of a call and of its reply. The default has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EligibleData {
    /// Eligible arguments: ranges of the call's message, without padding, in order.
    pub arguments: Vec<Range<usize>>,
    /// Eligible results, in order: the most bytes that each can have.
    pub results: Vec<u32>,
    /// Longest reply without the data of these results, in bytes. `None`: only the server knows.
    pub reply_max: Option<usize>,
}
