//! Sending: copies the program's bytes, and writes them into the memory that the peer lent.

use libc::{c_int, iovec};
use parking_lot::MutexGuard;
use weft_abi_types::IBV_SEND_INLINE;

use super::endpoint::{Endpoint, inline_sge};
use super::work::Work;
use super::{Core, Stream};
use crate::rsocket::gather::Gather;
use crate::rsocket::proto::message::Message;
use crate::rsocket::proto::outbound::Pace;
use crate::rsocket::proto::state::State;
use crate::rsocket::wait;

impl Stream {
    /// Sends the content of `buffers`; returns the number of bytes sent.
    ///
    /// # Safety
    /// Each buffer's bytes must be readable.
    pub(crate) unsafe fn send(&self, buffers: &[iovec], flags: c_int) -> Result<usize, c_int> {
        let nonblocking = self.nonblocking(flags);
        self.opened(nonblocking)?;
        let _alone = Stream::hold(&self.sending, nonblocking)?;
        self.announce(nonblocking)?;
        // SAFETY: the caller upholds the contract.
        let mut from = unsafe { Gather::new(buffers) };
        let all = from.left();
        let mut pace = Pace::new();
        while from.left() > 0 {
            let sent = self.wait_sendable(nonblocking, Core::can_send).and_then(|mut core| {
                let posted = core.post_data(&mut from, &mut pace);
                posted.inspect_err(|errno| core.break_with(*errno))
            });
            if let Err(errno) = sent {
                return if from.left() < all { Ok(all - from.left()) } else { Err(errno) };
            }
        }
        Ok(all)
    }

    /// Waits until connection setup, if in progress, has ended.
    pub(super) fn opened(&self, nonblocking: bool) -> Result<(), c_int> {
        if self.lock().state.opening() { self.wait_opened(nonblocking) } else { Ok(()) }
    }

    /// Waits until `can` holds; fails when no more data can be sent.
    pub(super) fn wait_sendable(
        &self,
        nonblocking: bool,
        can: impl Fn(&mut Core) -> bool,
    ) -> Result<MutexGuard<'_, Core>, c_int> {
        let mut core = self.lock();
        if core.state.writable() && can(&mut core) {
            return Ok(core);
        }
        drop(core);
        let (core, sendable) = wait::until(&self.core, nonblocking, |core| match core.state {
            _ if core.id.is_none() => Some(Err(libc::EBADF)),
            State::Connected { writable: true, .. } => can(core).then_some(Ok(())),
            State::Connected { .. } => Some(Err(libc::EPIPE)),
            State::Disconnected | State::Broken => Some(Err(libc::ECONNRESET)),
            _ => Some(Err(libc::ENOTCONN)),
        })?;
        sendable.map(|()| core)
    }
}

impl Core {
    /// Posts the next transfer; the caller has checked that one can be sent.
    fn post_data(&mut self, from: &mut Gather<'_>, pace: &mut Pace) -> Result<(), c_int> {
        let endpoint = self.endpoint.as_mut().ok_or(libc::EBADF)?;
        let room = endpoint.target_bytes().min(endpoint.outbound.free());
        let bytes = pace.next(from.left()).min(room);
        let peer = endpoint.peer.as_mut().ok_or(libc::ENOTCONN)?;
        let (addr, key) = (peer.target.addr, peer.target.key);
        peer.target.addr = addr.wrapping_add(bytes.into());
        peer.target.length -= bytes;
        peer.credits.spend();
        endpoint.write(from, bytes, Work::Data(bytes), Some(Message::Data(bytes)), addr, key)
    }
}

impl Endpoint {
    /// Posts a write of the next `bytes`, for which the caller has checked the room; a few bytes travel in the request
    /// itself.
    pub(super) fn write(
        &mut self,
        from: &mut Gather<'_>,
        bytes: u32,
        work: Work,
        message: Option<Message>,
        addr: u64,
        key: u32,
    ) -> Result<(), c_int> {
        self.slots -= 1;
        if bytes <= self.inline_bytes
            && let Some(data) = from.together(bytes as usize)
        {
            self.outbound.charge(bytes);
            return self.post(work, message, &mut [inline_sge(data)], IBV_SEND_INLINE, addr, key);
        }
        let (first, second) = self.outbound.take(bytes);
        from.copy_to(&self.send_memory, first);
        let first = self.send_memory.sge(first);
        let Some(second) = second else {
            return self.post(work, message, &mut [first], 0, addr, key);
        };
        from.copy_to(&self.send_memory, second);
        self.post(work, message, &mut [first, self.send_memory.sge(second)], 0, addr, key)
    }
}
