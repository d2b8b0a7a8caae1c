//! Receiving: copies the data that the peer wrote into the receive buffer, and lends the buffer again.

use libc::{c_int, iovec};

use super::{Core, Stream};
use crate::rsocket::gather::Gather;
use crate::rsocket::proto::state::State;
use crate::rsocket::wait::{self, Progress};

/// Result of a receive attempt.
enum Found {
    Data,
    End,
}

impl Stream {
    /// Receives into `buffers`; returns the number of bytes, 0 at the end of the stream.
    ///
    /// # Safety
    /// Each buffer must have room for its bytes.
    pub(crate) unsafe fn receive(&self, buffers: &[iovec], flags: c_int) -> Result<usize, c_int> {
        let nonblocking = self.nonblocking(flags);
        self.opened(nonblocking)?;
        let _alone = Stream::hold(&self.receiving, nonblocking)?;
        // SAFETY: the caller upholds the contract.
        let mut to = unsafe { Gather::new(buffers) };
        let all = to.left();
        loop {
            match self.receive_some(&mut to, nonblocking, flags & libc::MSG_PEEK != 0) {
                Ok(Found::Data)
                    if to.left() > 0 && flags & (libc::MSG_WAITALL | libc::MSG_PEEK) == libc::MSG_WAITALL => {}
                Ok(_) => return Ok(all - to.left()),
                Err(_) if to.left() < all => return Ok(all - to.left()),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Waits for data, and copies the available bytes.
    fn receive_some(&self, to: &mut Gather<'_>, nonblocking: bool, peek: bool) -> Result<Found, c_int> {
        let mut core = self.lock();
        if !core.has_bytes() {
            drop(core);
            let (found, end) = wait::until(&self.core, nonblocking, |core| {
                if core.has_bytes() { Some(Ok(Found::Data)) } else { core.end_of_data() }
            })?;
            if let Found::End = end? {
                return Ok(Found::End);
            }
            core = found;
        }
        let Core { endpoint: Some(endpoint), .. } = &mut *core else { return Err(libc::EBADF) };
        let mut skipped = 0;
        while let Some(piece) = endpoint.inbound.peek(skipped, to.left()) {
            let copied = to.copy_from(&endpoint.receive_memory, piece);
            if peek {
                skipped += copied;
            } else {
                endpoint.consume(copied);
            }
        }
        if !peek {
            core.progress();
        }
        Ok(Found::Data)
    }
}

impl super::endpoint::Endpoint {
    fn consume(&mut self, bytes: u32) {
        for _ in 0..self.inbound.consume(bytes) {
            self.receive_credits.consume();
        }
    }
}

impl Core {
    /// Whether bytes wait. Finishes empty messages.
    fn has_bytes(&mut self) -> bool {
        let Some(endpoint) = &mut self.endpoint else { return false };
        if endpoint.inbound.has_data() && endpoint.inbound.unread() == 0 {
            endpoint.consume(0);
        }
        endpoint.inbound.has_data()
    }

    /// Returns the end of the stream, or its error, if no more data will arrive.
    fn end_of_data(&mut self) -> Option<Result<Found, c_int>> {
        match self.state {
            _ if self.id.is_none() => Some(Err(libc::EBADF)),
            State::Connected { readable: true, .. } => None,
            State::Connected { .. } | State::Disconnected => Some(Ok(Found::End)),
            State::Broken => Some(match self.take_error() {
                0 => Ok(Found::End),
                errno => Err(errno),
            }),
            _ => Some(Err(libc::ENOTCONN)),
        }
    }
}
