//! The set watches each socket for bytes, unless its queue pair takes none for now or a poller reads it, and for room if TCP
//! had none.

use weft_sys::epoll::Interest;

use super::{Entry, Streams};

impl Streams {
    /// Stops, or goes on, watching for bytes of a stream.
    pub(super) fn set_paused(&mut self, at: usize, paused: bool) {
        let Some(stream) = self.stream(at) else { return };
        if std::mem::replace(&mut stream.paused, paused) != paused {
            self.paused = if paused { self.paused + 1 } else { self.paused - 1 };
            self.watch(at);
        }
    }

    /// Follows the state of a stream.
    pub(super) fn watch(&mut self, at: usize) {
        let is_unwatched = self.unwatched.place() == Some(at);
        let (Some(Entry::Stream(stream)), Some(parts)) = (self.table.get_mut(at), &self.parts) else { return };
        let interest = Interest { readable: !stream.paused && !is_unwatched, writable: stream.blocked };
        if stream.watched {
            let _ = parts.set.modify(&stream.socket, at as u64, interest);
        } else if !stream.paused {
            stream.watched = parts.set.add(&stream.socket, at as u64, interest).is_ok();
        }
    }

    /// Takes the socket of a paused stream out of the set: its connection is gone, which is found when it is read.
    pub(super) fn unwatch(&mut self, at: usize) {
        let (Some(Entry::Stream(stream)), Some(parts)) = (self.table.get_mut(at), &self.parts) else { return };
        let _ = parts.set.delete(&stream.socket);
        stream.watched = false;
    }

    /// Lets polling threads leave a stream unwatched, until [`Streams::watch_all`]: the background thread parks.
    pub fn allow_unwatched(&mut self) {
        self.unwatched.allow(true);
    }

    /// Watches every stream, because a thread sleeps or the background thread serves. Bytes that have come meanwhile wake that
    /// thread.
    #[inline]
    pub fn watch_all(&mut self) {
        self.unwatched.allow(false);
        if self.unwatched.place().is_some() {
            self.watch_again();
        }
    }

    /// Watches the stream that went unwatched, if any.
    #[cold]
    pub(super) fn watch_again(&mut self) {
        if let Some(at) = self.unwatched.replace(None) {
            self.watch(at);
        }
    }

    /// Stops watching the stream at a place if a polling thread has read enough from it.
    #[inline]
    pub(super) fn leave_to_pollers(&mut self, at: usize) {
        if self.unwatched.takes(at, self.preferred.arrivals_of(at)) {
            self.leave_unwatched(at);
        }
    }

    #[cold]
    fn leave_unwatched(&mut self, at: usize) {
        if let Some(last) = self.unwatched.replace(Some(at)) {
            self.watch(last);
        }
        self.watch(at);
    }
}
