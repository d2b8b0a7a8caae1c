//! Receive turn: bytes of the sockets that have some go to their places.

use weft_link::stream::Received;
use weft_transport::StreamOrder;
use weft_verbs::{Duration, Instant, VerbsError};

use super::{Entry, Streams};
use crate::adapter::Adapter;

/// Reads of one stream in one turn; the others get theirs before it goes on.
const READS_MAX: usize = 8;
/// Time between two looks at lingering sockets beside the only stream: nothing waits for them.
const LINGERING_INTERVAL: Duration = Duration::from_micros(200);

/// Arrivals of a receive turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// Reads that brought bytes, and ends of streams.
    pub reads: usize,
    /// Whether a WRITE of a peer ended.
    pub written: bool,
}

/// Rest of a stream after a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    More,
}

impl Streams {
    /// Receives from every stream that has bytes. `thorough`: and from lingering sockets at once.
    pub fn receive(&mut self, hca: &mut Adapter, now: Instant, thorough: bool) -> Arrivals {
        let mut came = Arrivals::default();
        self.lifelines_at = now;
        if thorough {
            self.watch_all();
        }
        if let Some(at) = self.only()
            && (self.lingering == 0 || !thorough && now.since(self.looked_at) < LINGERING_INTERVAL)
        {
            self.receive_from(at, hca, now, || now, &mut came);
            return came;
        }
        self.looked_at = now;
        let Some(parts) = &mut self.parts else { return came };
        let mut ready = std::mem::take(&mut parts.ready);
        if parts.set.wait(&mut ready, Some(Duration::ZERO)).is_err() {
            ready.clear();
        }
        for event in &ready {
            let at = event.token as usize;
            match self.table.get(at) {
                Some(Entry::Stream(stream)) => {
                    let (id, paused) = (stream.qp, stream.paused);
                    if event.writable && stream.blocked {
                        self.set_blocked(at, false);
                        let _ = hca.unblock_stream(now, id);
                    }
                    if paused {
                        if event.hung_up {
                            self.unwatch(at);
                        }
                    } else if event.readable || event.hung_up {
                        self.receive_from(at, hca, now, || now, &mut came);
                    }
                }
                Some(Entry::Lingering(_)) => self.discard(at),
                Some(Entry::Free) | None => {}
            }
        }
        if let Some(parts) = &mut self.parts {
            parts.ready = ready;
        }
        if let Some(at) = self.unwatched.place()
            && self.stream(at).is_some_and(|stream| !stream.paused)
        {
            self.receive_from(at, hca, now, || now, &mut came);
        }
        came
    }

    /// Receives from the preferred stream alone; `None` if there is none. `last` is a recent time, and `now` reads the clock
    /// if bytes come.
    pub fn receive_directly(
        &mut self,
        hca: &mut Adapter,
        last: Instant,
        now: impl Fn() -> Instant + Copy,
    ) -> Option<Arrivals> {
        let at = self.preferred()?;
        let mut came = Arrivals::default();
        self.receive_from(at, hca, last, now, &mut came);
        if came.reads > 0 {
            self.leave_to_pollers(at);
        }
        Some(came)
    }

    /// Returns the place of the only stream, if its socket is all there is to look at.
    fn only(&self) -> Option<usize> {
        if self.by_qp.len() == 1 && self.is_plain() { self.by_qp.values().next().copied() } else { None }
    }

    /// Returns the place of the stream to read directly.
    fn preferred(&self) -> Option<usize> {
        if self.is_plain() { self.only().or(self.preferred.place()) } else { None }
    }

    /// Whether no socket waits for room or must not be read.
    fn is_plain(&self) -> bool {
        self.blocked == 0 && self.paused == 0
    }

    /// Receives from one stream.
    fn receive_from(
        &mut self,
        at: usize,
        hca: &mut Adapter,
        last: Instant,
        now: impl Fn() -> Instant + Copy,
        came: &mut Arrivals,
    ) {
        for _ in 0..READS_MAX {
            if self.read(at, hca, last, now, came) != Ok(Left::More) {
                return;
            }
        }
    }

    /// Makes one read. An error says that the queue pair is gone.
    fn read(
        &mut self,
        at: usize,
        hca: &mut Adapter,
        last: Instant,
        now: impl Fn() -> Instant,
        came: &mut Arrivals,
    ) -> Result<Left, VerbsError> {
        let (Some(Entry::Stream(stream)), Some(parts)) = (self.table.get_mut(at), &mut self.parts) else {
            return Ok(Left::Nothing);
        };
        let id = stream.qp;
        let places = hca.stream_places(last, id)?;
        let received = parts.buffers.receive(&mut stream.socket, places.ranges());
        if received == Received::Nothing {
            return Ok(Left::Nothing);
        }
        let now = now();
        came.reads += 1;
        self.preferred.on_arrival(at);
        if let Received::Bytes { direct, staged, more } = received {
            came.written |= hca.handle_stream(now, id, direct, parts.buffers.staged(staged))?;
            let is_over = matches!(hca.stream_order(id)?, StreamOrder::Close | StreamOrder::Pause);
            return Ok(if more && !is_over { Left::More } else { Left::Nothing });
        }
        stream.ended = received != Received::Unmapped;
        hca.stream_closed(now, id, received != Received::End)?;
        Ok(Left::Nothing)
    }
}
