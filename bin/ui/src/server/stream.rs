//! A page's stream of events as the body of an answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::limits::KEEP_ALIVE;

/// The body.
#[derive(Debug)]
pub struct EventBody {
    events: Receiver<Bytes>,
    keep_alive: Interval,
}

impl EventBody {
    /// Makes the body of these events.
    pub fn new(events: Receiver<Bytes>) -> EventBody {
        let mut keep_alive = interval(KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        EventBody { events, keep_alive }
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Poll::Ready(event) = self.events.poll_recv(context) {
            return Poll::Ready(event.map(|bytes| Ok(Frame::data(bytes))));
        }
        match self.keep_alive.poll_tick(context) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": still here\n\n"))))),
            Poll::Pending => Poll::Pending,
        }
    }
}
