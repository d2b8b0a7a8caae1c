//! One receiving socket, and how many messages to request from it at once.

use std::io;
use std::os::fd::OwnedFd;

use weft_sys::fork;
use weft_sys::udp::{Inbox, Incoming, Received};

use crate::datagram::Datagram;
use crate::handler::Each;
use crate::peek_parser::PeekParser;
use crate::stats::LinkStats;

/// A message longer than this fills its buffer well: more buffers at once would only push each other out of the cache.
const LONG_MESSAGE_BYTES: usize = 16 << 10;
/// Maximum number of datagrams read from one message; no merged buffer of packets with a BTH and an ICRC holds more.
const SEGMENTS_MAX: usize = 4096;

/// A receiving socket.
#[derive(Debug)]
pub struct RxSocket {
    /// The descriptor.
    pub fd: OwnedFd,
    /// Receives until it counts as cold.
    pub warm: u32,
    /// Messages to request at once: grows while that many come, time after time.
    depth: usize,
    /// Whether the last receive returned as many as requested.
    filled: bool,
    /// For a socket of one flow: state for peeking at messages before they are taken.
    short: Option<PeekParser>,
    /// The first waiting message was already read.
    peeked: bool,
}

impl RxSocket {
    /// Makes a socket of a descriptor, which a forked child must not keep.
    pub fn new(fd: OwnedFd) -> RxSocket {
        fork::track(&fd);
        RxSocket { fd, warm: 0, depth: 1, filled: false, short: None, peeked: false }
    }

    /// Makes a socket of a descriptor that takes one flow at a time, without traffic class and hop limit.
    pub fn of_flow(fd: OwnedFd) -> RxSocket {
        let mut socket = RxSocket::new(fd);
        socket.short = Some(PeekParser::default());
        socket
    }

    /// Requests the kernel's control data with each message from now on.
    pub fn tell_all(&mut self) {
        self.short = None;
    }

    /// Receives some of the waiting messages; `flow` is the only flow, if known. `of` gets each message's flow.
    ///
    /// Makes one system call: a second one, to find the socket empty, would delay the packet's receiver.
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
        // An error (ICMP's, say) concerns one packet of one sender; the next receive continues.
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
            // A lone message, with nothing behind it, is the answer that the program polls for: a request for two would
            // cost it a read of an empty socket.
            n if n == asked && self.filled => (asked * 2).min(inbox.buffers()),
            n if n * 2 <= asked => (asked / 2).max(1),
            _ => asked,
        };
        self.filled = messages == asked;
        count
    }
}

/// Peeks at the next message, and takes it if it does not show how it is cut.
#[inline]
fn look(
    inbox: &mut Inbox,
    fd: &OwnedFd,
    flow: &Incoming,
    short: &mut PeekParser,
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

/// Cuts a merged message into its datagrams.
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
