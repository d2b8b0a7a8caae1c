//! A flow's own way in. Whoever polls for the messages of one peer gets them through a socket that takes nothing else
//! ([`weft_sys::udp::inlet`]): they arrive sooner, and there is less to read. A flow earns it while nearly all that comes
//! is its own; before anybody sleeps, and when it goes quiet, the socket rests. What is in it by then is read.
//!
//! A message belongs to the socket that the kernel finds first, and gets there a moment later. So the sockets' order is
//! kept at each change: what comes to a socket that has just been aimed is read after the shared sockets, and shared sockets
//! are read after one that rests ([`crate::receive`]).
//!
//! One source port carries packets for one process of ours, if the sender is Weft, or another that has a port for each
//! queue pair. Some have not; then packets for other processes come through the inlet and are lost. The first of these
//! ends it for good.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use weft_sys::udp::{self, Incoming};

use crate::rx_socket::RxSocket;

/// Messages in a row from which on a flow has earned it.
const MESSAGES_TO_EARN: u32 = 64;
/// What a message of another flow takes off the count.
const OTHER_COSTS: u32 = 16;
/// How much longer a flow must earn after the kernel refused the socket, until the kernel grants one again.
const EARN_AGAIN_FACTOR: u32 = 64;

/// The socket, and who is to have it.
#[derive(Debug)]
pub struct Inlet {
    /// The port that packets come to.
    port: u16,
    socket: Option<RxSocket>,
    /// Whose packets the socket takes.
    aimed: Option<Incoming>,
    /// Nothing has been read from it since it was aimed.
    fresh: bool,
    /// Whose packets it took until it was told to rest. One that was on its way then may come to it yet.
    rested: Option<Incoming>,
    /// The address that the socket is bound to.
    here: Option<IpAddr>,
    /// Who may earn it, and how far he is.
    candidate: Option<Incoming>,
    messages: u32,
    /// Messages in a row that earn it.
    earns_at: u32,
    /// It does harm.
    given_up: bool,
    /// Whether traffic class and hop limit are told.
    describes: bool,
}

impl Default for Inlet {
    fn default() -> Inlet {
        Inlet {
            port: 0,
            socket: None,
            aimed: None,
            fresh: false,
            rested: None,
            here: None,
            candidate: None,
            messages: 0,
            earns_at: MESSAGES_TO_EARN,
            given_up: false,
            describes: false,
        }
    }
}

impl Inlet {
    /// For packets to this port; nobody has it yet.
    pub fn new(port: u16) -> Inlet {
        Inlet { port, ..Inlet::default() }
    }

    /// Whether it takes anybody's packets.
    #[inline]
    pub fn is_aimed(&self) -> bool {
        self.aimed.is_some()
    }

    /// Whose packets it takes, if anybody's, and from where they are read.
    #[inline]
    pub fn aimed(&mut self) -> Option<(&mut RxSocket, Incoming)> {
        let flow = self.aimed?;
        Some((self.socket.as_mut()?, flow))
    }

    /// The socket that has just been aimed, until something waits in it: shared sockets are to be read before it.
    #[inline]
    pub fn fresh(&mut self) -> Option<BorrowedFd<'_>> {
        if !self.fresh {
            return None;
        }
        Some(self.socket.as_ref()?.fd.as_fd())
    }

    /// The shared sockets were read.
    pub fn end_fresh(&mut self) {
        self.fresh = false;
    }

    /// Whether it may hold packets that were sent before those in the shared sockets.
    #[inline]
    pub fn precedes_shared(&self) -> bool {
        self.aimed.is_some() || self.rested.is_some()
    }

    /// Whose packets it may hold, and from where they are read.
    pub fn holds(&mut self) -> Option<(&mut RxSocket, Incoming)> {
        let flow = self.aimed.or(self.rested)?;
        Some((self.socket.as_mut()?, flow))
    }

    /// A shared socket holds what was sent later, and this one has been read.
    pub fn end_rested(&mut self) {
        self.rested = None;
    }

    /// A message came by a shared socket. Answers whether its flow has earned the inlet.
    #[inline]
    pub fn on_shared(&mut self, flow: &Incoming) -> bool {
        if self.candidate.as_ref() == Some(flow) {
            self.messages = self.messages.saturating_add(1);
        } else {
            self.messages = self.messages.saturating_sub(OTHER_COSTS);
            if self.messages == 0 {
                (self.candidate, self.messages) = (Some(*flow), 1);
            }
        }
        self.messages >= self.earns_at && self.aimed.is_none() && !self.given_up
    }

    /// Aim at who earned it. Answers whether that could be; what came before still waits in the shared socket.
    #[cold]
    pub fn aim(&mut self) -> bool {
        let Some(flow) = self.candidate.take() else { return false };
        self.messages = 0;
        let scoped = matches!(flow.src, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if scoped || flow.dst.is_multicast() {
            return false;
        }
        if self.here != Some(flow.dst) {
            self.close();
        }
        let aimed = match &self.socket {
            Some(socket) => udp::aim(&socket.fd, &flow),
            None => udp::inlet(self.port, &flow).map(|fd| {
                let mut socket = RxSocket::of_flow(fd);
                if self.describes {
                    describe(&mut socket);
                }
                (self.socket, self.here) = (Some(socket), Some(flow.dst));
            }),
        };
        match aimed {
            Ok(()) => (self.aimed, self.earns_at, self.fresh) = (Some(flow), MESSAGES_TO_EARN, true),
            Err(_) => {
                // The socket may still be connected to an earlier peer: only its end is sure to free that flow.
                self.close();
                self.earns_at = self.earns_at.saturating_mul(EARN_AGAIN_FACTOR);
            }
        }
        self.aimed.is_some()
    }

    /// Takes no more packets. `read` gets the socket with those that came until now, and whose they are.
    ///
    /// A socket whose address or route went stays connected, and would take the flow's packets again as soon as the
    /// address is back. So it is closed, and the flow comes by the shared sockets.
    #[cold]
    pub fn rest(&mut self, read: impl FnOnce(&mut RxSocket, &Incoming) -> usize) -> usize {
        let (Some(flow), Some(socket)) = (self.aimed.take(), &mut self.socket) else { return 0 };
        let rests = udp::rest(&socket.fd, self.port, flow.dst).is_ok();
        let came = read(socket, &flow);
        self.fresh = false;
        if rests {
            self.rested = Some(flow);
        } else {
            self.close();
        }
        came
    }

    fn close(&mut self) {
        (self.socket, self.here, self.rested) = (None, None, None);
    }

    /// Has the kernel refuse the next [`Inlet::rest`], as it does when the address is gone.
    #[cfg(test)]
    pub fn lose_address(&mut self) {
        if let Some(flow) = &mut self.aimed {
            flow.dst = std::net::Ipv4Addr::BROADCAST.into();
        }
    }

    /// As after another [`Inlet::rest`].
    #[cfg(test)]
    pub fn rest_again(&mut self, flow: Incoming) {
        self.rested = Some(flow);
    }

    /// It took what is not for this process: no more of that.
    #[cold]
    pub fn give_up(&mut self) {
        *self = Inlet { given_up: true, ..Inlet::default() };
    }

    /// Tell traffic class and hop limit of what comes from now on.
    pub fn learn_network_header(&mut self) {
        self.describes = true;
        if let Some(socket) = &mut self.socket {
            describe(socket);
        }
    }
}

fn describe(socket: &mut RxSocket) {
    let _ = udp::describe_inlet(&socket.fd);
    socket.tell_all();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(sport: u16) -> Incoming {
        Incoming { src: [10, 0, 0, 1].into(), sport, dst: [10, 0, 0, 2].into(), ifindex: 1 }
    }

    #[test]
    fn who_sends_nearly_all_earns_it() {
        let mut inlet = Inlet::default();
        let earned = |inlet: &mut Inlet, sport, n: u32| (0..n).any(|_| inlet.on_shared(&flow(sport)));
        assert!(!earned(&mut inlet, 1, MESSAGES_TO_EARN - 1));
        assert!(!earned(&mut inlet, 2, 1));
        assert!(!earned(&mut inlet, 1, OTHER_COSTS));
        assert!(earned(&mut inlet, 1, 1));
        let mut inlet = Inlet::default();
        assert!(!(0..1000).any(|i| earned(&mut inlet, i % 9, OTHER_COSTS)), "many do");
    }
}
