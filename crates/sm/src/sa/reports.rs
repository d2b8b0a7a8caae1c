//! Reports in flight and queued.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use weft_wire::mad::notice::Notice;

/// Reports in flight and queued.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    /// Subscriptions of reports in flight, by the lower half of the transaction ID.
    pub under_way: FxHashMap<u32, u64>,
    /// Queued reports.
    pub waiting: VecDeque<(u64, Box<Notice>)>,
    pub last_tid: u32,
    /// Number of reports dropped because the queue was full.
    pub dropped: u64,
}
