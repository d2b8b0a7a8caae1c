//! A call that waits for its reply: the chunks that it offered, and the keys that are valid until then.

use super::registration::Registration;
use crate::fault::PeerFault;
use crate::wire::{Chunk, ChunkLists};

/// State of an unanswered call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PendingState {
    /// The caller waits for the reply.
    Waiting,
    /// The caller gave up. The responder may still answer, so the credit stays in use.
    Abandoned,
}

/// Unanswered call.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) state: PendingState,
    offered: ChunkLists,
    /// Keys that are valid.
    keys: Vec<u32>,
}

impl PendingCall {
    pub(super) fn new(offered: ChunkLists) -> PendingCall {
        let keys = offered.segments().map(|segment| segment.handle).collect();
        PendingCall { state: PendingState::Waiting, offered, keys }
    }

    /// Makes all keys invalid.
    pub(super) fn invalidate(&mut self, memory: &mut impl Registration) {
        self.keys.drain(..).for_each(|key| memory.invalidate(key));
    }

    /// Notes that the peer's SEND invalidated a key. Returns whether this call offered it.
    pub(super) fn forget_key(&mut self, key: u32) -> bool {
        let at = self.keys.iter().position(|offered| *offered == key);
        at.map(|at| self.keys.swap_remove(at)).is_some()
    }

    /// Checks the chunks that a reply returns. Returns the bytes written to each write chunk and to the reply chunk.
    pub(super) fn written(&self, returned: &ChunkLists) -> Result<(Vec<usize>, usize), PeerFault> {
        if !returned.reads.is_empty() || returned.writes.len() > self.offered.writes.len() {
            return Err(PeerFault::Chunks);
        }
        let mut written = vec![0; self.offered.writes.len()];
        for ((written, offered), returned) in written.iter_mut().zip(&self.offered.writes).zip(&returned.writes) {
            *written = bytes_written(offered, returned)?;
        }
        let reply = match (&self.offered.reply, &returned.reply) {
            (_, None) => 0,
            (Some(offered), Some(returned)) => bytes_written(offered, returned)?,
            (None, Some(_)) => return Err(PeerFault::Chunks),
        };
        Ok((written, reply))
    }
}

/// Returns the bytes written to a chunk. The responder returns the segments that it was offered, filled one after the
/// other (RFC 8166 §3.4.6).
fn bytes_written(offered: &Chunk, returned: &Chunk) -> Result<usize, PeerFault> {
    let mut is_full = true;
    let mut bytes = 0;
    if returned.segments.len() > offered.segments.len() {
        return Err(PeerFault::Chunks);
    }
    for (offered, returned) in offered.segments.iter().zip(&returned.segments) {
        let is_same = (offered.handle, offered.offset) == (returned.handle, returned.offset);
        let fits = returned.length <= offered.length && (is_full || returned.length == 0);
        if !is_same || !fits {
            return Err(PeerFault::Chunks);
        }
        is_full = returned.length == offered.length;
        bytes += returned.length as usize;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Segment;

    fn chunk(lengths: &[u32]) -> Chunk {
        let segment = |(at, length): (usize, &u32)| Segment { handle: at as u32, length: *length, offset: 8 };
        Chunk { segments: lengths.iter().enumerate().map(segment).collect() }
    }

    #[test]
    fn segments_are_filled_in_order_and_never_beyond_their_lengths() {
        let offered = chunk(&[10, 20, 30]);
        let written = |lengths: &[u32]| bytes_written(&offered, &chunk(lengths)).ok();
        assert_eq!(written(&[10, 5, 0]), Some(15));
        assert_eq!((written(&[]), written(&[10, 20, 30])), (Some(0), Some(60)));
        assert_eq!((written(&[11, 0, 0]), written(&[9, 1, 0]), written(&[10, 20, 30, 0])), (None, None, None));
        let mut moved = chunk(&[10]);
        moved.segments[0].offset += 1;
        assert_eq!(bytes_written(&offered, &moved), Err(PeerFault::Chunks));
    }
}
