//! Sockets that outlive their queue pair. TCP answers a close with a reset if bytes of the peer wait unread, or come later,
//! and the peer then loses bytes that are still on their way to it: those of requests that have completed. So the socket
//! is shut down, and read until the peer ends its direction, too, or for a while.

use weft_link::stream::Received;
use weft_verbs::{Duration, Instant};

use super::{Entry, Lingering, Stream, Streams};

/// Time that the peer has for its end.
const LINGER: Duration = Duration::from_secs(2);
/// Sockets that linger; the others are closed at once.
const LINGERING_MAX: usize = 256;
/// Reads of one socket in one turn.
const READS_MAX: usize = 4;

impl Streams {
    /// Ends a stream whose queue pair is gone.
    pub(super) fn linger(&mut self, at: usize, now: Instant) {
        let Some(entry) = self.table.get_mut(at) else { return };
        match std::mem::replace(entry, Entry::Free) {
            Entry::Stream(Stream { socket, shut_down, .. }) => {
                if shut_down.is_none() {
                    socket.shut_down();
                }
                let until = shut_down.unwrap_or(now) + LINGER;
                *entry = Entry::Lingering(Lingering { socket, until });
                if until <= now || self.lingering >= LINGERING_MAX {
                    return self.close(at);
                }
                self.lingering += 1;
                self.linger_end = self.linger_end.into_iter().chain([until]).min();
            }
            other => *entry = other,
        }
    }

    /// Reads what the peer still sends, until its end.
    pub(super) fn discard(&mut self, at: usize) {
        let (Some(Entry::Lingering(lingering)), Some(parts)) = (self.table.get_mut(at), &mut self.parts) else {
            return;
        };
        for _ in 0..READS_MAX {
            match parts.buffers.discard(&mut lingering.socket) {
                Received::Bytes { more: true, .. } => {}
                Received::Bytes { .. } | Received::Nothing => return,
                Received::End | Received::Reset | Received::Unmapped => {
                    self.lingering -= 1;
                    return self.close(at);
                }
            }
        }
    }

    /// Returns when to call [`Streams::handle_timeout`]. Too early only if the peer of a lingering socket has ended it.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.linger_end.filter(|_| self.lingering != 0)
    }

    /// Closes the sockets that have lingered long enough.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.linger_end = None;
        for at in 0..self.table.len() {
            let Entry::Lingering(Lingering { until, .. }) = self.table[at] else { continue };
            if until <= now {
                self.lingering -= 1;
                self.close(at);
            } else {
                self.linger_end = self.linger_end.into_iter().chain([until]).min();
            }
        }
    }
}
