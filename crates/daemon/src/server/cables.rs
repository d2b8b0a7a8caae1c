//! Cables of programs in packet mode. A program calls the daemon once; then the daemon polls the cable between its
//! other work, until nothing has arrived for a moment. It stops polling if other processes want the processor: they may
//! be the senders and the receivers.

use std::time::{Duration, Instant};

use weft_shm::{BusyPoll, BusyPollLimits, Next};

use super::{Server, TOKEN_CABLES};
use crate::slots::ClientId;
use weft_sys::epoll::Interest;

/// Packets taken from one program before the others get a turn.
const PACKETS_PER_TURN: usize = 64;

/// How long the daemon polls cables before everything else gets a turn.
const TURN: Duration = Duration::from_micros(200);

const BUSY_POLL: BusyPollLimits = BusyPollLimits {
    // Longer than a program takes from a packet to its answer.
    period: Duration::from_micros(50),
    // Packets come in bursts: after each call the daemon polls.
    dense: Duration::ZERO,
    dense_min: 0,
    fruitless_max: 1,
    // Senders and receivers may need this processor.
    yield_after: Duration::ZERO,
    // The daemon yields after each poll that found nothing, so that another process takes the processor for a moment
    // only; longer than a yield to no other process.
    preempted: Duration::from_micros(20),
    // Packets wake the daemon meanwhile.
    backoff: Duration::from_millis(20),
};

/// Cables that the daemon polls.
#[derive(Debug)]
pub(super) struct Attended {
    clients: Vec<ClientId>,
    /// Time of the last packet.
    last: Instant,
    busy_poll: BusyPoll<Instant>,
}

impl Attended {
    pub(super) fn new(now: Instant) -> Attended {
        Attended { clients: Vec::new(), last: now, busy_poll: BusyPoll::new(&BUSY_POLL) }
    }

    /// Returns whether there are any.
    pub(super) fn some(&self) -> bool {
        !self.clients.is_empty()
    }
}

impl Server {
    /// Handles a program's call: it has sent packets, or made room.
    pub(super) fn on_cable(&mut self, now: Instant, client: ClientId) {
        self.attend_cable(now, client);
        self.broker.flush_cables(now);
    }

    /// Polls a cable from now on. If its program can no longer call, closes the cable, which would otherwise signal a
    /// call forever.
    fn attend_cable(&mut self, now: Instant, client: ClientId) {
        if !self.broker.cables().attend(client) {
            self.broker.close_cable(now, client, &mut self.host);
            return;
        }
        self.attended.last = now;
        if !self.attended.clients.contains(&client) {
            self.attended.clients.push(client);
        }
    }

    /// Polls the cables for one turn. Returns true to continue after the others' turn, false if it stopped polling all
    /// of them.
    pub(super) fn serve_cables(&mut self) -> bool {
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
                return self.leave_cables(now);
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
        if self.broker.cables().has_waiting() {
            self.broker.flush_cables(now);
        }
        self.attend_released(now);
        carried
    }

    /// Stops polling the cables: senders have to call from now on. Returns true if packets arrived meanwhile.
    fn leave_cables(&mut self, now: Instant) -> bool {
        let clients = std::mem::take(&mut self.attended.clients);
        let awake: Vec<ClientId> = clients.into_iter().filter(|client| !self.broker.cables().sleep(*client)).collect();
        for client in &awake {
            self.attend_cable(now, *client);
        }
        // Room made while the daemon still polled caused no call: check again, now that calls are enabled.
        if self.broker.cables().has_waiting() {
            self.broker.flush_cables(now);
        }
        !awake.is_empty() | self.attend_released(now)
    }

    /// Polls the cables that the daemon may read again; returns whether there are any.
    fn attend_released(&mut self, now: Instant) -> bool {
        let released = self.broker.cables().take_released();
        for client in &released {
            self.attend_cable(now, *client);
        }
        !released.is_empty()
    }

    /// Watches new cables and stops watching closed ones; polls those that the daemon may read again.
    pub(super) fn perform_for_cables(&mut self, now: Instant) {
        for fd in self.host.cables.take_closed() {
            let _ = self.epoll.delete(&fd);
        }
        for (client, fd) in self.host.cables.take_new() {
            let _ = self.epoll.add(fd, TOKEN_CABLES | client, Interest::READ);
        }
        self.attend_released(now);
    }
}
