//! Direct placement: mapping buffers for the peer, and writing into buffers that the peer mapped.

use libc::{c_int, c_void, iovec};

use super::mappings::Mapping;
use super::work::Work;
use super::{Core, Stream};
use crate::rsocket::gather::Gather;
use crate::rsocket::proto::message::Message;
use crate::rsocket::proto::outbound::Pace;
use crate::rsocket::proto::sge::IoMap;

/// Maximum number of mappings that only this side knows.
const LOCAL_MAPPINGS_MAX: usize = 4096;

impl Stream {
    /// Maps a buffer to `offset`, or to its own address if that is -1.
    pub(crate) fn map(&self, addr: *mut c_void, bytes: usize, prot: c_int, offset: i64) -> Result<i64, c_int> {
        if prot & !(libc::PROT_WRITE | libc::PROT_NONE) != 0 || u32::try_from(bytes).is_err() {
            return Err(libc::EINVAL);
        }
        let mut core = self.lock();
        let pd = core.id()?.pd().ok_or(libc::EINVAL)?;
        let index = if prot & libc::PROT_WRITE != 0 { Some(core.free_entry()?) } else { None };
        if core.mappings.all.len() >= LOCAL_MAPPINGS_MAX + usize::from(u16::MAX) {
            return Err(libc::ENOMEM);
        }
        let offset = if offset == -1 { addr as i64 } else { offset };
        let mapping = Mapping::register(pd, addr, bytes, offset.cast_unsigned(), index)?;
        core.mappings.all.push(mapping);
        core.mappings.unannounced.extend(index);
        Ok(offset)
    }

    /// Removes a mapping; EINVAL if this buffer has none.
    pub(crate) fn unmap(&self, addr: *mut c_void, bytes: usize) -> Result<(), c_int> {
        let mut core = self.lock();
        let at = core.mappings.all.iter().position(|mapping| mapping.addr == addr as u64 && mapping.bytes == bytes);
        let gone = core.mappings.all.swap_remove(at.ok_or(libc::EINVAL)?);
        core.mappings.unannounced.retain(|index| Some(*index) != gone.index);
        Ok(())
    }

    /// Announces new mappings to the peer, before any message that is sent afterwards.
    pub(super) fn announce(&self, nonblocking: bool) -> Result<(), c_int> {
        while !self.lock().mappings.unannounced.is_empty() {
            let mut core = self.wait_sendable(nonblocking, Core::can_send)?;
            let posted = core.post_mapping();
            posted.inspect_err(|errno| core.break_with(*errno))?;
        }
        Ok(())
    }

    /// Writes into the peer's buffers from `offset` on; returns the number of bytes written, fewer where the peer has
    /// no mapping.
    ///
    /// # Safety
    /// The buffer's bytes must be readable.
    pub(crate) unsafe fn write_mapped(&self, buffer: iovec, offset: i64, flags: c_int) -> Result<usize, c_int> {
        let nonblocking = self.nonblocking(flags);
        self.opened(nonblocking)?;
        let _alone = Stream::hold(&self.sending, nonblocking)?;
        self.announce(nonblocking)?;
        let buffers = [buffer];
        // SAFETY: the caller upholds the contract.
        let mut from = unsafe { Gather::new(&buffers) };
        let all = from.left();
        let mut pace = Pace::new();
        while from.left() > 0 {
            let at = offset.cast_unsigned().wrapping_add((all - from.left()) as u64);
            let written = self.wait_sendable(nonblocking, Core::can_place).and_then(|mut core| {
                let posted = core.post_direct(&mut from, &mut pace, at);
                posted.inspect_err(|errno| core.break_with(*errno))
            });
            match written {
                Ok(true) => {}
                Ok(false) => break,
                Err(errno) if from.left() == all => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(all - from.left())
    }
}

impl Core {
    /// Returns a free entry of the peer's list; ENOMEM if there is none.
    fn free_entry(&self) -> Result<u16, c_int> {
        let entries = self.endpoint.as_ref().and_then(|endpoint| endpoint.peer).map_or(0, |peer| peer.iomap.length);
        let taken = |index: &u16| self.mappings.all.iter().any(|mapping| mapping.index == Some(*index));
        (0..entries as u16).find(|index| !taken(index)).ok_or(libc::ENOMEM)
    }

    /// Whether a direct write can be posted: it needs no space in the peer's receive buffer.
    fn can_place(&mut self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.slots > 0 && endpoint.outbound.writable())
    }

    /// Posts the next mapping's entry; the caller has checked that a message can be sent.
    fn post_mapping(&mut self) -> Result<(), c_int> {
        let Some(index) = self.mappings.unannounced.pop_front() else { return Ok(()) };
        let Some(mapping) = self.mappings.all.iter().find(|mapping| mapping.index == Some(index)) else {
            return Ok(());
        };
        let endpoint = self.endpoint.as_mut().ok_or(libc::EBADF)?;
        let peer = endpoint.peer.as_mut().ok_or(libc::ENOTCONN)?;
        peer.credits.spend();
        let entry = mapping.entry().encode(peer.order);
        let addr = peer.iomap.addr.wrapping_add(u64::from(index) * IoMap::SIZE as u64);
        let key = peer.iomap.key;
        let buffers = [iovec { iov_base: entry.as_ptr().cast_mut().cast(), iov_len: entry.len() }];
        // SAFETY: the entry lives through the call, and is only read.
        let mut from = unsafe { Gather::new(&buffers) };
        let bytes = IoMap::SIZE as u32;
        endpoint.write(&mut from, bytes, Work::IoMap(bytes), Some(Message::IoMap(index)), addr, key)
    }

    /// Posts the next direct write; returns false if the peer has no mapping there.
    fn post_direct(&mut self, from: &mut Gather<'_>, pace: &mut Pace, offset: u64) -> Result<bool, c_int> {
        let endpoint = self.endpoint.as_mut().ok_or(libc::EBADF)?;
        let Some((addr, key, room)) = endpoint.mapped(offset) else { return Ok(false) };
        let bytes = pace.next(from.left()).min(endpoint.outbound.free()).min(room);
        endpoint.write(from, bytes, Work::Data(bytes), None, addr, key)?;
        Ok(true)
    }
}
