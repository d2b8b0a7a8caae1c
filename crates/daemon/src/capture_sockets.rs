//! Sockets of captures. The daemon never waits for a reader: what fits neither in the socket nor in a bounded queue is
//! dropped, and the reader is told how much.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_ipc::{Captured, encode};
use weft_sys::{channel, unix};

use crate::limits::CAPTURE_QUEUE_BYTES_MAX;
use crate::slots::ClientId;

/// Send buffer of a capture's socket, as far as the kernel permits.
const SEND_BUFFER_BYTES: i32 = 1 << 20;

#[derive(Debug)]
struct Sockets {
    writer: OwnedFd,
    queue: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
    /// Nothing more comes: it closes when the queue is empty.
    ends: bool,
    watched: bool,
}

/// State of a capture after writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flushed {
    All,
    Full,
    Gone,
}

/// The sockets of all captures, by their clients.
#[derive(Debug, Default)]
pub struct CaptureSockets {
    of: BTreeMap<ClientId, Sockets>,
    /// Readers' ends that are not sent yet.
    readers: RefCell<BTreeMap<ClientId, OwnedFd>>,
}

impl CaptureSockets {
    /// Makes the socket of a capture.
    pub fn open(&mut self, client: ClientId) -> io::Result<()> {
        let (reader, writer) = unix::pair()?;
        unix::set_send_buffer(&writer, SEND_BUFFER_BYTES);
        self.readers.borrow_mut().insert(client, reader);
        let (queue, bytes, dropped) = (VecDeque::new(), 0, 0);
        self.of.insert(client, Sockets { writer, queue, bytes, dropped, ends: false, watched: false });
        Ok(())
    }

    /// Takes the reader's end, to send it.
    pub fn take_reader(&self, client: ClientId) -> Option<OwnedFd> {
        self.readers.borrow_mut().remove(&client)
    }

    /// Puts back an end that could not be sent yet.
    pub fn keep_reader(&self, client: ClientId, reader: OwnedFd) {
        self.readers.borrow_mut().insert(client, reader);
    }

    /// Queues a packet.
    pub fn push(&mut self, client: ClientId, packet: &Captured) {
        if let Some(sockets) = self.of.get_mut(&client) {
            sockets.push(packet);
        }
    }

    /// Counts packets that were dropped before they got here.
    pub fn add_dropped(&mut self, client: ClientId, packets: u64) {
        if let Some(sockets) = self.of.get_mut(&client) {
            sockets.dropped += packets;
        }
    }

    /// Writes what fits. Returns whether the capture is still there: false after its reader left.
    pub fn flush(&mut self, client: ClientId) -> bool {
        let Some(sockets) = self.of.get_mut(&client) else { return false };
        let flushed = sockets.flush();
        let over = flushed == Flushed::Gone || (sockets.ends && flushed == Flushed::All);
        if over {
            self.close(client);
        }
        !over
    }

    /// Ends a capture after what is queued.
    pub fn finish(&mut self, client: ClientId) {
        if let Some(sockets) = self.of.get_mut(&client) {
            sockets.ends = true;
        }
        self.flush(client);
    }

    /// Closes a capture.
    pub fn close(&mut self, client: ClientId) {
        self.readers.borrow_mut().remove(&client);
        self.of.remove(&client);
    }

    /// Returns the captures whose sockets must be watched for room from now on, or no longer.
    pub fn take_watch_changes(&mut self) -> Vec<(ClientId, BorrowedFd<'_>, bool)> {
        let mut changes = Vec::new();
        for (client, sockets) in &mut self.of {
            let wanted = !sockets.queue.is_empty();
            if std::mem::replace(&mut sockets.watched, wanted) != wanted {
                changes.push((*client, sockets.writer.as_fd(), wanted));
            }
        }
        changes
    }
}

impl Sockets {
    fn push(&mut self, packet: &Captured) {
        let Ok(bytes) = encode(packet) else { return };
        if self.bytes + bytes.len() > CAPTURE_QUEUE_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.tell_dropped();
        self.bytes += bytes.len();
        self.queue.push_back(bytes);
    }

    fn tell_dropped(&mut self) {
        if self.dropped > 0
            && let Ok(bytes) = encode(&Captured::Dropped(std::mem::take(&mut self.dropped)))
        {
            self.bytes += bytes.len();
            self.queue.push_back(bytes);
        }
    }

    fn flush(&mut self) -> Flushed {
        loop {
            let Some(next) = self.queue.front() else {
                if self.dropped == 0 {
                    return Flushed::All;
                }
                self.tell_dropped();
                continue;
            };
            match channel::send(&self.writer, next) {
                Ok(()) => {
                    self.bytes -= next.len();
                    self.queue.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Full,
                Err(_) => return Flushed::Gone,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_ipc::{CAPTURED_BYTES_MAX, decode};

    use super::*;

    const CLIENT: ClientId = 7;

    fn packet(number: u64) -> Captured {
        Captured::Packet { time_ns: number, sent: true, packet: vec![1; 4000] }
    }

    fn read(reader: &OwnedFd) -> Option<Captured> {
        let mut buffer = [0; CAPTURED_BYTES_MAX];
        let length = channel::take_back(reader, &mut buffer)?;
        Some(decode(&buffer[..length]).unwrap())
    }

    #[test]
    fn packets_that_do_not_fit_are_dropped_and_counted_in_their_place() {
        let mut sockets = CaptureSockets::default();
        sockets.open(CLIENT).unwrap();
        let reader = sockets.take_reader(CLIENT).unwrap();
        let many = 2 * (CAPTURE_QUEUE_BYTES_MAX / 4000) as u64;
        for number in 0..many {
            sockets.push(CLIENT, &packet(number));
            assert!(sockets.flush(CLIENT));
        }
        let read_all = |sockets: &mut CaptureSockets| {
            let (mut packets, mut dropped) = (0, 0);
            while let Some(message) = read(&reader) {
                match message {
                    Captured::Packet { time_ns, .. } => {
                        assert_eq!(time_ns, packets + dropped);
                        packets += 1;
                    }
                    Captured::Dropped(number) => dropped += number,
                }
                assert!(sockets.flush(CLIENT));
            }
            (packets, dropped)
        };
        let (packets, dropped) = read_all(&mut sockets);
        assert!(packets > many / 4 && dropped > many / 4, "{packets} and {dropped} of {many}");
        assert_eq!(packets + dropped, many);
        assert!(sockets.take_watch_changes().is_empty(), "it was not watched, and need not be");
    }

    #[test]
    fn an_ending_capture_is_read_to_its_end_and_a_reader_who_left_ends_it() {
        let mut sockets = CaptureSockets::default();
        sockets.open(CLIENT).unwrap();
        let reader = sockets.take_reader(CLIENT).unwrap();
        sockets.push(CLIENT, &packet(0));
        sockets.add_dropped(CLIENT, 3);
        sockets.finish(CLIENT);
        assert_eq!((read(&reader), read(&reader)), (Some(packet(0)), Some(Captured::Dropped(3))));
        assert_eq!(read(&reader), None);
        assert!(!sockets.flush(CLIENT), "it is over");

        sockets.open(CLIENT).unwrap();
        drop(sockets.take_reader(CLIENT));
        sockets.push(CLIENT, &packet(0));
        assert!(!sockets.flush(CLIENT));
    }
}
