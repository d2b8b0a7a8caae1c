//! Orders of queue pairs for their sockets: to pause, to shut down one direction, or to close.

use weft_transport::StreamOrder;
use weft_verbs::{Instant, QpId};

use super::{Entry, Streams};
use crate::adapter::Adapter;

impl Streams {
    /// Follows the orders that have changed.
    #[cold]
    pub fn follow_orders(&mut self, hca: &mut Adapter, now: Instant) {
        while let Some(id) = hca.next_stream_change() {
            match hca.stream_order(id) {
                Ok(StreamOrder::Continue) => self.pause(id, false),
                Ok(StreamOrder::Pause) => self.pause(id, true),
                Ok(StreamOrder::ShutDown) => self.shut_down(id, now),
                // A destroyed queue pair has no order.
                Ok(StreamOrder::Close) | Err(_) => self.detach(id, now),
            }
        }
    }

    fn pause(&mut self, id: QpId, paused: bool) {
        if let Some(&at) = self.by_qp.get(&id) {
            self.set_paused(at, paused);
        }
    }

    fn shut_down(&mut self, id: QpId, now: Instant) {
        let Some(&at) = self.by_qp.get(&id) else { return };
        self.set_paused(at, false);
        let Some(stream) = self.stream(at) else { return };
        if stream.shut_down.is_none() {
            stream.socket.shut_down();
            stream.shut_down = Some(now);
        }
        self.set_blocked(at, false);
    }

    /// Takes the stream from a queue pair that has one, and reports its end.
    pub(super) fn detach(&mut self, id: QpId, now: Instant) {
        let Some(at) = self.by_qp.remove(&id) else { return };
        self.watch_again();
        self.set_blocked(at, false);
        self.set_paused(at, false);
        let Some(Entry::Stream(stream)) = self.table.get(at) else { return };
        self.ended.push(stream.qpn);
        self.lifelines -= usize::from(stream.lifeline);
        if stream.lifeline {
            // No bytes are on their way. The daemon may hold a duplicate for a while, so a close might not end it.
            stream.socket.shut_down();
        }
        if stream.ended || stream.lifeline {
            self.close(at);
        } else {
            self.linger(at, now);
        }
    }
}
