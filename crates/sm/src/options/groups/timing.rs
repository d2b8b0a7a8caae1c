//! Number of MADs in flight, and their timeouts.

use crate::options::spec::{Effect, group};

/// Default of `max_wire_smps`.
const WIRE_SMPS: u32 = 4;

group! {
    /// Number of MADs in flight, and their timeouts.
    Timing at timing {
        /// Maximum SMPs in flight; 0 is no limit. 4, the default in every file, leaves the number to the SM,
        /// which sends more as long as none are lost
        max_wire_smps: u32 = WIRE_SMPS, Live, Effect::Works;
        /// Maximum SMPs in flight, including those that await a timeout; ignored unless above max_wire_smps
        max_wire_smps2: u32 = WIRE_SMPS, Live, Effect::Works;
        /// Microseconds until an SMP above max_wire_smps and below max_wire_smps2 is sent anyway
        max_smps_timeout: u32 = 600_000, Live,
            Effect::Nothing("losses, not a timer, determine how many SMPs are in flight");
        /// Milliseconds until an SMP is sent again
        transaction_timeout: u32 = 200, Restart, Effect::Works;
        /// Retries of an SMP
        transaction_retries: u32 = 3, Restart, Effect::Works;
        /// Milliseconds until a retry of an SMP that switches process slowly (SL2VL table)
        long_transaction_timeout: u32 = 500, Restart, Effect::Works;
        /// Milliseconds in the queue after which SA queries are dropped
        max_msg_fifo_timeout: u32 = 10_000, Live,
            Effect::Nothing("queues of queries are bounded per host, not by age");
        /// Answer SA queries on one thread
        single_thread: bool = false, Restart,
            Effect::Nothing("queries are answered as they arrive, whatever the number of threads");
    }
}

impl Timing {
    /// Returns the maximum number of SMPs in flight if opensm.conf sets one; `None` leaves the number to the SM.
    pub fn smps_max(&self) -> Option<u32> {
        let most = self.max_wire_smps.max(self.max_wire_smps2);
        match self.max_wire_smps {
            0 => Some(u32::MAX),
            _ if most == WIRE_SMPS => None,
            _ => Some(most),
        }
    }
}
