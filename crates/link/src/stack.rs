//! A link and its wrappers: the engine's interface to send batches and receive packets.

use std::os::fd::{BorrowedFd, OwnedFd};

use weft_transport::{RxPacket, TxBatch};
use weft_verbs::{Gid, Instant, QPN_INDEX_BITS};
use weft_wire::MULTICAST_QPN;
use weft_wire::pcapng::Direction;

use crate::datagram::{Datagram, Refused};
use crate::ether::EtherLink;
use crate::hops::HopsLink;
use crate::senders::Senders;
use crate::stats::LinkStats;
use crate::udp::UdpLink;
use crate::wrap::fault::{Batches, Fault, FaultSpec, Leaving, LeavingCopy, Received};
use crate::wrap::pcap::Capture;

/// Parts of a stack.
#[derive(Debug, Default)]
pub struct StackConfig {
    /// Socket of port 4791 for IPv4.
    pub v4: Option<OwnedFd>,
    /// Socket of port 4791 for IPv6.
    pub v6: Option<OwnedFd>,
    /// Slot of this process's queue pair numbers; packets for another one are dropped.
    pub slot: u32,
    /// Spreads source ports.
    pub entropy: u64,
    /// Whether the process may open packet sockets, which RoCE v1 needs.
    pub ether: bool,
    /// Faults to inject, with their numbers.
    pub faults: Vec<(u32, FaultSpec)>,
    /// Capture to write.
    pub capture: Option<Capture>,
    /// The packet channel to an InfiniBand fabric's switches; if present, packets go nowhere else.
    pub hops: Option<HopsLink>,
}

/// A link with its wrappers.
#[derive(Debug)]
pub struct Stack {
    udp: UdpLink,
    ether: Option<EtherLink>,
    hops: Option<HopsLink>,
    faults: Option<Fault<Received>>,
    departing: Option<Box<Departing>>,
    upper: Upper,
}

/// Faults in packets that leave, and the packets that leave now.
#[derive(Debug, Default)]
struct Departing {
    faults: Fault<LeavingCopy>,
    batches: Batches,
}

/// The layers above the faults: the check, the capture, the receiver of packets.
#[derive(Debug)]
struct Upper {
    slot: u32,
    capture: Option<Capture>,
    senders: Senders,
}

impl Stack {
    /// Assembles a stack.
    pub fn new(config: StackConfig) -> Stack {
        let mut udp = UdpLink::new(config.v4, config.v6, config.entropy);
        if config.capture.is_some() {
            udp.learn_network_header();
        }
        let mut stack = Stack {
            udp,
            ether: config.ether.then(|| EtherLink::open(config.slot).ok()).flatten(),
            hops: config.hops,
            faults: None,
            departing: None,
            upper: Upper { slot: config.slot, capture: config.capture, senders: Senders::default() },
        };
        config.faults.into_iter().for_each(|(number, spec)| stack.add_fault(number, spec));
        stack
    }

    /// Returns the socket for IPv4, to sleep on and to join groups with.
    pub fn v4(&self) -> Option<BorrowedFd<'_>> {
        self.udp.v4()
    }

    /// Returns the socket for IPv6, likewise.
    pub fn v6(&self) -> Option<BorrowedFd<'_>> {
        self.udp.v6()
    }

    /// Enables traffic class and hop limit with packets from now on, for datagrams, whose GRH shows them.
    pub fn learn_network_header(&mut self) {
        self.udp.learn_network_header();
    }

    /// Returns RoCE v1's packet socket, if there is one, to sleep on.
    pub fn ether(&self) -> Option<BorrowedFd<'_>> {
        self.ether.as_ref().map(EtherLink::fd)
    }

    /// Starts or stops receiving RoCE v1 frames to a group through an interface.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn ether_membership(&self, join: bool, group: Gid, ifindex: u32) -> std::io::Result<()> {
        self.ether.as_ref().map_or(Ok(()), |ether| ether.membership(join, group, ifindex))
    }

    /// Whether packets may arrive outside the sockets on which a thread sleeps: a thorough receive that finds nothing
    /// ends that state.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.udp.is_attached()
    }

    /// Returns a descriptor that is readable when packets arrived over the fabric during a sleep, if there is one; to
    /// sleep on.
    pub fn hops(&self) -> Option<BorrowedFd<'_>> {
        self.hops.as_ref().and_then(HopsLink::bell)
    }

    /// Announces that no thread receives before a bell rings; returns `false` if packets wait already.
    #[inline]
    pub fn fall_asleep(&mut self) -> bool {
        self.hops.as_mut().is_none_or(HopsLink::fall_asleep)
    }

    /// Announces that a thread receives again. Returns the descriptor of [`Stack::hops`] once nothing arrives there any
    /// more.
    #[inline]
    pub fn wake_up(&mut self) -> Option<OwnedFd> {
        self.hops.as_mut()?.wake_up()
    }

    #[inline]
    fn blocked_until(&self) -> Option<Instant> {
        match &self.hops {
            None => self.udp.blocked_until(),
            Some(hops) => hops.blocked_until(),
        }
    }

    /// Whether packets wait for room in a socket: make no batches until [`Stack::handle_timeout`] has sent them.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked_until().is_some()
    }

    /// Returns when [`Stack::handle_timeout`] has work.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let blocked = self.blocked_until();
        if self.faults.is_none() && self.departing.is_none() {
            return blocked;
        }
        let arriving = self.faults.as_ref().and_then(Fault::poll_timeout);
        // Packets that leave later wait for the socket, too.
        let departing = self.departing_at().filter(|_| blocked.is_none());
        blocked.into_iter().chain(arriving).chain(departing).min()
    }

    /// Returns when the next packet leaves that faults hold back; `None` if they hold none.
    pub fn departing_at(&self) -> Option<Instant> {
        self.departing.as_ref().and_then(|departing| departing.faults.poll_timeout())
    }

    /// Handles expired timers: delayed packets go to `sink`, and packets waiting for a socket leave.
    pub fn handle_timeout(&mut self, now: Instant, sink: &mut impl FnMut(&RxPacket<'_>)) {
        if self.udp.blocked_until().is_some_and(|at| at <= now) {
            self.udp.retry(now);
        }
        if let Some(hops) = &mut self.hops
            && hops.blocked_until().is_some_and(|at| at <= now)
        {
            hops.retry(now, &mut self.udp.stats);
        }
        let mut is_done = self.departing.is_none();
        while !is_done && !self.is_blocked() {
            is_done = self.with_departing(now, |departing| departing.release(now));
        }
        let Stack { udp, faults, upper, .. } = self;
        if let Some(faults) = faults {
            faults.release(now, &mut |d| upper.deliver(d, &mut udp.stats, sink));
            upper.flush();
        }
        self.drop_idle_faults();
    }

    /// Sends a batch.
    #[inline]
    pub fn send(&mut self, now: Instant, batch: &TxBatch) {
        if self.hops.is_some() {
            return self.send_hops(now, batch);
        }
        if self.departing.is_some() {
            self.with_departing(now, |departing| departing.admit(now, batch));
            return;
        }
        self.send_roce(now, batch);
    }

    /// Sends the packets that `choose` lets leave now, and returns its result.
    #[cold]
    fn with_departing(&mut self, now: Instant, choose: impl FnOnce(&mut Departing) -> bool) -> bool {
        let Some(mut departing) = self.departing.take() else { return true };
        let is_done = choose(&mut departing);
        departing.batches.iter().for_each(|batch| self.send_roce(now, batch));
        departing.batches.clear();
        self.departing = Some(departing);
        is_done
    }

    /// Gives up injectors without faults. A fault that was removed may still hold packets back.
    fn drop_idle_faults(&mut self) {
        self.faults.take_if(|faults| faults.is_idle());
        self.departing.take_if(|departing| departing.faults.is_idle());
    }

    fn send_roce(&mut self, now: Instant, batch: &TxBatch) {
        let others = match &mut self.upper.capture {
            None => self.udp.send(now, batch, None),
            Some(capture) => {
                let mut tap = |meta: &_, ib: &[u8]| capture.packet(Direction::Outbound, meta, ib);
                let others = self.udp.send(now, batch, Some(&mut tap));
                capture.flush();
                others
            }
        };
        if others {
            self.send_ether(now, batch);
        }
    }

    fn send_hops(&mut self, now: Instant, batch: &TxBatch) {
        let Stack { udp, hops: Some(hops), upper, .. } = self else { return };
        match &mut upper.capture {
            None => hops.send(now, batch, None, &mut udp.stats),
            Some(capture) => {
                let mut tap = |packet: &[u8]| capture.packet_ib(Direction::Outbound, packet);
                hops.send(now, batch, Some(&mut tap), &mut udp.stats);
                capture.flush();
            }
        }
    }

    fn receive_hops(&mut self, sink: &mut impl FnMut(&RxPacket<'_>)) -> usize {
        let Stack { udp, hops: Some(hops), upper, .. } = self else { return 0 };
        match &mut upper.capture {
            None => hops.receive(None, &mut udp.stats, sink),
            Some(capture) => {
                let mut tap = |packet: &[u8]| capture.packet_ib(Direction::Inbound, packet);
                let came = hops.receive(Some(&mut tap), &mut udp.stats, sink);
                capture.flush();
                came
            }
        }
    }

    #[cold]
    fn send_ether(&mut self, now: Instant, batch: &TxBatch) {
        let stats = &mut self.udp.stats;
        let Some(ether) = &mut self.ether else {
            stats.tx_refused += batch.packets.iter().filter(|packet| EtherLink::takes(packet)).count() as u64;
            return;
        };
        match &mut self.upper.capture {
            None => ether.send(now, batch, None, stats),
            Some(capture) => {
                let mut tap = |grh: &_, ib: &[u8]| capture.packet_v1(Direction::Outbound, grh, ib);
                ether.send(now, batch, Some(&mut tap), stats);
                capture.flush();
            }
        }
    }

    /// Receives some of the waiting packets, without sleeping; returns how many datagrams came, 0 if none waited.
    /// `thorough`: reads every socket, regardless of recent arrivals.
    pub fn receive(&mut self, now: Instant, thorough: bool, sink: &mut impl FnMut(&RxPacket<'_>)) -> usize {
        self.receive_by(|| now, thorough, sink)
    }

    /// Like [`Stack::receive`], for a caller that reads the clock only after an arrival.
    pub fn receive_by(
        &mut self,
        now: impl Fn() -> Instant,
        thorough: bool,
        sink: &mut impl FnMut(&RxPacket<'_>),
    ) -> usize {
        if self.hops.is_some() {
            return self.receive_hops(sink);
        }
        let Stack { udp, ether, faults, upper, .. } = self;
        let mut each = |d: &Datagram<'_>, stats: &mut LinkStats| match faults {
            None => upper.deliver(d, stats, sink),
            Some(faults) => faults.admit(now(), d, &mut |d| upper.deliver(d, stats, sink)),
        };
        let mut came = udp.receive(thorough, &mut each);
        if let Some(ether) = ether {
            came += ether.receive(thorough, &mut udp.stats, &mut each);
        }
        if came > 0 {
            upper.flush();
        }
        came
    }

    /// Returns the counters of the link.
    pub fn stats(&self) -> &LinkStats {
        &self.udp.stats
    }

    /// Adds faults to packets that arrive, or leave, from now on.
    pub fn add_fault(&mut self, number: u32, spec: FaultSpec) {
        match spec.scope.direction {
            Direction::Inbound => self.faults.get_or_insert_default().add(number, spec),
            Direction::Outbound => self.departing.get_or_insert_default().faults.add(number, spec),
        }
    }

    /// Removes the faults with this number.
    pub fn remove_fault(&mut self, number: u32) {
        if let Some(faults) = &mut self.faults {
            faults.remove(number);
        }
        if let Some(departing) = &mut self.departing {
            departing.faults.remove(number);
        }
        self.drop_idle_faults();
    }

    /// Returns how many packets each fault affected, by its number.
    pub fn fault_strikes(&self) -> Vec<(u32, u64)> {
        let arriving = self.faults.iter().flat_map(Fault::strikes);
        arriving.chain(self.departing.iter().flat_map(|departing| departing.faults.strikes())).collect()
    }
}

impl Departing {
    /// Takes in the packets of a batch.
    fn admit(&mut self, now: Instant, batch: &TxBatch) -> bool {
        for packet in &batch.packets {
            self.faults.admit(now, &Leaving { batch, packet }, &mut |packet| self.batches.push(packet));
        }
        true
    }

    /// Chooses a batch of those that are due; returns whether these are all.
    fn release(&mut self, now: Instant) -> bool {
        self.faults.release_some(now, TxBatch::PACKETS_MAX, &mut |packet| self.batches.push(packet))
    }
}

impl Upper {
    #[inline]
    fn deliver(&mut self, datagram: &Datagram<'_>, stats: &mut LinkStats, sink: &mut impl FnMut(&RxPacket<'_>)) {
        match datagram.verify(&mut self.senders) {
            Ok((rx, ip_id)) => {
                let qpn = rx.packet.bth.dest_qp();
                if qpn >> QPN_INDEX_BITS != self.slot && qpn != MULTICAST_QPN {
                    stats.rx_misrouted += 1;
                    return;
                }
                stats.rx_packets += 1;
                stats.rx_bytes += datagram.ib.len() as u64;
                if let Some(capture) = &mut self.capture {
                    match &datagram.grh {
                        None => capture.packet(Direction::Inbound, &datagram.meta(ip_id), datagram.ib),
                        Some(grh) => capture.packet_v1(Direction::Inbound, grh, datagram.ib),
                    }
                }
                sink(&rx);
            }
            Err(Refused::Icrc) => stats.rx_icrc_errors += 1,
            Err(Refused::Malformed) => stats.rx_malformed += 1,
        }
    }

    fn flush(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.flush();
        }
    }
}
