//! The loop's part for management datagrams: the sockets of ports that programs have open.

use std::io;
use std::time::Instant;

use weft_sys::epoll::{Interest, Ready};

use super::{Server, UMAD_PACKETS_PER_READ, tokens};
use crate::umad::Called;

/// Reads of one port before the others get a turn.
const READS_PER_TURN: usize = 4;

impl Server {
    /// Handles a port's socket that is ready.
    pub(super) fn on_umad(&mut self, now: Instant, handle: u32, event: &Ready) {
        let alive = if event.readable { self.read_umad(now, handle) } else { !event.hung_up };
        if !alive {
            self.broker.close_umad(handle, &mut self.host);
        } else if event.writable {
            self.flush_umad(now, handle);
        }
    }

    /// Reads packets of a program; returns false at the end of the connection.
    fn read_umad(&mut self, now: Instant, handle: u32) -> bool {
        for _ in 0..READS_PER_TURN {
            let Some(socket) = self.host.umad.get(handle) else { return true };
            let count = match self.umad_batch.recv(&socket.fd) {
                Ok(count) => count,
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            };
            for index in 0..count {
                let packet = self.umad_batch.packet(index);
                if packet.is_empty() {
                    return false;
                }
                match self.broker.handle_umad_packet(now, handle, packet) {
                    Called::No => {}
                    Called::Look => self.attend_ring(now, handle),
                    Called::Ring => self.ring_on_request(now, handle),
                }
            }
            self.flush_umad(now, handle);
            let crowded = self.broker.umad().outbox(handle).is_none_or(|outbox| outbox.is_crowded());
            if count < UMAD_PACKETS_PER_READ || crowded {
                return true;
            }
        }
        true
    }

    /// Sends packets that wait for programs, and watches new sockets.
    pub(super) fn perform_for_umad(&mut self, now: Instant) {
        self.broker.carry_datagrams(now, &mut self.host);
        while let Some(handle) = self.broker.umad().poll_ready() {
            self.flush_umad(now, handle);
        }
        for fd in self.host.umad.take_closed() {
            let _ = self.epoll.delete(&fd);
        }
        for handle in self.host.umad.take_new() {
            self.watch_umad(handle);
        }
    }

    /// Sends packets that wait for a program.
    pub(super) fn flush_umad(&mut self, now: Instant, handle: u32) {
        let Some(socket) = self.host.umad.get(handle) else { return };
        let Some(outbox) = self.broker.umad().outbox(handle) else { return };
        if outbox.flush(&socket.fd).is_err() {
            return self.broker.close_umad(handle, &mut self.host);
        }
        let (was_left, crowded) = (socket.watched.is_some_and(|interest| !interest.readable), outbox.is_crowded());
        self.watch_umad(handle);
        self.note_answers(handle);
        if was_left && !crowded {
            self.attend_ring(now, handle);
        }
    }

    /// Rings a program that holds a datagram that its socket does not show.
    fn ring_on_request(&mut self, now: Instant, handle: u32) {
        if let Some(outbox) = self.broker.umad().outbox(handle) {
            outbox.push_bell();
        }
        self.flush_umad(now, handle);
    }

    fn watch_umad(&mut self, handle: u32) {
        let Some(outbox) = self.broker.umad().outbox(handle) else { return };
        let interest = Interest { readable: !outbox.is_crowded(), writable: !outbox.is_empty() };
        let Some(socket) = self.host.umad.get_mut(handle) else { return };
        if socket.watched == Some(interest) {
            return;
        }
        let token = tokens::UMAD | u64::from(handle);
        let done = match socket.watched {
            None => self.epoll.add(&socket.fd, token, interest),
            Some(_) => self.epoll.modify(&socket.fd, token, interest),
        };
        if done.is_ok() {
            socket.watched = Some(interest);
        }
    }
}
