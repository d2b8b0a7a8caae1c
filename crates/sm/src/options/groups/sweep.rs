//! When the subnet is looked at.

use crate::options::spec::{Effect, group};

group! {
    /// When the subnet is looked at.
    Sweep at sweep {
        /// Seconds between sweeps; 0: only when something happens
        sweep_interval: u32 = 10, Live, Effect::Works;
        /// All LIDs are given anew
        reassign_lids: bool = false, Live, Effect::Works;
        /// Every sweep discovers the whole subnet
        force_heavy_sweep: bool = false, Live, Effect::Works;
        /// Traps 128 and 144 make the manager discover the subnet; many alike in a row count once
        sweep_on_trap: bool = true, Live, Effect::Works;
    }
}
