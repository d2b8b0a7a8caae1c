//! Sampling: count for an interval, then read (IBA 16.1.3.2 and 16.1.3.4).

use crate::layout::{array, bits, int, message, open};

open! {
    /// How far sampling is, 2 bits.
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
        /// Operation that some counters count, by the vendor.
        op_code: u8 = int(0, 1),
        /// Port.
        port_select: u8 = int(1, 1),
        /// Unit of times.
        tick: u8 = int(2, 1),
        /// Width of the counters: 0 for 16 bits up to 4 for 32, 3 bits.
        counter_width: u8 = bits(3, 5, 3),
        /// What counter 0 can count, 3 bits.
        counter_mask0: u8 = bits(4, 2, 3),
        /// What counters 1 to 9 can count, 3 bits each.
        counter_masks1_to_9: u32 = bits(4, 5, 27),
        /// What counters 10 to 14 can count, 3 bits each.
        counter_masks10_to_14: u16 = bits(8, 1, 15),
        /// Which ways of sampling there are.
        sample_mechanisms: u8 = int(10, 1),
        /// How far it is.
        sample_status: SampleStatus = bits(11, 6, 2),
        /// Optional counters that exist.
        option_mask: u64 = int(12, 8),
        /// Counters of the vendor that exist.
        vendor_mask: u64 = int(20, 8),
        /// Ticks until it begins.
        sample_start: u32 = int(28, 4),
        /// Ticks that it lasts.
        sample_interval: u32 = int(32, 4),
        /// Names this sampling.
        tag: u16 = int(36, 2),
        /// What each counter counts.
        counter_select: [u16; 15] = array(38, 16),
        /// Optional counters that exist for sampling only.
        samples_only_option_mask: u64 = int(72, 8),
    }
}

message! {
    /// PortSamplesResult.
    #[derive(Copy)]
    PortSamplesResult[64] {
        /// Which sampling.
        tag: u16 = int(0, 2),
        /// How far it is.
        sample_status: SampleStatus = bits(3, 6, 2),
        /// What was counted.
        counters: [u32; 15] = array(4, 32),
    }
}
