//! One socket to receive from, and how many messages it is asked for at once.

use std::io;
use std::os::fd::OwnedFd;

use weft_sys::fork;
use weft_sys::udp::{Inbox, Incoming, Received};

use crate::datagram::Datagram;
use crate::receive::Each;
use crate::short::Short;
use crate::stats::LinkStats;

/// A message longer than this fills its buffer well: more buffers at once would only push each other out of the cache.
const LONG_MESSAGE_BYTES: usize = 16 << 10;
/// Datagrams of one message that are looked at; no merged buffer of packets with a BTH and an ICRC holds more.
const SEGMENTS_MAX: usize = 4096;

/// The socket.
#[derive(Debug)]
pub struct RxSocket {
    /// The descriptor.
    pub fd: OwnedFd,
    /// Receives until it counts as cold.
    pub warm: u32,
    /// Messages to ask for at once: grows while that many come, time after time.
    depth: usize,
    /// Whether the last receive brought as many as asked for.
    filled: bool,
    /// Of a socket that takes one flow: whether messages may be looked at before they are taken.
    short: Option<Short>,
    /// The first message that waits was read already.
    peeked: bool,
}

impl RxSocket {
    /// Of a descriptor that a forked child is not to keep.
    pub fn new(fd: OwnedFd) -> RxSocket {
        fork::track(&fd);
        RxSocket { fd, warm: 0, depth: 1, filled: false, short: None, peeked: false }
    }

    /// Of a descriptor that takes one flow at a time, whose traffic class and hop limit nobody wants to know.
    pub fn of_flow(fd: OwnedFd) -> RxSocket {
        let mut socket = RxSocket::new(fd);
        socket.short = Some(Short::default());
        socket
    }

    /// What the kernel tells with each message is wanted from now on.
    pub fn tell_all(&mut self) {
        self.short = None;
    }

    /// Receive some of what waits; `flow` is all that comes, if that is known. `of` hears whose each message is.
    ///
    /// One system call: a second one, to find the socket empty, would stand between a packet and whoever waits for it.
    pub fn read(
        &mut self,
        inbox: &mut Inbox,
        flow: Option<&Incoming>,
        stats: &mut LinkStats,
        each: &mut impl Each,
        mut of: impl FnMut(&Incoming),
    ) -> usize {
        if std::mem::take(&mut self.peeked) {
            inbox.take_peeked(&self.fd);
        }
        let (asked, mut shown) = (self.depth, None);
        let received = match (flow, &mut self.short) {
            (None, _) => inbox.receive(&self.fd, asked),
            (Some(flow), Some(short)) if asked == 1 && short.is_likely() => {
                look(inbox, &self.fd, flow, short, &mut shown)
            }
            (Some(_), _) => inbox.receive_flow(&self.fd, asked),
        };
        self.peeked = shown.is_some();
        // An error (ICMP's, say) is about one packet of one sender; the next receive goes on.
        let messages = received.unwrap_or(0);
        let (mut count, mut longest) = (0, 0);
        for index in 0..messages {
            let message = match flow {
                None => inbox.message(index),
                Some(flow) => inbox.message_of(index, flow),
            };
            let Some(mut message) = message else {
                stats.rx_malformed += 1;
                count += 1;
                continue;
            };
            match (shown, flow, &mut self.short) {
                (Some(segment), ..) => message.segment = segment,
                (None, Some(flow), Some(short)) => short.on_told(flow, &message),
                _ => {}
            }
            longest = longest.max(message.bytes.len());
            count += cut(&message, stats, each);
            let Received { src, sport, dst, ifindex, .. } = message;
            of(&Incoming { src, sport, dst, ifindex });
        }
        stats.rx_messages += messages as u64;
        self.depth = match messages {
            _ if longest > LONG_MESSAGE_BYTES => 1,
            // A lone message, with nothing behind it, is the answer that somebody polls for: asking for two costs him a
            // look at an empty socket.
            n if n == asked && self.filled => (asked * 2).min(inbox.buffers()),
            n if n * 2 <= asked => (asked / 2).max(1),
            _ => asked,
        };
        self.filled = messages == asked;
        count
    }
}

/// Look at the next message without taking it, and take it if it does not show how it is cut.
#[inline]
fn look(
    inbox: &mut Inbox,
    fd: &OwnedFd,
    flow: &Incoming,
    short: &mut Short,
    shown: &mut Option<usize>,
) -> io::Result<usize> {
    if inbox.peek(fd)?.is_none() {
        return Ok(0);
    }
    *shown = inbox.message_of(0, flow).and_then(|message| short.segment(flow, message.bytes));
    if shown.is_some() { Ok(1) } else { inbox.receive_flow(fd, 1) }
}

impl Drop for RxSocket {
    fn drop(&mut self) {
        fork::forget(&self.fd);
    }
}

/// Take a merged message apart.
fn cut(message: &Received<'_>, stats: &mut LinkStats, each: &mut impl Each) -> usize {
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
