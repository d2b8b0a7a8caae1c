//! The way in: the sockets of port 4791 that the daemon handed us, one for IPv4 and one for IPv6, read without sleeping
//! into a few large buffers that are used again and again. A look at a socket where nothing is costs a system call, so
//! a family in which nothing came lately is looked at more rarely than the one in use.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_sys::fork;
use weft_sys::roce_port::{self, Family};
use weft_sys::udp::{Inbox, Received};

use crate::datagram::Datagram;
use crate::stats::LinkStats;

/// Buffers of 64 KiB.
const RECEIVE_BUFFERS: usize = 8;
/// A family where nothing came lately is looked at once in this many receives.
const COLD_PERIOD: u32 = 64;
/// Receives after the last packet for which a family counts as in use.
const WARM_RECEIVES: u32 = 4096;
/// A message longer than this fills its buffer well: more buffers at once would only push each other out of the cache.
const LONG_MESSAGE_BYTES: usize = 16 << 10;
/// Datagrams of one message that are looked at; no merged buffer of packets with a BTH and an ICRC holds more.
const SEGMENTS_MAX: usize = 4096;

#[derive(Debug)]
struct RxSocket {
    fd: OwnedFd,
    /// Receives until it counts as cold.
    warm: u32,
    /// Messages to ask for at once: grows while that many come, time after time.
    depth: usize,
    /// Whether the last receive brought as many as asked for.
    filled: bool,
}

impl RxSocket {
    fn new(fd: OwnedFd) -> RxSocket {
        fork::track(&fd);
        RxSocket { fd, warm: 0, depth: 1, filled: false }
    }
}

impl Drop for RxSocket {
    fn drop(&mut self) {
        fork::forget(&self.fd);
    }
}

/// Receives datagrams.
#[derive(Debug)]
pub struct Receiver {
    v4: Option<RxSocket>,
    v6: Option<RxSocket>,
    tick: u32,
    inbox: Inbox,
}

impl Receiver {
    /// From sockets bound to port 4791.
    pub fn new(v4: Option<OwnedFd>, v6: Option<OwnedFd>) -> Receiver {
        Receiver { v4: v4.map(RxSocket::new), v6: v6.map(RxSocket::new), tick: 0, inbox: Inbox::new(RECEIVE_BUFFERS) }
    }

    /// The socket for IPv4.
    pub fn v4(&self) -> Option<BorrowedFd<'_>> {
        self.v4.as_ref().map(|s| s.fd.as_fd())
    }

    /// The socket for IPv6.
    pub fn v6(&self) -> Option<BorrowedFd<'_>> {
        self.v6.as_ref().map(|s| s.fd.as_fd())
    }

    /// Learn traffic class and hop limit of what comes from now on. A kernel that refuses leaves them at their defaults.
    pub fn learn_network_header(&self) {
        for (socket, family) in [(&self.v4, Family::V4), (&self.v6, Family::V6)] {
            if let Some(socket) = socket {
                let _ = roce_port::describe_network_header(&socket.fd, family);
            }
        }
    }

    /// Receive some of what waits, without sleeping; answers how many datagrams came. `thorough` looks at both families
    /// whatever came lately (somebody slept until one of them was readable).
    pub fn receive(
        &mut self,
        thorough: bool,
        stats: &mut LinkStats,
        each: &mut impl FnMut(&Datagram<'_>, &mut LinkStats),
    ) -> usize {
        self.tick = self.tick.wrapping_add(1);
        let look_at_all = thorough || self.tick.is_multiple_of(COLD_PERIOD);
        let v6_alone = self.v6.as_ref().is_some_and(|s| s.warm > 0) && self.v4.as_ref().is_none_or(|s| s.warm == 0);
        let mut count = 0;
        for (socket, cold) in [(&mut self.v4, v6_alone), (&mut self.v6, true)] {
            let Some(socket) = socket else { continue };
            if cold && socket.warm == 0 && !look_at_all {
                continue;
            }
            let came = receive_from(socket, &mut self.inbox, stats, each);
            socket.warm = match came {
                0 => socket.warm.saturating_sub(1),
                _ => WARM_RECEIVES,
            };
            count += came;
        }
        count
    }
}

/// One system call: a second one, to find the socket empty, would stand between a packet and whoever waits for it.
fn receive_from(
    socket: &mut RxSocket,
    inbox: &mut Inbox,
    stats: &mut LinkStats,
    each: &mut impl FnMut(&Datagram<'_>, &mut LinkStats),
) -> usize {
    let asked = socket.depth;
    // An error (ICMP's, say) is about one packet of one sender; the next receive goes on.
    let messages = inbox.receive(&socket.fd, asked).unwrap_or(0);
    let (mut count, mut longest) = (0, 0);
    for index in 0..messages {
        let Some(message) = inbox.message(index) else {
            stats.rx_malformed += 1;
            count += 1;
            continue;
        };
        longest = longest.max(message.bytes.len());
        count += cut(&message, stats, each);
    }
    stats.rx_messages += messages as u64;
    socket.depth = match messages {
        _ if longest > LONG_MESSAGE_BYTES => 1,
        // A lone message, with nothing behind it, is the answer that somebody polls for: asking for two costs him a look
        // at an empty socket.
        n if n == asked && socket.filled => (asked * 2).min(inbox.buffers()),
        n if n * 2 <= asked => (asked / 2).max(1),
        _ => asked,
    };
    socket.filled = messages == asked;
    count
}

/// Take a merged message apart.
fn cut(message: &Received<'_>, stats: &mut LinkStats, each: &mut impl FnMut(&Datagram<'_>, &mut LinkStats)) -> usize {
    let mut count = 0;
    for (number, ib) in message.bytes.chunks(message.segment.max(1)).take(SEGMENTS_MAX).enumerate() {
        let datagram = Datagram {
            ib,
            src: message.src,
            sport: message.sport,
            dst: message.dst,
            ifindex: message.ifindex,
            traffic_class: message.traffic_class,
            hop_limit: message.hop_limit,
            segment: number as u16,
            grh: None,
        };
        each(&datagram, stats);
        count += 1;
    }
    count.max(1)
}
