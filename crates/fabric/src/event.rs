//! Changes of ports for their hosts: verbs programs see them as asynchronous events, the system as new file contents.

use crate::PortRef;

bitflags::bitflags! {
    /// Changes of a port since the last event.
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
        /// The manager asks programs to reregister with the subnet administrator.
        const REREGISTER = 1 << 5;
        /// Capability mask.
        const CAPABILITIES = 1 << 6;
        /// MTU, lanes, width, speed and timeouts.
        const LINK = 1 << 7;
        /// NodeDescription.
        const DESCRIPTION = 1 << 8;
        /// Node powered off.
        const POWER_OFF = 1 << 9;
        /// Node powered on.
        const POWER_ON = 1 << 10;
    }
}

/// Change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The port.
    pub port: PortRef,
    /// Kinds of change. Several changes of a kind become one: ask for the port's present state.
    pub changes: Changes,
}
