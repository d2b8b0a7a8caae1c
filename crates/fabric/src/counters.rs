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

/// All that a port counts: what every packet counts stands beside what the packet is forwarded by, see
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
        let empty = || Box::new(Ledger { errors: [0; Counter::COUNT], bases: [[0; Counter::COUNT]; 2] });
        self.ledger.get_or_insert_with(empty)
    }

    /// Packets that left, all of them to one port or all of them to groups.
    #[inline]
    pub fn sent(&mut self, packets: u64, words: u64, multicast: bool) {
        self.xmit_packets = self.xmit_packets.wrapping_add(packets);
        self.xmit_data = self.xmit_data.wrapping_add(words);
        if multicast {
            self.add(Counter::MulticastXmitPackets, packets);
        }
    }

    /// Packets that came.
    #[inline]
    pub fn received(&mut self, packets: u64, words: u64, multicast: bool) {
        self.rcv_packets = self.rcv_packets.wrapping_add(packets);
        self.rcv_data = self.rcv_data.wrapping_add(words);
        if multicast {
            self.add(Counter::MulticastRcvPackets, packets);
        }
    }

    /// Traffic since the port was powered on.
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
        assert_eq!((counters.traffic().multicast_xmit_packets, counters.traffic().multicast_rcv_packets), (1, 1));
    }
}
