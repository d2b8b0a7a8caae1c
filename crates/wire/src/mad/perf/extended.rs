//! 64-bit counters (IBA 16.1.4.11), and those of speeds beyond QDR (16.1.4.13).

use crate::layout::{array, int, message};

message! {
    /// PortCountersExtended. The error counters are valid only with [`super::Capability2::ADDITIONAL_EXTENDED`].
    #[derive(Copy)]
    PortCountersExtended[184] {
        /// Port; [`super::ALL_PORTS`] sums all ports.
        port_select: u8 = int(1, 1),
        /// In a Set: those of the first eight counters that it changes, in their order from bit 0.
        counter_select: u16 = int(2, 2),
        /// In a Set: those of the other counters that it changes.
        counter_select2: u32 = int(4, 4),
        /// Data sent, in words of four bytes, without virtual lane 15.
        port_xmit_data: u64 = int(8, 8),
        /// Data received, likewise.
        port_rcv_data: u64 = int(16, 8),
        /// Packets sent, likewise.
        port_xmit_pkts: u64 = int(24, 8),
        /// Packets received, likewise.
        port_rcv_pkts: u64 = int(32, 8),
        /// Unicast packets sent, including virtual lane 15.
        port_unicast_xmit_pkts: u64 = int(40, 8),
        /// Unicast packets received, likewise.
        port_unicast_rcv_pkts: u64 = int(48, 8),
        /// Multicast packets sent.
        port_multicast_xmit_pkts: u64 = int(56, 8),
        /// Multicast packets received.
        port_multicast_rcv_pkts: u64 = int(64, 8),
        /// As in [`super::PortCounters`], like all counters below.
        symbol_error_counter: u64 = int(72, 8),
        /// Times that the link was retrained and stayed up.
        link_error_recovery_counter: u64 = int(80, 8),
        /// Times that the link went down.
        link_downed_counter: u64 = int(88, 8),
        /// Packets received with an error.
        port_rcv_errors: u64 = int(96, 8),
        /// Packets received that a switch on their path had marked as bad.
        port_rcv_remote_physical_errors: u64 = int(104, 8),
        /// Packets received that could not be forwarded.
        port_rcv_switch_relay_errors: u64 = int(112, 8),
        /// Outbound packets that the port dropped.
        port_xmit_discards: u64 = int(120, 8),
        /// Packets not permitted to leave.
        port_xmit_constraint_errors: u64 = int(128, 8),
        /// Packets not permitted to enter.
        port_rcv_constraint_errors: u64 = int(136, 8),
        /// Times that local errors reached the threshold.
        local_link_integrity_errors: u64 = int(144, 8),
        /// Times that overruns reached the threshold.
        excessive_buffer_overrun_errors: u64 = int(152, 8),
        /// SMPs dropped for lack of buffers.
        vl15_dropped: u64 = int(160, 8),
        /// Ticks in which data waited and none could be sent.
        port_xmit_wait: u64 = int(168, 8),
        /// Datagrams for queue pair 1 dropped for lack of buffers.
        qp1_dropped: u64 = int(176, 8),
    }
}

message! {
    /// PortExtendedSpeedsCounters. With Reed-Solomon codes, the correctable blocks of lanes are correctable symbols,
    /// and the last three count for the whole port.
    #[derive(Copy)]
    PortExtendedSpeedsCounters[152] {
        /// Port.
        port_select: u8 = int(1, 1),
        /// In a Set: the counters that it changes.
        counter_select: u64 = int(8, 8),
        /// Errors in synchronisation headers.
        sync_header_error_counter: u16 = int(16, 2),
        /// Blocks with an unknown type.
        unknown_block_counter: u16 = int(18, 2),
        /// Detected errors, for each lane.
        error_detection_counter_lane: [u16; 12] = array(20, 16),
        /// Corrected blocks (or symbols), for each lane.
        fec_correctable_block_ctr_lane: [u32; 12] = array(44, 32),
        /// Uncorrectable blocks, for each lane.
        fec_uncorrectable_block_ctr_lane: [u32; 12] = array(92, 32),
        /// Corrected blocks.
        port_fec_correctable_block_ctr: u32 = int(140, 4),
        /// Uncorrectable blocks.
        port_fec_uncorrectable_block_ctr: u32 = int(144, 4),
        /// Corrected symbols.
        port_fec_corrected_symbol_ctr: u32 = int(148, 4),
    }
}
