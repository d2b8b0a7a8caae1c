//! Several managers on one subnet.

use crate::options::spec::{Effect, group};

group! {
    /// Several managers on one subnet.
    Handover at handover {
        /// Which manager becomes master: the highest of 0 to 15, of equals the lowest GUID
        sm_priority: u8 = 0, Live, Effect::Works;
        /// Other managers are not looked at
        ignore_other_sm: bool = false, Live, Effect::Works;
        /// Milliseconds between a standby's questions to the master
        sminfo_polling_timeout: u32 = 10_000, Live, Effect::Works;
        /// Questions without an answer after which the master counts as dead
        polling_retry_number: u32 = 4, Live, Effect::Works;
        /// A standby that becomes master keeps to the file guid2lid, if there is one
        honor_guid2lid_file: bool = false, Live, Effect::Works;
    }
}
