//! Responder resources (IBA 9.4.4, 9.7.5.1.1): what is remembered of READs and atomics so that a request sent again
//! gets the same answer. A READ is read again from memory; an atomic is answered with the value it found.

use std::collections::VecDeque;

use weft_verbs::PdId;

/// What a request asked for, or what it found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    /// READ of a range.
    Read {
        /// Domain that the key is checked against.
        pd: PdId,
        /// R_Key.
        rkey: u32,
        /// First byte.
        va: u64,
        /// Bytes.
        len: u64,
    },
    /// The value before an atomic.
    Atomic(u64),
    /// FLUSH or ATOMIC WRITE: done, nothing to say.
    Done,
}

/// One remembered request.
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
    /// Remember a request; the oldest beyond `depth` is forgotten.
    pub fn push(&mut self, resource: Resource, depth: usize) {
        while self.ring.len() >= depth.max(1) {
            self.ring.pop_front();
        }
        self.ring.push_back(resource);
    }

    /// The request that `psn` belongs to.
    pub fn find(&self, psn: u64) -> Option<Resource> {
        self.ring.iter().rev().find(|r| r.first <= psn && psn < r.end).copied()
    }

    pub fn clear(&mut self) {
        self.ring.clear();
    }
}
