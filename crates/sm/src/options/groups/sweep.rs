//! When to sweep the subnet.

use crate::options::spec::{Effect, group};

group! {
    /// When to sweep the subnet.
    Sweep at sweep {
        /// Seconds between sweeps; 0: only on events
        sweep_interval: u32 = 10, Live, Effect::Works;
        /// Reassign all LIDs
        reassign_lids: bool = false, Live, Effect::Works;
        /// Discover the whole subnet in every sweep
        force_heavy_sweep: bool = false, Live, Effect::Works;
        /// Discover the subnet on traps 128 and 144; repeats of one trap count once
        sweep_on_trap: bool = true, Live, Effect::Works;
    }
}
