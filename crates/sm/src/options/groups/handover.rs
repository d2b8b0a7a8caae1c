//! Several managers on one subnet.

use crate::options::spec::{Effect, group};

group! {
    /// Several managers on one subnet.
    Handover at handover {
        /// SM priority, 0 to 15: the highest becomes master; among equals, the lowest GUID
        sm_priority: u8 = 0, Live, Effect::Works;
        /// Ignore other subnet managers
        ignore_other_sm: bool = false, Live, Effect::Works;
        /// Milliseconds between a standby's SMInfo polls of the master
        sminfo_polling_timeout: u32 = 10_000, Live, Effect::Works;
        /// Unanswered polls after which the master counts as dead
        polling_retry_number: u32 = 4, Live, Effect::Works;
        /// Honor the file guid2lid when a standby becomes master
        honor_guid2lid_file: bool = false, Live, Effect::Works;
    }
}
