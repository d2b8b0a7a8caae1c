//! Sockets of event channels. The program reads its end by itself; the daemon keeps a duplicate of that end, so that it
//! can take back unread events. A channel holds only a few events; the others wait in the service.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_cm::rdma_cm::CmEvent;
use weft_ipc::{CM_EVENT_BYTES_MAX, decode, encode};
use weft_sys::channel;

#[derive(Debug)]
struct Sockets {
    reader: OwnedFd,
    writer: OwnedFd,
    /// An event that did not fit.
    waiting: Option<CmEvent>,
    /// Whether the server watches for room.
    watched: bool,
}

/// Result of sending an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The event is under way.
    Done,
    /// The event waits here until the program reads: send no more to this channel until [`ChannelSockets::flush`] is
    /// `Done`.
    Full,
}

/// All channels, by number.
#[derive(Debug, Default)]
pub struct ChannelSockets {
    map: BTreeMap<u32, Sockets>,
}

impl ChannelSockets {
    /// Returns the number of channels.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether there are no channels.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Makes the sockets of a channel.
    pub fn open(&mut self, number: u32) -> io::Result<()> {
        let (reader, writer) = channel::pair()?;
        self.map.insert(number, Sockets { reader, writer, waiting: None, watched: false });
        Ok(())
    }

    /// Closes a channel.
    pub fn close(&mut self, number: u32) {
        self.map.remove(&number);
    }

    /// Returns the program's end.
    pub fn reader(&self, number: u32) -> Option<BorrowedFd<'_>> {
        self.map.get(&number).map(|sockets| sockets.reader.as_fd())
    }

    /// Returns the daemon's end, to watch while the channel is full.
    pub fn writer(&self, number: u32) -> Option<BorrowedFd<'_>> {
        self.map.get(&number).map(|sockets| sockets.writer.as_fd())
    }

    /// Notes whether the server watches the writer; returns whether that changed.
    pub fn set_watched(&mut self, number: u32, watched: bool) -> bool {
        let sockets = self.map.get_mut(&number);
        sockets.is_some_and(|sockets| std::mem::replace(&mut sockets.watched, watched) != watched)
    }

    /// Sends an event.
    pub fn send(&mut self, number: u32, event: CmEvent) -> Sent {
        let Some(sockets) = self.map.get_mut(&number) else { return Sent::Done };
        sockets.waiting = Some(event);
        sockets.flush()
    }

    /// Sends the waiting event, once there may be room.
    pub fn flush(&mut self, number: u32) -> Sent {
        self.map.get_mut(&number).map_or(Sent::Done, Sockets::flush)
    }

    /// Takes back unread events, oldest first.
    pub fn take_back(&mut self, number: u32) -> Vec<CmEvent> {
        let Some(sockets) = self.map.get_mut(&number) else { return Vec::new() };
        let mut events = Vec::new();
        let mut buffer = [0; CM_EVENT_BYTES_MAX];
        while let Some(length) = channel::take_back(&sockets.reader, &mut buffer) {
            events.extend(decode::<CmEvent>(buffer.get(..length).unwrap_or_default()).ok());
        }
        events.extend(sockets.waiting.take());
        events
    }
}

impl Sockets {
    fn flush(&mut self) -> Sent {
        let Some(event) = &self.waiting else { return Sent::Done };
        let full = encode(event).is_ok_and(|bytes| {
            matches!(channel::send(&self.writer, &bytes), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        });
        if full {
            return Sent::Full;
        }
        self.waiting = None;
        Sent::Done
    }
}

#[cfg(test)]
mod tests {
    use weft_cm::rdma_cm::{Ece, EventKind, EventParam};

    use super::*;

    fn event(id: u32) -> CmEvent {
        CmEvent {
            kind: EventKind::Established,
            id,
            listener: None,
            group: None,
            cookie: 7,
            status: 0,
            param: EventParam::None,
            ece: Ece::default(),
        }
    }

    #[test]
    fn what_was_not_read_comes_back_in_order() {
        let mut channels = ChannelSockets::default();
        channels.open(3).unwrap();
        let mut sent = 0;
        while channels.send(3, event(sent)) == Sent::Done {
            sent += 1;
        }
        assert_eq!(channels.flush(3), Sent::Full);
        let mut buffer = [0; CM_EVENT_BYTES_MAX];
        assert!(channel::receive(channels.reader(3).unwrap(), &mut buffer).unwrap() > 0);
        let ids: Vec<u32> = channels.take_back(3).iter().map(|event| event.id).collect();
        assert_eq!(ids, (1..=sent).collect::<Vec<u32>>());
        assert_eq!((channels.flush(3), channels.take_back(3).len()), (Sent::Done, 0));
    }
}
