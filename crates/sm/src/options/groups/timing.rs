//! How many datagrams are under way, and how long they are waited for.

use crate::options::spec::{Effect, group};

/// What `max_wire_smps` is unless told otherwise.
const WIRE_SMPS: u32 = 4;

group! {
    /// How many datagrams are under way, and how long they are waited for.
    Timing at timing {
        /// SMPs under way at once; 0 is as many as there are. 4, which every file says, leaves it to the manager,
        /// which takes more as long as none are lost
        max_wire_smps: u32 = WIRE_SMPS, Live, Effect::Works;
        /// SMPs under way at once, those that only a timeout ends among them; up to max_wire_smps it says nothing
        max_wire_smps2: u32 = WIRE_SMPS, Live, Effect::Works;
        /// Microseconds until an SMP above max_wire_smps and below max_wire_smps2 is sent all the same
        max_smps_timeout: u32 = 600_000, Live,
            Effect::Nothing("how many SMPs are under way follows from losses, not from a timer");
        /// Milliseconds until an SMP is sent again
        transaction_timeout: u32 = 200, Restart, Effect::Works;
        /// How often an SMP is sent again
        transaction_retries: u32 = 3, Restart, Effect::Works;
        /// Milliseconds until an SMP that takes a switch long (a map of lanes) is sent again
        long_transaction_timeout: u32 = 500, Restart, Effect::Works;
        /// Milliseconds in the queue after which questions to the administrator are dropped
        max_msg_fifo_timeout: u32 = 10_000, Live,
            Effect::Nothing("questions wait in bounded queues by host, not by age");
        /// One thread answers questions to the administrator
        single_thread: bool = false, Restart,
            Effect::Nothing("questions are answered as they come, whatever the number of threads");
    }
}

impl Timing {
    /// SMPs that may be under way at once, if the administrator says a number; else the manager finds it.
    pub fn smps_max(&self) -> Option<u32> {
        let most = self.max_wire_smps.max(self.max_wire_smps2);
        match self.max_wire_smps {
            0 => Some(u32::MAX),
            _ if most == WIRE_SMPS => None,
            _ => Some(most),
        }
    }
}
