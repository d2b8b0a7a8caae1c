//! Counters of a port. Traffic is counted with every packet; errors, which most ports never see, are in a ledger that
//! the first error allocates. A register that performance management clears is the difference to the total at the time
//! of clearing, so that PortCounters and PortCountersExtended are cleared independently, as on real ports.

use weft_verbs::Instant;

/// Traffic of one port. Data are in words of four bytes, from LRH to VCRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Words sent.
    pub xmit_data: u64,
    /// Words received.
    pub rcv_data: u64,
    /// Packets sent.
    pub xmit_packets: u64,
    /// Packets received.
    pub rcv_packets: u64,
    /// Packets sent to groups.
    pub multicast_xmit_packets: u64,
    /// Packets received for groups.
    pub multicast_rcv_packets: u64,
}

/// A counter; the order is that of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Counter {
    /// Words sent.
    XmitData,
    /// Words received.
    RcvData,
    /// Packets sent.
    XmitPackets,
    /// Packets received.
    RcvPackets,
    /// Packets sent to groups.
    MulticastXmitPackets,
    /// Packets received for groups.
    MulticastRcvPackets,
    /// Packets sent to one port.
    UnicastXmitPackets,
    /// Packets received for one port.
    UnicastRcvPackets,
    /// Packets with a symbol error.
    SymbolErrors,
    /// Number of link error recoveries.
    LinkErrorRecovery,
    /// Number of times that the link went down.
    LinkDowned,
    /// Packets received with an error.
    RcvErrors,
    /// Packets marked bad before they reached this port.
    RcvRemotePhysicalErrors,
    /// Packets that the switch could not forward.
    RcvSwitchRelayErrors,
    /// Packets discarded instead of sent.
    XmitDiscards,
    /// Packets that the port's rules kept from leaving.
    XmitConstraintErrors,
    /// Packets that the port's rules kept from entering.
    RcvConstraintErrors,
    /// Times that local errors exceeded the threshold.
    LocalLinkIntegrityErrors,
    /// Times that buffers overran longer than the threshold.
    ExcessiveBufferOverrunErrors,
    /// Subnet management packets dropped for lack of buffer space.
    Vl15Dropped,
    /// Ticks in which data waited to be sent.
    XmitWait,
    /// QP1 datagrams dropped for lack of buffer space.
    Qp1Dropped,
    /// Detail of RcvErrors: damaged on this link.
    LocalPhysicalErrors,
    /// Detail of RcvErrors: invalid header fields.
    MalformedPacketErrors,
    /// Detail of RcvErrors: no buffer space.
    BufferOverrunErrors,
    /// Detail of RcvSwitchRelayErrors: the forwarding table has no port for the LID.
    DlidMappingErrors,
    /// Detail of RcvSwitchRelayErrors: the table has no lane for the service level.
    VlMappingErrors,
    /// Detail of RcvSwitchRelayErrors: output port equals input port.
    LoopingErrors,
    /// Detail of XmitDiscards: the port is not active.
    InactiveDiscards,
    /// Detail of XmitDiscards: longer than the neighbour's MTU.
    NeighborMtuDiscards,
    /// Detail of XmitDiscards: switch lifetime limit exceeded.
    SwLifetimeLimitDiscards,
    /// Detail of XmitDiscards: head-of-queue lifetime limit exceeded.
    SwHoqLifetimeLimitDiscards,
}

impl Counter {
    /// Number of counters.
    pub const COUNT: usize = Counter::SwHoqLifetimeLimitDiscards as usize + 1;
}

/// Base of a set of registers: a register is the total minus its value here.
pub(crate) type Base = [u64; Counter::COUNT];

/// Sets of registers of performance management that are cleared independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum View {
    /// PortCounters and the detail attributes, which stop at their fields' maximum.
    Short,
    /// PortCountersExtended.
    Extended,
}

#[derive(Clone, Debug)]
struct Ledger {
    errors: Base,
    bases: [Base; 2],
    splits: Option<Box<Splits>>,
}

/// Number of service levels, and of virtual lanes.
const PARTS: usize = 16;

/// Counters by service level or by virtual lane. Data of level 0, the only one on most fabrics, is the total minus the
/// other levels.
#[derive(Clone, Debug, Default)]
struct Splits {
    sums: [[u64; PARTS]; Split::COUNT],
    bases: [[u64; PARTS]; Split::COUNT],
    /// End of the waiting time counted so far.
    waited_until: Instant,
}

/// Counter kept by service level or by virtual lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Split {
    /// Words sent, by service level.
    XmitData,
    /// Words received, by service level.
    RcvData,
    /// Packets dropped because they waited too long at the head of their lane's queue.
    Congestion,
    /// Ticks in which a packet waited there, by virtual lane.
    XmitWait,
}

impl Split {
    const COUNT: usize = Split::XmitWait as usize + 1;
}

/// Length of a tick, as PortSamplesControl reports it.
pub(crate) const TICK_NS: u64 = 1000;

/// All counters of a port. Those that every packet updates are beside the fields used to forward it, see
/// [`crate::port::Port`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    xmit_data: u64,
    rcv_data: u64,
    xmit_packets: u64,
    rcv_packets: u64,
    ledger: Option<Box<Ledger>>,
}

impl Counters {
    fn ledger(&mut self) -> &mut Ledger {
        let empty = || Box::new(Ledger { errors: [0; Counter::COUNT], bases: [[0; Counter::COUNT]; 2], splits: None });
        self.ledger.get_or_insert_with(empty)
    }

    /// Counts packets sent of one service level, all to one port or all to groups.
    #[inline]
    pub fn sent(&mut self, packets: u64, words: u64, sl: u8, multicast: bool) {
        self.xmit_packets = self.xmit_packets.wrapping_add(packets);
        self.xmit_data = self.xmit_data.wrapping_add(words);
        if multicast {
            self.add(Counter::MulticastXmitPackets, packets);
        }
        if sl != 0 {
            self.add_to_part(Split::XmitData, sl, words);
        }
    }

    /// Counts packets received.
    #[inline]
    pub fn received(&mut self, packets: u64, words: u64, sl: u8, multicast: bool) {
        self.rcv_packets = self.rcv_packets.wrapping_add(packets);
        self.rcv_data = self.rcv_data.wrapping_add(words);
        if multicast {
            self.add(Counter::MulticastRcvPackets, packets);
        }
        if sl != 0 {
            self.add_to_part(Split::RcvData, sl, words);
        }
    }

    fn splits(&mut self) -> &mut Splits {
        self.ledger().splits.get_or_insert_default()
    }

    #[cold]
    fn add_to_part(&mut self, split: Split, part: u8, more: u64) {
        let sum = &mut self.splits().sums[split as usize][usize::from(part) % PARTS];
        *sum = sum.wrapping_add(more);
    }

    /// Counts a packet dropped after waiting too long on this lane.
    pub fn congested(&mut self, vl: u8) {
        self.add_to_part(Split::Congestion, vl, 1);
    }

    /// Counts the waiting time of a packet on this lane. Ticks in which several wait are counted once.
    pub fn waited(&mut self, vl: u8, since: Instant, until: Instant) {
        let marked = &mut self.splits().waited_until;
        let since = since.max(*marked);
        *marked = until.max(*marked);
        let ticks = until.0.saturating_sub(since.0) / TICK_NS;
        self.add(Counter::XmitWait, ticks);
        self.add_to_part(Split::XmitWait, vl, ticks);
    }

    /// Returns the count of a level or a lane since power-on.
    pub fn part_total(&self, split: Split, part: usize) -> u64 {
        let splits = self.ledger.as_ref().and_then(|ledger| ledger.splits.as_ref());
        let of = |part: usize| splits.map_or(0, |splits| splits.sums[split as usize][part % PARTS]);
        let whole = match split {
            Split::XmitData if part == 0 => self.xmit_data,
            Split::RcvData if part == 0 => self.rcv_data,
            _ => return of(part),
        };
        (1..PARTS).map(of).fold(whole, u64::wrapping_sub)
    }

    /// Returns the register of a level or a lane.
    pub fn part_register(&self, split: Split, part: usize) -> u64 {
        let splits = self.ledger.as_ref().and_then(|ledger| ledger.splits.as_ref());
        let base = splits.map_or(0, |splits| splits.bases[split as usize][part % PARTS]);
        self.part_total(split, part).wrapping_sub(base)
    }

    /// Sets the register of a level or a lane to `value`.
    pub fn set_part_register(&mut self, split: Split, part: usize, value: u64) {
        let total = self.part_total(split, part);
        if self.part_register(split, part) != value {
            self.splits().bases[split as usize][part % PARTS] = total.wrapping_sub(value);
        }
    }

    /// Returns the traffic since power-on.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            xmit_data: self.xmit_data,
            rcv_data: self.rcv_data,
            xmit_packets: self.xmit_packets,
            rcv_packets: self.rcv_packets,
            multicast_xmit_packets: self.total(Counter::MulticastXmitPackets),
            multicast_rcv_packets: self.total(Counter::MulticastRcvPackets),
        }
    }

    /// Increments a counter of the ledger.
    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `times` to a counter of the ledger.
    pub fn add(&mut self, counter: Counter, times: u64) {
        let sum = &mut self.ledger().errors[counter as usize];
        *sum = sum.wrapping_add(times);
    }

    /// Returns a counter's total since power-on.
    pub fn total(&self, counter: Counter) -> u64 {
        let counted = |counter: Counter| self.ledger.as_ref().map_or(0, |ledger| ledger.errors[counter as usize]);
        match counter {
            Counter::XmitData => self.xmit_data,
            Counter::RcvData => self.rcv_data,
            Counter::XmitPackets => self.xmit_packets,
            Counter::RcvPackets => self.rcv_packets,
            Counter::UnicastXmitPackets => self.xmit_packets.wrapping_sub(counted(Counter::MulticastXmitPackets)),
            Counter::UnicastRcvPackets => self.rcv_packets.wrapping_sub(counted(Counter::MulticastRcvPackets)),
            other => counted(other),
        }
    }

    /// Returns a register.
    pub fn register(&self, view: View, counter: Counter) -> u64 {
        let base = self.ledger.as_ref().map_or(0, |ledger| ledger.bases[view as usize][counter as usize]);
        self.total(counter).wrapping_sub(base)
    }

    /// Sets a register to `value`.
    pub fn set_register(&mut self, view: View, counter: Counter, value: u64) {
        let total = self.total(counter);
        if self.register(view, counter) != value {
            self.ledger().bases[view as usize][counter as usize] = total.wrapping_sub(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_cleared_apart_and_the_total_stays() {
        let mut counters = Counters::default();
        counters.sent(2, 144, 0, false);
        counters.sent(1, 72, 0, true);
        counters.received(1, 72, 0, true);
        counters.count(Counter::RcvErrors);
        assert_eq!(counters.register(View::Short, Counter::XmitData), 216);
        counters.set_register(View::Short, Counter::XmitData, 0);
        counters.set_register(View::Short, Counter::RcvErrors, 5);
        counters.sent(1, 72, 0, false);
        assert_eq!(counters.register(View::Short, Counter::XmitData), 72);
        assert_eq!(counters.register(View::Extended, Counter::XmitData), 288);
        assert_eq!(counters.register(View::Short, Counter::RcvErrors), 5);
        assert_eq!(counters.total(Counter::RcvErrors), 1);
        assert_eq!((counters.traffic().multicast_xmit_packets, counters.traffic().multicast_rcv_packets), (1, 1));
    }

    #[test]
    fn words_are_counted_by_service_level_and_cleared_apart() {
        let mut counters = Counters::default();
        counters.sent(1, 10, 0, false);
        counters.sent(1, 20, 3, false);
        counters.received(1, 5, 15, true);
        let of =
            |counters: &Counters, split| (0..PARTS).map(|sl| counters.part_register(split, sl)).collect::<Vec<_>>();
        let sent = of(&counters, Split::XmitData);
        assert_eq!((sent[0], sent[3], sent.iter().sum::<u64>()), (10, 20, 30));
        counters.set_part_register(Split::XmitData, 0, 0);
        counters.set_part_register(Split::RcvData, 15, 2);
        counters.sent(1, 7, 0, false);
        let (sent, received) = (of(&counters, Split::XmitData), of(&counters, Split::RcvData));
        assert_eq!((sent[0], sent[3], received[0], received[15]), (7, 20, 0, 2));
        assert_eq!(counters.register(View::Short, Counter::XmitData), 37, "of the whole nothing is cleared");
    }

    #[test]
    fn a_tick_of_waiting_is_counted_once() {
        let (mut counters, at) = (Counters::default(), |us: u64| Instant(us * TICK_NS));
        counters.waited(0, at(10), at(30));
        counters.waited(3, at(20), at(35));
        counters.waited(3, at(21), at(25));
        counters.waited(3, at(50), Instant(at(51).0 - 1));
        let by_lane = [0, 3].map(|vl| counters.part_register(Split::XmitWait, vl));
        assert_eq!((counters.total(Counter::XmitWait), by_lane), (25, [20, 5]));
    }
}
