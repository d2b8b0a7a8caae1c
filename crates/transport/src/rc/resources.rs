//! Responder resources (IBA 9.4.4, 9.7.5.1.1): record of READs and atomics, so that a repeated request gets the same
//! answer. A READ reads memory again; an atomic returns the recorded value.

use std::collections::VecDeque;

use crate::execute::Answered;

/// One recorded request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    /// First PSN.
    pub first: u64,
    /// PSN after its last.
    pub end: u64,
    /// MSN of the answer.
    pub msn: u32,
    pub what: Answered,
}

/// The last max_dest_rd_atomic requests.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    ring: VecDeque<Resource>,
}

impl Resources {
    /// Records a request, and drops the oldest beyond `depth`.
    pub fn push(&mut self, resource: Resource, depth: usize) {
        while self.ring.len() >= depth.max(1) {
            self.ring.pop_front();
        }
        self.ring.push_back(resource);
    }

    /// Returns the request that `psn` belongs to.
    pub fn find(&self, psn: u64) -> Option<Resource> {
        self.ring.iter().rev().find(|r| r.first <= psn && psn < r.end).copied()
    }

    pub fn clear(&mut self) {
        self.ring.clear();
    }
}
