//! The send path: the packets of a batch are sorted by flow ([`crate::flow`]), each flow's packets cut into runs
//! ([`crate::run`]), each run handed to the kernel as one gather list. The order within a flow is kept; the transport
//! needs no more. The hand-over happens while the payload whose CRC was just computed is still in the cache. If the
//! kernel refuses to cut (an old kernel, a device without checksum offload, a segment beyond the device's MTU), the
//! packets go one by one.
//!
//! A full socket buffer (EAGAIN) delays: the rest of the batch is copied, up to a bound, and retried before anything
//! else is sent; meanwhile [`Transmitter::blocked_until`] makes the engine hold back. The copy is needed because the
//! batch names memory that the program may reclaim once the adapter's lock is released. Every packet that could not
//! leave is counted. (The kernel's own queues may still drop accepted packets: that is loss on the wire.)

use std::collections::VecDeque;
use std::io;

use weft_sys::udp::{MESSAGES_MAX, Outbox, Path};
use weft_transport::TxBatch;
use weft_verbs::{Duration, Instant};
use weft_wire::roce::IpMeta;

use crate::flow::{Flow, Flows};
use crate::run::Run;
use crate::seal;
use crate::sockets::{TxSocket, TxSockets};
use crate::stats::LinkStats;

/// Maximum number of packets waiting for room in a socket.
pub const BACKLOG_PACKETS_MAX: usize = 2 * TxBatch::PACKETS_MAX;
/// When to try again after a socket's buffer was full.
const RETRY: Duration = Duration::from_micros(50);
/// Bytes gathered before the kernel is called, unless the flow ends first: well inside a common L2 cache.
const GATHER_BYTES_MAX: usize = 128 << 10;

/// Step between candidate source ports.
const ENTROPY_STEP: u32 = 4099;

/// Capture callback for each sent packet: the headers beneath, and BTH to ICRC.
pub type Tap<'a> = &'a mut dyn FnMut(&IpMeta, &[u8]);

#[derive(Debug)]
struct Waiting {
    socket: usize,
    path: Path,
    ib: Vec<u8>,
}

/// Outcome of a hand-over.
enum Handed {
    /// Number of finished packets.
    Done(usize),
    /// Number of finished packets; the socket takes no more for now.
    Full(usize),
}

/// Sender of batches.
#[derive(Debug)]
pub struct Transmitter {
    outbox: Outbox,
    sockets: TxSockets,
    flows: Flows,
    spans: Vec<usize>,
    backlog: VecDeque<Waiting>,
    blocked_until: Option<Instant>,
    entropy: u32,
}

impl Transmitter {
    /// Makes a transmitter; `entropy` spreads source ports.
    pub fn new(entropy: u64) -> Transmitter {
        Transmitter {
            outbox: Outbox::new(),
            sockets: TxSockets::new(entropy),
            flows: Flows::default(),
            spans: Vec::with_capacity(MESSAGES_MAX),
            backlog: VecDeque::new(),
            blocked_until: None,
            entropy: (entropy >> 32) as u32,
        }
    }

    /// Returns when to call [`Transmitter::retry`], while packets wait for room in a socket; until then make no
    /// batches.
    #[inline]
    pub fn blocked_until(&self) -> Option<Instant> {
        self.blocked_until
    }

    /// Sends waiting packets as far as possible; returns true if none wait any more.
    pub fn retry(&mut self, now: Instant, stats: &mut LinkStats) -> bool {
        while let Some(first) = self.backlog.pop_front() {
            let Some(socket) = self.sockets.get(first.socket) else {
                continue;
            };
            self.outbox.clear();
            self.outbox.stage(first.ib.len()).copy_from_slice(&first.ib);
            self.outbox.end(&first.path, 0);
            match self.outbox.hand_over(&*socket).error {
                None => {
                    stats.tx_packets += 1;
                    stats.tx_messages += 1;
                    stats.tx_bytes += first.ib.len() as u64;
                }
                Some(error) if is_full(&error) => {
                    self.backlog.push_front(first);
                    self.blocked_until = Some(now + RETRY);
                    return false;
                }
                Some(error) => stats.on_refused(1, &error),
            }
        }
        self.blocked_until = None;
        true
    }

    /// Sends a batch; returns whether it holds packets for another link.
    pub fn send(&mut self, now: Instant, batch: &TxBatch, mut tap: Option<Tap<'_>>, stats: &mut LinkStats) -> bool {
        if batch.packets.is_empty() {
            return false;
        }
        if !self.backlog.is_empty() {
            self.retry(now, stats);
        }
        stats.tx_refused += self.flows.sort(batch, &mut self.sockets);
        let mut nth = 0;
        while let Some((flow, packets)) = self.flows.take_active(nth) {
            if let Some(socket) = self.sockets.get(flow.socket) {
                if flow.earns_peer() {
                    self.entropy = self.entropy.wrapping_add(ENTROPY_STEP);
                    flow.connect(socket.segments, self.entropy);
                }
                let mut sender =
                    Sender { outbox: &mut self.outbox, spans: &mut self.spans, stats, batch, socket, flow };
                let (mut done, mut full) = (0, !self.backlog.is_empty());
                while !full && done < packets.len() {
                    match sender.hand_over(&packets[done..], &mut tap) {
                        Handed::Done(n) => done += n,
                        Handed::Full(n) => {
                            done += n;
                            full = true;
                        }
                    }
                }
                for &index in packets.get(done..).unwrap_or_default() {
                    if self.backlog.len() < BACKLOG_PACKETS_MAX {
                        self.backlog.push_back(sender.keep(index, &mut tap));
                        sender.stats.tx_delayed += 1;
                    } else {
                        sender.stats.tx_overflowed += 1;
                    }
                    self.blocked_until = Some(now + RETRY);
                }
            }
            self.flows.put_back(nth, packets);
            nth += 1;
        }
        self.flows.finish()
    }
}

/// One flow of one batch during its send.
struct Sender<'a> {
    outbox: &'a mut Outbox,
    spans: &'a mut Vec<usize>,
    stats: &'a mut LinkStats,
    batch: &'a TxBatch,
    socket: &'a mut TxSocket,
    flow: &'a mut Flow,
}

impl Sender<'_> {
    /// Builds as many runs as fit into one hand-over, and makes it.
    fn hand_over(&mut self, packets: &[u16], tap: &mut Option<Tap<'_>>) -> Handed {
        self.build(packets);
        if self.spans.is_empty() {
            // A packet larger than the outbox: no transport makes one.
            self.stats.tx_refused += 1;
            return Handed::Done(1);
        }
        let handed = match &self.flow.peer {
            Some(peer) => self.outbox.hand_over(peer),
            None => self.outbox.hand_over(&*self.socket),
        };
        let done: usize = self.spans.iter().take(handed.messages).sum();
        self.count(handed.messages, &packets[..done]);
        if let Some(tap) = tap {
            self.show(&packets[..done], tap);
        }
        let full = handed.error.as_ref().is_some_and(is_full);
        if self.flow.peer.is_none() && handed.messages > 0 {
            self.socket.doubted = false;
        }
        if let Some(peer) = &mut self.flow.peer {
            let numbered = peer.on_sent(handed.messages);
            if numbered.is_err() || handed.error.is_some() && !full {
                if let Some(error) = &handed.error {
                    self.stats.on_socket_error(error);
                }
                // The rest leaves by the shared socket, whose errors are handled below.
                self.flow.disconnect();
                return Handed::Done(done);
            }
        }
        match handed.error {
            None => Handed::Done(done),
            Some(_) if full => Handed::Full(done),
            Some(error) => self.refused(packets, done, handed.messages, &error, tap),
        }
    }

    /// Handles a message that the shared socket refused.
    #[cold]
    fn refused(
        &mut self,
        packets: &[u16],
        done: usize,
        message: usize,
        error: &io::Error,
        tap: &mut Option<Tap<'_>>,
    ) -> Handed {
        let failed = self.spans.get(message).copied().unwrap_or(0);
        if failed > 1 && self.socket.segments && refuses_segments(error) {
            (self.socket.segments, self.socket.doubted) = (false, true);
            return Handed::Done(done);
        }
        if std::mem::take(&mut self.socket.doubted) {
            // A packet alone is refused, too: its address or route is gone, or it is larger than the MTU. Cutting is
            // not the cause, and later packets may be cut again.
            self.socket.segments = true;
        }
        if is_unmapped(error) && failed > 1 {
            // One of them is the cause: send them one by one, so that the others leave.
            return self.singly(&packets[done..done + failed], done, tap);
        }
        match is_unmapped(error) {
            true => self.stats.tx_unmapped += failed as u64,
            false => self.stats.on_refused(failed as u64, error),
        }
        Handed::Done(done + failed)
    }

    fn singly(&mut self, packets: &[u16], before: usize, tap: &mut Option<Tap<'_>>) -> Handed {
        for (n, index) in packets.iter().enumerate() {
            if let Handed::Full(_) = self.hand_over(std::slice::from_ref(index), tap) {
                return Handed::Full(before + n);
            }
        }
        Handed::Done(before + packets.len())
    }

    fn build(&mut self, packets: &[u16]) {
        self.outbox.clear();
        self.spans.clear();
        if let Some(peer) = &mut self.flow.peer {
            peer.learn();
        }
        let segments = self.flow.peer.as_ref().map_or(self.socket.segments, |peer| peer.segments);
        let (mut run, mut gathered) = (Run::default(), 0);
        for &index in packets {
            let packet = &self.batch.packets[usize::from(index)];
            let (len, pieces) = (seal::sealed_len(packet), seal::pieces_max(packet));
            if !run.takes(len, pieces, !segments) {
                self.end(&run);
                gathered += run.bytes();
                run = Run::default();
                if gathered + len > GATHER_BYTES_MAX {
                    break;
                }
            }
            if !self.outbox.has_room(seal::stage_max(self.batch, packet), pieces) {
                break;
            }
            let number = run.add(len, pieces);
            let (_, seed) = self.seed(len, self.spans.len(), number);
            seal::put(self.outbox, self.batch, packet, seed);
        }
        if run.count() > 0 {
            self.end(&run);
        }
    }

    fn end(&mut self, run: &Run) {
        match &mut self.flow.peer {
            Some(peer) => self.outbox.end_to_peer(peer.cut(run)),
            None => self.outbox.end(&self.flow.path, run.segment()),
        }
        self.spans.push(run.count());
    }

    /// Returns the identification and the ICRC seed of a packet of `len` bytes that is segment number `number` of the
    /// `nth` message in the hand-over.
    #[inline]
    fn seed(&mut self, len: usize, nth: usize, number: u16) -> (u16, u32) {
        match &mut self.flow.peer {
            Some(peer) => {
                let ip_id = peer.ip_id(nth).wrapping_add(number);
                (ip_id, peer.seeds.seed(len, ip_id))
            }
            None => (number, self.flow.seeds.seed(len, number)),
        }
    }

    fn count(&mut self, messages: usize, packets: &[u16]) {
        self.flow.on_sent(messages);
        self.stats.tx_messages += messages as u64;
        self.stats.tx_packets += packets.len() as u64;
        for &index in packets {
            self.stats.tx_bytes += seal::sealed_len(&self.batch.packets[usize::from(index)]) as u64;
        }
    }

    /// Shows a capture the packets that just left, message by message.
    fn show(&mut self, mut packets: &[u16], tap: &mut Tap<'_>) {
        let mut nth = 0;
        while let Some((these, others)) = self.spans.get(nth).and_then(|&span| packets.split_at_checked(span)) {
            for (number, &index) in these.iter().enumerate() {
                let packet = &self.batch.packets[usize::from(index)];
                let mut ib = vec![0; seal::sealed_len(packet)];
                let (ip_id, seed) = self.seed(ib.len(), nth, number as u16);
                seal::copy_into(&mut ib, self.batch, packet, seed);
                let sport = self.flow.peer.as_ref().map_or(self.flow.sport, |peer| peer.port);
                tap(&self.flow.meta(sport, ip_id), &ib);
            }
            packets = others;
            nth += 1;
        }
    }

    /// Copies a packet that waits for the shared socket; a capture sees it now.
    fn keep(&mut self, index: u16, tap: &mut Option<Tap<'_>>) -> Waiting {
        let packet = &self.batch.packets[usize::from(index)];
        let mut ib = vec![0; seal::sealed_len(packet)];
        let seed = self.flow.seeds.seed(ib.len(), 0);
        seal::copy_into(&mut ib, self.batch, packet, seed);
        if let Some(tap) = tap {
            tap(&self.flow.meta(self.flow.sport, 0), &ib);
        }
        Waiting { socket: self.flow.socket, path: self.flow.path, ib }
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether the error is EFAULT, which has no `ErrorKind` of its own.
fn is_unmapped(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

/// Whether the error may mean that the kernel refuses to cut: EINVAL or EMSGSIZE (segment beyond the MTU), EIO (no
/// checksum offload), ENOPROTOOPT or EOPNOTSUPP (unknown). If it means something else (EINVAL: the source address is
/// gone), the kernel refuses a single packet as well.
fn refuses_segments(error: &io::Error) -> bool {
    use libc::{EINVAL, EIO, EMSGSIZE, ENOPROTOOPT, EOPNOTSUPP};
    matches!(error.raw_os_error(), Some(EIO | EINVAL | EMSGSIZE | ENOPROTOOPT | EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::PeerSocket;
    use crate::senders::Senders;
    use std::net::{IpAddr, Ipv4Addr, UdpSocket};
    use weft_verbs::{AddressVector, Gid};
    use weft_wire::bth::Bth;
    use weft_wire::icrc;
    use weft_wire::opcode::Opcode;
    use weft_wire::packet::{HeaderBuf, Headers};
    use weft_wire::psn::Psn;

    /// A packet of each of these payload lengths; those of equal length may leave as segments of one send.
    fn batch(src: [u8; 4], payloads: &[usize]) -> TxBatch {
        let gid = |ip: [u8; 4]| Gid::from(IpAddr::from(ip));
        let av = AddressVector { hop_limit: 0, ..crate::testing::av(gid(src), gid([127, 0, 0, 1])) };
        let mut batch = TxBatch::default();
        for (psn, &payload) in (0..).zip(payloads) {
            let bth = Bth::new(Opcode(4), 0xffff, 0xff_ffff, Psn::new(psn));
            batch.begin(av, 0xff_ffff, 1, HeaderBuf::write(bth, &Headers::default(), payload).as_slice());
            batch.bytes(&vec![7; payload]);
        }
        batch
    }

    #[test]
    fn an_address_that_is_gone_for_a_while_does_not_end_segmentation() {
        let (mut transmitter, mut stats) = (Transmitter::new(7), LinkStats::default());
        let mut send = |src, packets| {
            let before = stats;
            transmitter.send(Instant(0), &batch(src, &vec![64; packets]), None, &mut stats);
            (stats.tx_messages - before.tx_messages, stats.tx_refused - before.tx_refused)
        };
        assert_eq!(send([127, 0, 0, 1], 8), (1, 0));
        assert_eq!(send([192, 0, 2, 1], 8), (0, 8), "no address of this host");
        assert_eq!(send([192, 0, 2, 1], 1), (0, 1));
        assert_eq!(send([127, 0, 0, 1], 8), (1, 0));
    }
    #[test]
    fn each_message_of_a_hand_over_is_cut_by_its_own_length() {
        // Runs of one length; then runs of two lengths in turn, and lone packets in between, as of long RDMA messages.
        const SHORT: [usize; 2] = [80, 64];
        const LONG: [usize; 12] = [80, 64, 64, 64, 64, 68, 80, 64, 64, 64, 64, 68];
        const HAND_OVERS: usize = 200;
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let port = receiver.local_addr().unwrap().port();
        let (mut transmitter, mut stats, mut senders) = (Transmitter::new(7), LinkStats::default(), Senders::default());
        let [short, long] = [batch([127, 0, 0, 1], &SHORT), batch([127, 0, 0, 1], &LONG)];
        for nth in 0..HAND_OVERS {
            let batch = if nth < HAND_OVERS / 4 { &short } else { &long };
            let Transmitter { outbox, sockets, flows, spans, .. } = &mut transmitter;
            assert_eq!(flows.sort(batch, sockets), 0);
            let (flow, packets) = flows.take_active(0).unwrap();
            let socket = sockets.get(flow.socket).unwrap();
            flow.path.port = port;
            if flow.peer.is_none() {
                flow.peer = Some(PeerSocket::open(&flow.path, true, 7).unwrap());
            }
            let sport = flow.peer.as_ref().unwrap().port;
            let mut sender = Sender { outbox, spans, stats: &mut stats, batch, socket, flow };
            let handed = sender.hand_over(&packets, &mut None);
            assert!(matches!(handed, Handed::Done(n) if n == batch.packets.len()));
            flows.put_back(0, packets);
            flows.finish();

            let covered = icrc::Flow::V4 { src: Ipv4Addr::LOCALHOST, dst: Ipv4Addr::LOCALHOST, sport };
            let mut bytes = [0; 2048];
            for packet in &batch.packets {
                let len = receiver.recv(&mut bytes).unwrap();
                assert_eq!(len, seal::sealed_len(packet), "hand-over {nth}");
                assert!(senders.check(&covered, &bytes[..len], 0).is_some(), "hand-over {nth}");
            }
        }
    }
}
