//! Send turn: queue pairs that want to write get their turns, each as much as its socket has room for.

use weft_link::stream::Sent;
use weft_verbs::{Duration, Instant, QpId};

use super::{Entry, Streams};
use crate::adapter::Adapter;

/// Turns in one call; the rest goes in the next, after a check for arrivals.
const TURNS_MAX: usize = 16;
/// Time between two questions for the segment size of a connection, which changes with the path.
pub(super) const SEGMENT_INTERVAL: Duration = Duration::from_millis(10);

impl Streams {
    /// Sends what queue pairs want to write.
    pub fn transmit(&mut self, hca: &mut Adapter, now: Instant) {
        for _ in 0..TURNS_MAX {
            let Some(id) = hca.next_stream() else { return };
            if let Some(&at) = self.by_qp.get(&id) {
                self.transmit_on(at, id, hca, now);
            }
        }
    }

    fn transmit_on(&mut self, at: usize, id: QpId, hca: &mut Adapter, now: Instant) {
        let (Some(Entry::Stream(stream)), Some(parts)) = (self.table.get_mut(at), &mut self.parts) else { return };
        if stream.segment_at.is_some_and(|due| due <= now) {
            stream.segment_at = Some(now + SEGMENT_INTERVAL);
            if let Some(bytes) = stream.socket.segment() {
                let _ = hca.set_stream_segment(id, bytes);
            }
        }
        let Ok(Some(batch)) = hca.poll_stream(now, id, stream.socket.room()) else { return };
        let len = batch.len();
        let sent = if len == 0 { Sent::Took(0) } else { parts.buffers.send(&mut stream.socket, batch) };
        match sent {
            Sent::Took(taken) => {
                let _ = hca.stream_sent(now, id, taken);
                self.set_blocked(at, taken < len);
            }
            Sent::Reset(taken) => {
                stream.ended = true;
                let _ = hca.stream_sent(now, id, taken);
                let _ = hca.stream_closed(now, id, true);
            }
            // The end drops the batch: nothing may read the memory that is gone, not even to copy it.
            Sent::Unmapped => {
                let _ = hca.stream_closed(now, id, true);
            }
        }
    }

    /// Watches, or does not watch, for room in a stream's send buffer.
    pub(super) fn set_blocked(&mut self, at: usize, blocked: bool) {
        let Some(stream) = self.stream(at) else { return };
        if std::mem::replace(&mut stream.blocked, blocked) != blocked {
            self.blocked = if blocked { self.blocked + 1 } else { self.blocked - 1 };
            self.watch(at);
        }
    }
}
