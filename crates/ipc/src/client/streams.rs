//! Streams of iWARP queue pairs.

use std::os::fd::OwnedFd;

use weft_sys::unix::{self, Wait};

use super::Client;
use crate::codec::encode;
use crate::{ClientFrame, Event, Request};

impl Client {
    /// Returns the socket of the next stream that [`Event::StreamOpened`] announced: call it once for each such event, in
    /// their order.
    pub fn take_stream(&mut self) -> Option<OwnedFd> {
        self.streams.pop_front()
    }

    /// Reports the end of a queue pair's stream. Waits for no answer.
    pub fn stream_ended(&mut self, qp_num: u32) {
        let frame = ClientFrame { id: 0, request: Request::StreamEnded { qp_num } };
        if let Ok(bytes) = encode(&frame) {
            let _ = unix::send(&self.fd, &bytes, &[], Wait::Block);
        }
    }

    /// Queues an event, and keeps the socket that came with it.
    pub(super) fn enqueue_with(&mut self, event: Event, fds: Vec<OwnedFd>) {
        let is_stream = matches!(event, Event::StreamOpened(_));
        match (is_stream, fds.into_iter().next()) {
            (true, None) => {}
            (true, Some(fd)) => {
                self.enqueue(event);
                self.streams.push_back(fd);
            }
            (false, _) => self.enqueue(event),
        }
    }
}
