//! The loop's part for captures of the fabric's packets.

use std::time::Instant;

use weft_sys::epoll::Interest;

use super::{Server, tokens};
use crate::slots::ClientId;

impl Server {
    /// Hands captured packets to their readers, and watches the sockets that are full.
    pub(super) fn perform_for_captures(&mut self, now: Instant) {
        self.broker.carry_captured(now, &mut self.host);
        self.watch_captures();
    }

    /// Handles a full socket that may have room again, or whose reader left.
    pub(super) fn on_capture(&mut self, client: ClientId) {
        self.host.captures.flush(client);
        self.watch_captures();
    }

    fn watch_captures(&mut self) {
        for (client, socket, full) in self.host.captures.take_watch_changes() {
            // A socket that cannot be watched is written to again with the next packet.
            let _ = match full {
                true => self.epoll.add(socket, tokens::CAPTURES | client, Interest { readable: false, writable: true }),
                false => self.epoll.delete(socket),
            };
        }
    }
}
