//! One client's socket and its outgoing queue. The daemon drops a client that does not read once the queue is full, so
//! that a client can never make the daemon sleep or grow.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weft_sys::epoll::Interest;
use weft_sys::unix::{self, Wait};

use crate::broker::Attach;
use crate::limits::OUTBOX_MESSAGES_MAX;
use crate::pool::PoolHost;

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    attach: Attach,
    about: Option<u32>,
}

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    /// Its socket.
    pub fd: OwnedFd,
    /// Its process (pidfd), readable once the process is dead.
    pub process: Option<Arc<OwnedFd>>,
    /// A message that waits for the end of recovery.
    pub deferred: Option<(Vec<u8>, Vec<OwnedFd>)>,
    /// Close the connection once everything is sent.
    pub closing: bool,
    /// Events that its socket is watched for.
    pub watched: Interest,
    outbox: VecDeque<Waiting>,
}

impl Connection {
    /// Makes a connection with an empty queue.
    pub fn new(fd: OwnedFd) -> Connection {
        let process = unix::peer_pidfd(&fd).map(Arc::new);
        Connection { fd, process, deferred: None, closing: false, watched: Interest::READ, outbox: VecDeque::new() }
    }

    /// Returns whether messages wait to be sent.
    pub fn wants_to_send(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns whether to read its requests. The daemon reads no further requests of a client that does not read its
    /// answers, so no more waits for it than one turn's answers and the events.
    pub fn may_be_read(&self) -> bool {
        self.deferred.is_none() && !self.closing && !self.wants_to_send()
    }

    /// Queues a message, replacing an older one about the same device. Returns false if too many wait: drop the client.
    #[must_use]
    pub fn push(&mut self, bytes: Vec<u8>, attach: Attach, about: Option<u32>) -> bool {
        if about.is_some() {
            self.outbox.retain(|waiting| waiting.about != about);
        }
        self.outbox.push_back(Waiting { bytes, attach, about });
        self.outbox.len() <= OUTBOX_MESSAGES_MAX
    }

    /// Sends as much as possible without sleeping. An error means that the client is gone.
    pub fn flush(&mut self, host: &PoolHost) -> io::Result<()> {
        while let Some(next) = self.outbox.front() {
            let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
            if let Some(slot) = next.attach.sockets_of {
                fds.extend(host.sockets(slot));
            }
            if let Some(channel) = next.attach.channel {
                fds.extend(host.channels.reader(channel));
            }
            if let Some(client) = next.attach.ledger_of {
                fds.extend(host.ledgers.descriptor(client));
            }
            if let Some(slot) = next.attach.published {
                fds.extend(host.pairs.own(slot));
            }
            if let Some((own, peer)) = next.attach.meeting {
                fds.extend(host.pairs.descriptors(own, peer));
            }
            if next.attach.anchor {
                fds.extend(host.anchor());
            }
            if let Some(network) = next.attach.network {
                fds.extend(host.networks.namespaces(network));
            }
            let machine_socket = if next.attach.machine_socket { Some(unix::socket()?) } else { None };
            fds.extend(machine_socket.iter().map(AsFd::as_fd));
            let umad = next.attach.umad.and_then(|handle| Some((handle, host.umad.take_programs_end(handle)?)));
            if let Some((_, end)) = &umad {
                fds.push(end.socket.as_fd());
                fds.extend(end.rings.as_ref().map(AsFd::as_fd));
            }
            let packet_channel = next
                .attach
                .packet_channel
                .and_then(|client| Some((client, host.packet_channels.take_programs(client)?)));
            if let Some((_, end)) = &packet_channel {
                fds.extend([end.memory.as_fd(), end.bell.as_fd(), end.call.as_fd()]);
            }
            let capture = next.attach.capture.and_then(|client| Some((client, host.captures.take_reader(client)?)));
            fds.extend(capture.iter().map(|(_, reader)| reader.as_fd()));
            let stream = next.attach.stream.and_then(|conn| Some((conn, host.streams.take_handed(conn)?)));
            fds.extend(stream.iter().map(|(_, socket)| socket.as_fd()));
            match unix::send(&self.fd, &next.bytes, &fds, Wait::No) {
                Ok(_) => drop(self.outbox.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some((handle, end)) = umad {
                        host.umad.keep_programs_end(handle, end);
                    }
                    if let Some((client, end)) = packet_channel {
                        host.packet_channels.keep_programs(client, end);
                    }
                    if let Some((client, reader)) = capture {
                        host.captures.keep_reader(client, reader);
                    }
                    if let Some((conn, socket)) = stream {
                        host.streams.keep_handed(conn, socket);
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_event_takes_the_place_of_the_older() {
        let (fd, _peer) = unix::pair().unwrap();
        let mut connection = Connection::new(fd);
        for n in 0..10_000u32 {
            assert!(connection.push(vec![1], Attach::default(), Some(n % 5)));
        }
        assert_eq!(connection.outbox.len(), 5);
    }

    #[test]
    fn who_does_not_read_is_noticed_and_never_waited_for() {
        let (fd, peer) = unix::pair().unwrap();
        let mut connection = Connection::new(fd);
        let mut taken = 0;
        while connection.push(vec![0; 1000], Attach::default(), None) {
            connection.flush(&PoolHost::default()).unwrap();
            taken += 1;
            assert!(taken < 100_000);
        }
        drop(peer);
        assert!(connection.flush(&PoolHost::default()).is_err());
    }
}
