//! The cables of programs whose packets go hop by hop. A program calls the daemon once; from then on the daemon looks by
//! itself, between its other work, until nothing has come for a moment. It does not look on where others want the processor:
//! those who send and those who receive may be they.

use std::time::{Duration, Instant};

use super::{Server, TOKEN_CABLES};
use crate::slots::ClientId;
use weft_sys::epoll::Interest;

/// Packets taken from one program before the others get a turn.
const PACKETS_PER_TURN: usize = 64;

/// How long cables are looked at before everything else gets a turn.
const TURN: Duration = Duration::from_micros(200);

/// How long the daemon looks on after the last packet.
const PATIENCE: Duration = Duration::from_micros(50);

/// So long between two looks in vain somebody else had the processor.
const TAKEN: Duration = Duration::from_micros(20);

/// For so long it is left to the others then.
const MODEST: Duration = Duration::from_millis(20);

/// Cables that are looked at.
#[derive(Debug)]
pub(super) struct Attended {
    clients: Vec<ClientId>,
    /// When there was a packet last.
    last: Instant,
    /// Until when the processor is left to others.
    modest_until: Instant,
}

impl Attended {
    pub(super) fn new(now: Instant) -> Attended {
        Attended { clients: Vec::new(), last: now, modest_until: now }
    }

    /// Whether any are.
    pub(super) fn some(&self) -> bool {
        !self.clients.is_empty()
    }
}

impl Server {
    /// A program called: it has sent something, or made room.
    pub(super) fn on_cable(&mut self, now: Instant, client: ClientId) {
        self.attend_cable(now, client);
        self.broker.flush_cables(now);
    }

    /// Looks at a cable from now on. Of a program that cannot call any more the cable is closed, for it would seem to call
    /// for ever.
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

    /// Looks at the cables for a turn. True: go on after the others' turn; false: all were left to themselves.
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
            let patience = if now < self.attended.modest_until { Duration::ZERO } else { PATIENCE };
            if now.saturating_duration_since(self.attended.last) > patience {
                return self.leave_cables(now);
            }
            if now.saturating_duration_since(begin) >= TURN {
                return true;
            }
            if now > self.attended.last {
                std::thread::yield_now();
                let back = Instant::now();
                if back.saturating_duration_since(now) >= TAKEN {
                    self.attended.modest_until = back + MODEST;
                }
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

    /// Leaves cables to themselves: who sends has to call from now on. True: there was something after all.
    fn leave_cables(&mut self, now: Instant) -> bool {
        let clients = std::mem::take(&mut self.attended.clients);
        let awake: Vec<ClientId> = clients.into_iter().filter(|client| !self.broker.cables().sleep(*client)).collect();
        for client in &awake {
            self.attend_cable(now, *client);
        }
        // Room that was made while the daemon still looked called nobody: it is asked for again, now that calls are heard.
        if self.broker.cables().has_waiting() {
            self.broker.flush_cables(now);
        }
        !awake.is_empty() | self.attend_released(now)
    }

    /// Looks at those that may be listened to again; whether there are any.
    fn attend_released(&mut self, now: Instant) -> bool {
        let released = self.broker.cables().take_released();
        for client in &released {
            self.attend_cable(now, *client);
        }
        !released.is_empty()
    }

    /// Watches new cables, and no more those that are gone; those that may be listened to again are.
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
