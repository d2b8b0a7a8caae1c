//! Sampling: counts events for an interval (IBA 16.1.3.2 and 16.1.3.4).

use crate::layout::{array, bits, int, message, open};

open! {
    /// Sampling state, 2 bits.
    SampleStatus(u8) {
        DONE = 0, "done";
        STARTED = 1, "started";
        RUNNING = 2, "running";
    }
}

message! {
    /// PortSamplesControl.
    #[derive(Copy)]
    PortSamplesControl[80] {
        /// Vendor-specific operation for some counters.
        op_code: u8 = int(0, 1),
        /// Port.
        port_select: u8 = int(1, 1),
        /// Length of a tick.
        tick: u8 = int(2, 1),
        /// Width of the counters, from 0 for 16 bits to 4 for 32, 3 bits.
        counter_width: u8 = bits(3, 5, 3),
        /// Capabilities of counter 0, 3 bits.
        counter_mask0: u8 = bits(4, 2, 3),
        /// Capabilities of counters 1 to 9, 3 bits each.
        counter_masks1_to_9: u32 = bits(4, 5, 27),
        /// Capabilities of counters 10 to 14, 3 bits each.
        counter_masks10_to_14: u16 = bits(8, 1, 15),
        /// Supported sampling mechanisms.
        sample_mechanisms: u8 = int(10, 1),
        /// Sampling state.
        sample_status: SampleStatus = bits(11, 6, 2),
        /// Supported optional counters.
        option_mask: u64 = int(12, 8),
        /// Supported vendor counters.
        vendor_mask: u64 = int(20, 8),
        /// Ticks until sampling starts.
        sample_start: u32 = int(28, 4),
        /// Ticks of the sampling interval.
        sample_interval: u32 = int(32, 4),
        /// Tag of this sampling.
        tag: u16 = int(36, 2),
        /// Event selected for each counter.
        counter_select: [u16; 15] = array(38, 16),
        /// Optional counters that only sampling supports.
        samples_only_option_mask: u64 = int(72, 8),
    }
}

message! {
    /// PortSamplesResult.
    #[derive(Copy)]
    PortSamplesResult[64] {
        /// Tag of the sampling.
        tag: u16 = int(0, 2),
        /// Sampling state.
        sample_status: SampleStatus = bits(3, 6, 2),
        /// Counter values.
        counters: [u32; 15] = array(4, 32),
    }
}
