//! Operations that the owner of the queue pair posts.

use std::ops::Range;

use crate::wire::{Segment, xdr::pad_len};

/// RDMA READ from the requester's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteRead {
    /// The memory, and the number of bytes.
    pub source: Segment,
    /// Offset in the call's message where the bytes go.
    pub at: usize,
}

/// RDMA WRITE to the requester's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteWrite {
    /// The memory, and the number of bytes.
    pub target: Segment,
    /// The bytes: a range of the reply's message.
    pub source: Range<usize>,
}

/// SEND: the header, and the parts of an RPC message that follow it inline.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SendPlan {
    /// Transport header.
    pub header: Vec<u8>,
    /// Ranges of the RPC message.
    pub body: Vec<Range<usize>>,
    /// Key that the SEND invalidates at its receiver.
    pub invalidate: Option<u32>,
}

impl SendPlan {
    /// Returns the bytes of the SEND, for owners without gather lists.
    pub fn to_bytes(&self, message: &[u8]) -> Vec<u8> {
        let body = self.body.iter().filter_map(|range| message.get(range.clone()));
        [&self.header[..]].into_iter().chain(body).flatten().copied().collect()
    }
}

/// Whether the ranges follow each other in a message of `len` bytes, each at an offset where an XDR item can be.
pub(crate) fn are_items(items: &[Range<usize>], len: usize) -> bool {
    let mut end = 0;
    items.iter().all(|item| {
        let fits = item.start >= end && item.start.is_multiple_of(4) && item.start <= item.end && item.end <= len;
        end = item.end;
        fits
    })
}

/// Returns the ranges of a message without `items` and their padding (RFC 8166 §3.4.1).
pub(crate) fn without(items: &[Range<usize>], len: usize) -> Vec<Range<usize>> {
    let mut rest = Vec::with_capacity(items.len() + 1);
    let mut at = 0;
    for item in items {
        rest.push(at..item.start);
        at = (item.end + pad_len(item.len())).min(len);
    }
    rest.push(at..len);
    rest.retain(|range| !range.is_empty());
    rest
}

/// Returns the bytes in ranges.
pub(crate) fn bytes_in(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(|range| range.len()).sum()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    #[test]
    fn a_reduced_message_lacks_items_and_their_padding() {
        assert_eq!(without(&[4..9, 12..16], 20), [0..4, 16..20]);
        assert_eq!(without(&[0..3], 4), []);
        // The last item's padding may be missing.
        assert_eq!(without(&[4..9], 9), [0..4]);
        assert_eq!(bytes_in(&without(&[], 7)), 7);
    }

    #[test]
    fn items_are_ascending_aligned_and_inside() {
        assert!(are_items(&[4..9, 12..12], 12) && are_items(&[], 0));
        for (items, len) in [(vec![5..9], 9), (vec![4..9], 8), (vec![4..9, 8..9], 9)] {
            assert!(!are_items(&items, len), "{items:?}");
        }
    }
}
