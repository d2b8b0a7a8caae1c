//! PortCounters (IBA 16.1.3.5), the counters of every port. They saturate and never wrap.

use crate::layout::{bits, flags, int, message};

bitflags::bitflags! {
    /// Which counters a Set of [`PortCounters`] changes, in the order of their fields.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct CounterSelect: u16 {
        /// SymbolErrorCounter.
        const SYMBOL_ERROR = 1 << 0;
        /// LinkErrorRecoveryCounter.
        const LINK_ERROR_RECOVERY = 1 << 1;
        /// LinkDownedCounter.
        const LINK_DOWNED = 1 << 2;
        /// PortRcvErrors.
        const RCV_ERRORS = 1 << 3;
        /// PortRcvRemotePhysicalErrors.
        const RCV_REMOTE_PHYSICAL_ERRORS = 1 << 4;
        /// PortRcvSwitchRelayErrors.
        const RCV_SWITCH_RELAY_ERRORS = 1 << 5;
        /// PortXmitDiscards.
        const XMIT_DISCARDS = 1 << 6;
        /// PortXmitConstraintErrors.
        const XMIT_CONSTRAINT_ERRORS = 1 << 7;
        /// PortRcvConstraintErrors.
        const RCV_CONSTRAINT_ERRORS = 1 << 8;
        /// LocalLinkIntegrityErrors.
        const LOCAL_LINK_INTEGRITY_ERRORS = 1 << 9;
        /// ExcessiveBufferOverrunErrors.
        const EXCESSIVE_BUFFER_OVERRUN_ERRORS = 1 << 10;
        /// VL15Dropped.
        const VL15_DROPPED = 1 << 11;
        /// PortXmitData.
        const XMIT_DATA = 1 << 12;
        /// PortRcvData.
        const RCV_DATA = 1 << 13;
        /// PortXmitPkts.
        const XMIT_PKTS = 1 << 14;
        /// PortRcvPkts.
        const RCV_PKTS = 1 << 15;
    }
}

flags!(CounterSelect(u16));

message! {
    /// PortCounters.
    #[derive(Copy)]
    PortCounters[44] {
        /// Port; [`super::ALL_PORTS`] sums all ports.
        port_select: u8 = int(1, 1),
        /// In a Set: the counters that it changes.
        counter_select: CounterSelect = int(2, 2),
        /// Symbols with minor errors.
        symbol_error_counter: u16 = int(4, 2),
        /// Times that the link was retrained and stayed up.
        link_error_recovery_counter: u8 = int(6, 1),
        /// Times that the link went down.
        link_downed_counter: u8 = int(7, 1),
        /// Packets received with an error.
        port_rcv_errors: u16 = int(8, 2),
        /// Packets received that a switch on their path had marked as bad.
        port_rcv_remote_physical_errors: u16 = int(10, 2),
        /// Packets received that could not be forwarded.
        port_rcv_switch_relay_errors: u16 = int(12, 2),
        /// Outbound packets that the port dropped.
        port_xmit_discards: u16 = int(14, 2),
        /// Packets not permitted to leave: partition, raw.
        port_xmit_constraint_errors: u8 = int(16, 1),
        /// Packets not permitted to enter: partition, raw.
        port_rcv_constraint_errors: u8 = int(17, 1),
        /// In a Set: more counters that it changes: bit 0 PortXmitWait, bit 1 QP1Dropped.
        counter_select2: u8 = int(18, 1),
        /// Times that local errors reached the threshold, 4 bits.
        local_link_integrity_errors: u8 = bits(19, 0, 4),
        /// Times that overruns reached the threshold, 4 bits.
        excessive_buffer_overrun_errors: u8 = bits(19, 4, 4),
        /// Datagrams for queue pair 1 dropped for lack of buffers.
        qp1_dropped: u16 = int(20, 2),
        /// SMPs dropped for lack of buffers.
        vl15_dropped: u16 = int(22, 2),
        /// Data sent, in words of four bytes, without virtual lane 15.
        port_xmit_data: u32 = int(24, 4),
        /// Data received, likewise.
        port_rcv_data: u32 = int(28, 4),
        /// Packets sent, likewise.
        port_xmit_pkts: u32 = int(32, 4),
        /// Packets received, likewise.
        port_rcv_pkts: u32 = int(36, 4),
        /// Ticks in which data waited and none could be sent.
        port_xmit_wait: u32 = int(40, 4),
    }
}
