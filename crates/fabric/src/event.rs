//! What hosts hear of their ports: verbs programs as asynchronous events, their system as new contents of files.

use crate::PortRef;

bitflags::bitflags! {
    /// What changed at a port since it was last told.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Changes: u16 {
        /// Logical or physical state.
        const STATE = 1 << 0;
        /// LID or LMC.
        const LID = 1 << 1;
        /// LID or service level of the subnet manager.
        const SM = 1 << 2;
        /// P_Key table.
        const PKEYS = 1 << 3;
        /// GIDs: prefix or GUIDs.
        const GIDS = 1 << 4;
        /// The manager asks programs to register again with the subnet administrator.
        const REREGISTER = 1 << 5;
        /// Capability mask.
        const CAPABILITIES = 1 << 6;
        /// MTU, lanes, width, speed and timeouts.
        const LINK = 1 << 7;
        /// NodeDescription.
        const DESCRIPTION = 1 << 8;
        /// The node lost its power.
        const POWER_OFF = 1 << 9;
        /// The node has power again.
        const POWER_ON = 1 << 10;
    }
}

/// Something changed at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The port.
    pub port: PortRef,
    /// What changed. The port's present state is to be asked for: of several changes the last counts.
    pub changes: Changes,
}
