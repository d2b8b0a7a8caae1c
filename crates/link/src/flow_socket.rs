//! A socket for one flow's incoming messages. While the program polls for the messages of one peer, they arrive through
//! a socket that takes nothing else ([`weft_sys::udp::flow_socket`]): they arrive sooner, and there is less to read. A
//! flow earns the flow socket while nearly all arrivals are its own. Before any thread sleeps, and when the flow goes
//! quiet, the socket rests; the messages in it by then are read.
//!
//! The kernel chooses a message's socket first, and delivers the message a moment later. So each change keeps the
//! sockets' order: a newly attached socket is read after the shared sockets, and shared sockets are read after a
//! resting one ([`crate::receive`]).
//!
//! One source port carries packets for one process of this host, if the sender is Weft or uses a port per queue pair.
//! With other senders, packets for other processes come through the flow socket and are lost. The first of these ends
//! the flow socket for good.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use weft_sys::udp::{self, Incoming};

use crate::rx_socket::RxSocket;

/// Consecutive messages with which a flow earns it.
const MESSAGES_TO_EARN: u32 = 64;
/// Reduction of the count for each message of another flow.
const OTHER_COSTS: u32 = 16;
/// Factor on that number after the kernel refused the socket, until the kernel grants one again.
const EARN_AGAIN_FACTOR: u32 = 64;

/// The flow socket's socket, its flow, and the candidate for it.
#[derive(Debug)]
pub struct FlowSocket {
    /// The port to which packets come.
    port: u16,
    socket: Option<RxSocket>,
    /// The flow whose packets the socket takes.
    attached: Option<Incoming>,
    /// The socket has not been read since it was attached.
    fresh: bool,
    /// The flow whose packets it took before it was told to rest. A packet in transit at that time may still arrive in
    /// it.
    detached: Option<Incoming>,
    /// The address that the socket is bound to.
    here: Option<IpAddr>,
    /// The flow that may earn it, and its count so far.
    candidate: Option<Incoming>,
    messages: u32,
    /// Consecutive messages that earn it.
    earns_at: u32,
    /// It took packets for other processes, and is given up.
    given_up: bool,
    /// Whether messages come with traffic class and hop limit.
    describes: bool,
}

impl Default for FlowSocket {
    fn default() -> FlowSocket {
        FlowSocket {
            port: 0,
            socket: None,
            attached: None,
            fresh: false,
            detached: None,
            here: None,
            candidate: None,
            messages: 0,
            earns_at: MESSAGES_TO_EARN,
            given_up: false,
            describes: false,
        }
    }
}

impl FlowSocket {
    /// Makes a flow socket, without a flow yet, for packets to this port.
    pub fn new(port: u16) -> FlowSocket {
        FlowSocket { port, ..FlowSocket::default() }
    }

    /// Whether it is attached at a flow.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// Returns its socket and flow, if it is attached.
    #[inline]
    pub fn attached(&mut self) -> Option<(&mut RxSocket, Incoming)> {
        let flow = self.attached?;
        Some((self.socket.as_mut()?, flow))
    }

    /// Returns the newly attached socket until a message waits in it: the shared sockets must be read before it.
    #[inline]
    pub fn fresh(&mut self) -> Option<BorrowedFd<'_>> {
        if !self.fresh {
            return None;
        }
        Some(self.socket.as_ref()?.fd.as_fd())
    }

    /// Records that the shared sockets were read.
    pub fn end_fresh(&mut self) {
        self.fresh = false;
    }

    /// Whether it may hold packets that were sent before those in the shared sockets.
    #[inline]
    pub fn precedes_shared(&self) -> bool {
        self.attached.is_some() || self.detached.is_some()
    }

    /// Returns the socket and the flow whose packets it may hold.
    pub fn holds(&mut self) -> Option<(&mut RxSocket, Incoming)> {
        let flow = self.attached.or(self.detached)?;
        Some((self.socket.as_mut()?, flow))
    }

    /// Records that this socket has been read before later messages in a shared socket.
    pub fn end_detached(&mut self) {
        self.detached = None;
    }

    /// Counts a message in a shared socket. Returns whether its flow has earned the flow socket.
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
        self.messages >= self.earns_at && self.attached.is_none() && !self.given_up
    }

    /// Aims at the flow that earned it, and returns whether that worked; earlier messages still wait in the shared
    /// socket.
    #[cold]
    pub fn attach(&mut self) -> bool {
        let Some(flow) = self.candidate.take() else { return false };
        self.messages = 0;
        let scoped = matches!(flow.src, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if scoped || flow.dst.is_multicast() {
            return false;
        }
        if self.here != Some(flow.dst) {
            self.close();
        }
        let attached = match &self.socket {
            Some(socket) => udp::attach(&socket.fd, &flow),
            None => udp::flow_socket(self.port, &flow).map(|fd| {
                let mut socket = RxSocket::of_flow(fd);
                if self.describes {
                    describe(&mut socket);
                }
                (self.socket, self.here) = (Some(socket), Some(flow.dst));
            }),
        };
        match attached {
            Ok(()) => (self.attached, self.earns_at, self.fresh) = (Some(flow), MESSAGES_TO_EARN, true),
            Err(_) => {
                // The socket may still be connected to an earlier peer: only closing it surely frees that flow.
                self.close();
                self.earns_at = self.earns_at.saturating_mul(EARN_AGAIN_FACTOR);
            }
        }
        self.attached.is_some()
    }

    /// Stops taking packets. `read` gets the socket with the messages so far, and their flow.
    ///
    /// If its address or route has gone, the socket stays connected, and would take the flow's packets again as soon as
    /// the address is back. So it is closed, and the flow uses the shared sockets.
    #[cold]
    pub fn detach(&mut self, read: impl FnOnce(&mut RxSocket, &Incoming) -> usize) -> usize {
        let (Some(flow), Some(socket)) = (self.attached.take(), &mut self.socket) else { return 0 };
        let rests = udp::detach(&socket.fd, self.port, flow.dst).is_ok();
        let came = read(socket, &flow);
        self.fresh = false;
        if rests {
            self.detached = Some(flow);
        } else {
            self.close();
        }
        came
    }

    fn close(&mut self) {
        (self.socket, self.here, self.detached) = (None, None, None);
    }

    /// Makes the kernel refuse the next [`FlowSocket::rest`], as it does when the address is gone.
    #[cfg(test)]
    pub fn lose_address(&mut self) {
        if let Some(flow) = &mut self.attached {
            flow.dst = std::net::Ipv4Addr::BROADCAST.into();
        }
    }

    /// Sets the state after another [`FlowSocket::rest`].
    #[cfg(test)]
    pub fn detach_again(&mut self, flow: Incoming) {
        self.detached = Some(flow);
    }

    /// Gives the flow socket up for good: it took packets for another process.
    #[cold]
    pub fn give_up(&mut self) {
        *self = FlowSocket { given_up: true, ..FlowSocket::default() };
    }

    /// Enables traffic class and hop limit with messages from now on.
    pub fn learn_network_header(&mut self) {
        self.describes = true;
        if let Some(socket) = &mut self.socket {
            describe(socket);
        }
    }
}

fn describe(socket: &mut RxSocket) {
    let _ = udp::describe_flow_socket(&socket.fd);
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
        let mut flow_socket = FlowSocket::default();
        let earned = |flow_socket: &mut FlowSocket, sport, n: u32| (0..n).any(|_| flow_socket.on_shared(&flow(sport)));
        assert!(!earned(&mut flow_socket, 1, MESSAGES_TO_EARN - 1));
        assert!(!earned(&mut flow_socket, 2, 1));
        assert!(!earned(&mut flow_socket, 1, OTHER_COSTS));
        assert!(earned(&mut flow_socket, 1, 1));
        let mut flow_socket = FlowSocket::default();
        assert!(!(0..1000).any(|i| earned(&mut flow_socket, i % 9, OTHER_COSTS)), "many do");
    }
}
