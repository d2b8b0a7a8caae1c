//! Configuration of a requester.

use crate::wire::PrivateData;

/// Configuration of a requester.
#[derive(Clone, Copy, Debug)]
pub struct RequesterConfig {
    /// Private data that this end announced.
    pub local: PrivateData,
    /// Private data that the peer announced.
    pub peer: PrivateData,
    /// Calls that may be unanswered at a time: the receives that are posted for their replies.
    pub credits: u32,
    /// Longest reply, without eligible results, of a call whose reply has no known bound; in bytes.
    pub reply_max_bytes: usize,
}
