//! What a port counts. Traffic is counted with every packet; errors, which most ports never see, have a ledger that is
//! made with the first. Registers that performance management clears are differences to what they were when they were
//! cleared, so that PortCounters and PortCountersExtended are cleared apart from each other, as on real ports.

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
    /// Of them sent to groups.
    pub multicast_xmit_packets: u64,
    /// Of them received for groups.
    pub multicast_rcv_packets: u64,
}

/// Something that a port counts; the order is that of the ledger.
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
    /// Packets with a damaged symbol.
    SymbolErrors,
    /// Times that the link recovered from errors.
    LinkErrorRecovery,
    /// Times that the link went down.
    LinkDowned,
    /// Packets received with an error.
    RcvErrors,
    /// Packets that were bad before they came here.
    RcvRemotePhysicalErrors,
    /// Packets that the switch could not forward.
    RcvSwitchRelayErrors,
    /// Packets that did not leave.
    XmitDiscards,
    /// Packets that the port's rules kept from leaving.
    XmitConstraintErrors,
    /// Packets that the port's rules kept from entering.
    RcvConstraintErrors,
    /// Times that local errors exceeded the threshold.
    LocalLinkIntegrityErrors,
    /// Times that buffers overran longer than the threshold.
    ExcessiveBufferOverrunErrors,
    /// Subnet management packets dropped for want of room.
    Vl15Dropped,
    /// Ticks that data waited.
    XmitWait,
    /// Datagrams of queue pair 1 dropped for want of room.
    Qp1Dropped,
    /// Detail of RcvErrors: damaged on this link.
    LocalPhysicalErrors,
    /// Detail of RcvErrors: header fields that cannot be.
    MalformedPacketErrors,
    /// Detail of RcvErrors: no room.
    BufferOverrunErrors,
    /// Detail of RcvSwitchRelayErrors: the table has no port for the LID.
    DlidMappingErrors,
    /// Detail of RcvSwitchRelayErrors: the table has no lane for the service level.
    VlMappingErrors,
    /// Detail of RcvSwitchRelayErrors: out through the port that it came in by.
    LoopingErrors,
    /// Detail of XmitDiscards: the port is not active.
    InactiveDiscards,
    /// Detail of XmitDiscards: longer than the neighbour's MTU.
    NeighborMtuDiscards,
    /// Detail of XmitDiscards: too long in the switch.
    SwLifetimeLimitDiscards,
    /// Detail of XmitDiscards: too long at the head of the queue.
    SwHoqLifetimeLimitDiscards,
}

impl Counter {
    /// How many there are.
    pub const COUNT: usize = Counter::SwHoqLifetimeLimitDiscards as usize + 1;
}

/// A set of registers, each the total minus its value here.
pub(crate) type Base = [u64; Counter::COUNT];

/// The registers of performance management that are cleared on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum View {
    /// PortCounters and the attributes of details, which clamp at their fields' ends.
    Short,
    /// PortCountersExtended.
    Extended,
}

#[derive(Clone, Debug)]
struct Ledger {
    errors: Base,
    bases: [Base; 2],
}

/// All that a port counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub traffic: Traffic,
    ledger: Option<Box<Ledger>>,
}

impl Counters {
    fn ledger(&mut self) -> &mut Ledger {
        let empty = || Box::new(Ledger { errors: [0; Counter::COUNT], bases: [[0; Counter::COUNT]; 2] });
        self.ledger.get_or_insert_with(empty)
    }

    /// Packets that left, all of them of traffic to one or to many.
    #[inline]
    pub fn sent(&mut self, packets: u64, words: u64, multicast: bool) {
        let t = &mut self.traffic;
        t.xmit_packets = t.xmit_packets.wrapping_add(packets);
        t.xmit_data = t.xmit_data.wrapping_add(words);
        if multicast {
            t.multicast_xmit_packets = t.multicast_xmit_packets.wrapping_add(packets);
        }
    }

    /// Packets that came.
    #[inline]
    pub fn received(&mut self, packets: u64, words: u64, multicast: bool) {
        let t = &mut self.traffic;
        t.rcv_packets = t.rcv_packets.wrapping_add(packets);
        t.rcv_data = t.rcv_data.wrapping_add(words);
        if multicast {
            t.multicast_rcv_packets = t.multicast_rcv_packets.wrapping_add(packets);
        }
    }

    /// Something of the ledger happened once more.
    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// It happened `times` more.
    pub fn add(&mut self, counter: Counter, times: u64) {
        let sum = &mut self.ledger().errors[counter as usize];
        *sum = sum.wrapping_add(times);
    }

    /// What happened since the port was powered on.
    pub fn total(&self, counter: Counter) -> u64 {
        let t = &self.traffic;
        match counter {
            Counter::XmitData => t.xmit_data,
            Counter::RcvData => t.rcv_data,
            Counter::XmitPackets => t.xmit_packets,
            Counter::RcvPackets => t.rcv_packets,
            Counter::MulticastXmitPackets => t.multicast_xmit_packets,
            Counter::MulticastRcvPackets => t.multicast_rcv_packets,
            Counter::UnicastXmitPackets => t.xmit_packets.wrapping_sub(t.multicast_xmit_packets),
            Counter::UnicastRcvPackets => t.rcv_packets.wrapping_sub(t.multicast_rcv_packets),
            other => self.ledger.as_ref().map_or(0, |ledger| ledger.errors[other as usize]),
        }
    }

    /// What a register says.
    pub fn register(&self, view: View, counter: Counter) -> u64 {
        let base = self.ledger.as_ref().map_or(0, |ledger| ledger.bases[view as usize][counter as usize]);
        self.total(counter).wrapping_sub(base)
    }

    /// Let a register say `value`.
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
        counters.sent(2, 144, false);
        counters.sent(1, 72, true);
        counters.received(1, 72, true);
        counters.count(Counter::RcvErrors);
        assert_eq!(counters.register(View::Short, Counter::XmitData), 216);
        counters.set_register(View::Short, Counter::XmitData, 0);
        counters.set_register(View::Short, Counter::RcvErrors, 5);
        counters.sent(1, 72, false);
        assert_eq!(counters.register(View::Short, Counter::XmitData), 72);
        assert_eq!(counters.register(View::Extended, Counter::XmitData), 288);
        assert_eq!(counters.register(View::Short, Counter::RcvErrors), 5);
        assert_eq!(counters.total(Counter::RcvErrors), 1);
        assert_eq!((counters.traffic.multicast_xmit_packets, counters.traffic.multicast_rcv_packets), (1, 1));
    }
}
