//! Receive turn: bytes of the sockets that have some go to their places.

use weft_link::stream::Received;
use weft_transport::StreamOrder;
use weft_verbs::{Duration, Instant};

use super::{Entry, Streams};
use crate::adapter::Adapter;

/// Reads of one stream in one turn; the others get theirs before it goes on.
const READS_MAX: usize = 8;

impl Streams {
    /// Receives from every stream that has bytes. Returns the number of reads that brought some, and of ends.
    pub fn receive(&mut self, hca: &mut Adapter, now: Instant) -> usize {
        if let Some(at) = self.only() {
            // Its socket is read at once: to ask whether it is readable costs as much.
            return self.receive_from(at, hca, now);
        }
        let Some(parts) = &mut self.parts else { return 0 };
        let mut ready = std::mem::take(&mut parts.ready);
        if parts.set.wait(&mut ready, Some(Duration::ZERO)).is_err() {
            ready.clear();
        }
        let mut came = 0;
        for event in &ready {
            let at = event.token as usize;
            match self.table.get(at) {
                Some(Entry::Stream(stream)) => {
                    if event.writable && stream.blocked {
                        let id = stream.qp;
                        self.set_blocked(at, false);
                        let _ = hca.unblock_stream(now, id);
                    }
                    if event.readable || event.hung_up {
                        came += self.receive_from(at, hca, now);
                    }
                }
                Some(Entry::Lingering(_)) => self.discard(at),
                Some(Entry::Free) | None => {}
            }
        }
        if let Some(parts) = &mut self.parts {
            parts.ready = ready;
        }
        came
    }

    /// Returns the only socket, if reading it is all there is to do.
    fn only(&self) -> Option<usize> {
        let is_only = self.by_qp.len() == 1 && self.blocked == 0 && self.lingering == 0;
        if is_only { self.by_qp.values().next().copied() } else { None }
    }

    /// Receives from one stream.
    fn receive_from(&mut self, at: usize, hca: &mut Adapter, now: Instant) -> usize {
        let mut came = 0;
        for _ in 0..READS_MAX {
            let (Some(Entry::Stream(stream)), Some(parts)) = (self.table.get_mut(at), &mut self.parts) else { break };
            let id = stream.qp;
            let Ok(places) = hca.stream_places(now, id) else { break };
            let handled = match parts.buffers.receive(&mut stream.socket, places.ranges()) {
                Received::Nothing => break,
                Received::Bytes { direct, staged, more } => {
                    let handled = hca.handle_stream(now, id, direct, parts.buffers.staged(staged));
                    handled.map(|()| more)
                }
                Received::End => {
                    stream.ended = true;
                    hca.stream_closed(now, id, false).map(|()| false)
                }
                Received::Reset => {
                    stream.ended = true;
                    hca.stream_closed(now, id, true).map(|()| false)
                }
                Received::Unmapped => hca.stream_closed(now, id, true).map(|()| false),
            };
            came += 1;
            if handled != Ok(true) || matches!(hca.stream_order(id), Ok(StreamOrder::Close) | Err(_)) {
                break;
            }
        }
        came
    }
}
