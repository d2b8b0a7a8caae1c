//! SMInfo, by which subnet managers learn of each other (IBA 14.2.5.13).

use crate::layout::{bits, int, message, open};

open! {
    /// State of a subnet manager.
    SmState(u8) {
        NOT_ACTIVE = 0, "not active";
        DISCOVERING = 1, "discovering";
        STANDBY = 2, "standby";
        MASTER = 3, "master";
    }
}

open! {
    /// Command from one subnet manager to another: the modifier of a Set of SMInfo.
    SmControl(u32) {
        HANDOVER = 1, "handover";
        ACKNOWLEDGE = 2, "acknowledge";
        DISABLE = 3, "disable";
        STANDBY = 4, "standby";
        DISCOVER = 5, "discover";
    }
}

message! {
    /// SMInfo: a subnet manager.
    #[derive(Copy)]
    SmInfo[64] {
        /// GUID of its port.
        guid: u64 = int(0, 8),
        /// Key by which subnet managers authenticate each other; other readers see 0.
        sm_key: u64 = int(8, 8),
        /// Activity counter, which increases while it is alive.
        act_count: u32 = int(16, 4),
        /// Priority, 4 bits: the highest becomes master.
        priority: u8 = bits(20, 0, 4),
        /// State.
        state: SmState = bits(20, 4, 4),
    }
}
