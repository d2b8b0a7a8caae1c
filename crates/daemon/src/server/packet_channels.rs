//! Packet channels of programs in packet mode. A program calls the daemon once; then the daemon polls the packet
//! channel between its other work, until nothing has arrived for a moment. It stops polling if other processes want the
//! processor: they may be the senders and the receivers.

use std::time::{Duration, Instant};

use weft_shm::Next;

use super::{Server, tokens};
use crate::slots::ClientId;
use weft_sys::epoll::Interest;

/// Packets taken from one program before the others get a turn.
const PACKETS_PER_TURN: usize = 64;

/// How long the daemon polls packet channels before everything else gets a turn.
const TURN: Duration = Duration::from_micros(200);

impl Server {
    /// Handles a program's call: it has sent packets, or made room.
    pub(super) fn on_packet_channel(&mut self, now: Instant, client: ClientId) {
        self.attend_packet_channel(now, client);
        self.broker.flush_packet_channels(now);
    }

    /// Polls a packet channel from now on. If its program can no longer call, closes the packet channel, which would
    /// otherwise signal a call forever.
    fn attend_packet_channel(&mut self, now: Instant, client: ClientId) {
        if !self.broker.packet_channels().attend(client) {
            self.broker.close_packet_channel(now, client, &mut self.host);
            return;
        }
        self.attended.last = now;
        if !self.attended.clients.contains(&client) {
            self.attended.clients.push(client);
        }
    }

    /// Polls the packet channels for one turn. Returns true to continue after the others' turn, false if it stopped
    /// polling all of them.
    pub(super) fn serve_packet_channels(&mut self) -> bool {
        if self.attended.clients.is_empty() {
            return false;
        }
        let begin = Instant::now();
        loop {
            let now = Instant::now();
            if self.carry_from_all(now) > 0 {
                self.attended.last = now;
            }
            let is_empty = now > self.attended.last;
            if is_empty && self.attended.busy_poll.on_empty(self.attended.last, now) == Next::Sleep {
                return self.leave_packet_channels(now);
            }
            if now.saturating_duration_since(begin) >= TURN {
                return true;
            }
            if is_empty {
                std::thread::yield_now();
                self.attended.busy_poll.on_away(now, Instant::now());
            }
        }
    }

    fn carry_from_all(&mut self, now: Instant) -> usize {
        let mut carried = 0;
        for index in 0..self.attended.clients.len() {
            if let Some(&client) = self.attended.clients.get(index) {
                carried += self.broker.carry_packets(now, client, PACKETS_PER_TURN);
            }
        }
        if self.broker.packet_channels().has_waiting() {
            self.broker.flush_packet_channels(now);
        }
        self.attend_released(now);
        carried
    }

    /// Stops polling the packet channels: senders have to call from now on. Returns true if packets arrived meanwhile.
    fn leave_packet_channels(&mut self, now: Instant) -> bool {
        let clients = std::mem::take(&mut self.attended.clients);
        let awake: Vec<ClientId> =
            clients.into_iter().filter(|client| !self.broker.packet_channels().sleep(*client)).collect();
        for client in &awake {
            self.attend_packet_channel(now, *client);
        }
        // Room made while the daemon still polled caused no call: check again, now that calls are enabled.
        if self.broker.packet_channels().has_waiting() {
            self.broker.flush_packet_channels(now);
        }
        !awake.is_empty() | self.attend_released(now)
    }

    /// Polls the packet channels that the daemon may read again; returns whether there are any.
    fn attend_released(&mut self, now: Instant) -> bool {
        let released = self.broker.packet_channels().take_released();
        for client in &released {
            self.attend_packet_channel(now, *client);
        }
        !released.is_empty()
    }

    /// Watches new packet channels and stops watching closed ones; polls those that the daemon may read again.
    pub(super) fn perform_for_packet_channels(&mut self, now: Instant) {
        for fd in self.host.packet_channels.take_closed() {
            let _ = self.epoll.delete(&fd);
        }
        for (client, fd) in self.host.packet_channels.take_new() {
            let _ = self.epoll.add(fd, tokens::PACKET_CHANNELS | client, Interest::READ);
        }
        self.attend_released(now);
    }
}
