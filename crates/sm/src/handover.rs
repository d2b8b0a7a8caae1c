//! SM state machine of several managers on one subnet: master, standby, and the passage between them (IBA 14.4).
//!
//! ```text
//!                      none is greater                    found a master or a greater manager
//!            ┌────────────────────────────> Master <───────────────┐ ────────┐
//!            │                               │ ^                   │         │
//!            │            acknowledged, or    │ │ handed over       │         │
//!            │            a greater master    v │                   │         v
//!  ──> Discovering ───────────────────────> Standby <───── stand by ── Not active
//!            ^        a greater manager      │    │                      ^
//!            └───────────────────────────────┘    └──────────────────────┘
//!               the master is silent, or              disabled
//!               asks to discover
//! ```

use weft_wire::mad::subn::{SmControl, SmState};

/// Event of the SM state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmEvent {
    /// Discovery is over and found no master and no greater manager.
    Alone,
    /// Discovery found a master or a greater manager.
    Greater,
    /// The master that a standby polls no longer answers, or is no longer master.
    MasterSilent,
    /// The master hands over.
    Handover,
    /// The manager that a master handed over to reports that it is master.
    Acknowledge,
    /// The master disables this manager.
    Disable,
    /// The master returns this manager to Standby.
    Standby,
    /// The master tells this manager to discover.
    Discover,
}

impl SmEvent {
    /// Every event.
    pub const ALL: [SmEvent; 8] = [
        SmEvent::Alone,
        SmEvent::Greater,
        SmEvent::MasterSilent,
        SmEvent::Handover,
        SmEvent::Acknowledge,
        SmEvent::Disable,
        SmEvent::Standby,
        SmEvent::Discover,
    ];

    /// Returns the event of another manager's Set(SMInfo).
    pub fn from_control(control: SmControl) -> Option<SmEvent> {
        Some(match control {
            SmControl::HANDOVER => SmEvent::Handover,
            SmControl::ACKNOWLEDGE => SmEvent::Acknowledge,
            SmControl::DISABLE => SmEvent::Disable,
            SmControl::STANDBY => SmEvent::Standby,
            SmControl::DISCOVER => SmEvent::Discover,
            _ => return None,
        })
    }
}

/// Returns the state after an event; `None` if the event is invalid in that state.
pub fn step(state: SmState, event: SmEvent) -> Option<SmState> {
    use SmEvent::*;
    Some(match (state, event) {
        (SmState::DISCOVERING, Alone) => SmState::MASTER,
        (SmState::DISCOVERING, Greater) => SmState::STANDBY,
        // A handover changes nothing for a discovering manager: it has the whole sweep before it in any case.
        (SmState::DISCOVERING, Handover) => SmState::DISCOVERING,

        (SmState::STANDBY, MasterSilent | Discover) => SmState::DISCOVERING,
        (SmState::STANDBY, Handover) => SmState::MASTER,
        (SmState::STANDBY, Disable) => SmState::NOT_ACTIVE,
        (SmState::STANDBY, Standby | Acknowledge) => SmState::STANDBY,

        (SmState::NOT_ACTIVE, Standby) => SmState::STANDBY,
        (SmState::NOT_ACTIVE, Disable) => SmState::NOT_ACTIVE,

        (SmState::MASTER, Acknowledge | Greater) => SmState::STANDBY,
        // A handover comes from another master after two parts of a fabric were joined.
        (SmState::MASTER, Handover | Alone) => SmState::MASTER,
        _ => return None,
    })
}

/// Whether a manager outranks another: by priority, then by the lower GUID.
pub fn greater(priority: u8, guid: u64, than_priority: u8, than_guid: u64) -> bool {
    priority > than_priority || priority == than_priority && guid < than_guid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_meets_every_event() {
        let word = |state: SmState| match state {
            SmState::DISCOVERING => "disc",
            SmState::STANDBY => "stby",
            SmState::MASTER => "mast",
            _ => "nact",
        };
        let states = [SmState::NOT_ACTIVE, SmState::DISCOVERING, SmState::STANDBY, SmState::MASTER];
        let rows = states.map(|state| {
            let cells = SmEvent::ALL.map(|event| step(state, event).map_or("-", word));
            format!("{}: {}", word(state), cells.join(" "))
        });
        //      Alone Greater MasterSilent Handover Acknowledge Disable Standby Discover
        assert_eq!(
            rows,
            [
                "nact: - - - - - nact stby -",
                "disc: mast stby - disc - - - -",
                "stby: - - disc mast stby nact stby disc",
                "mast: mast stby - mast stby - - -",
            ]
        );
    }

    #[test]
    fn the_higher_priority_then_the_lower_guid() {
        assert!(greater(2, 9, 1, 1) && !greater(1, 1, 2, 9));
        assert!(greater(1, 1, 1, 2) && !greater(1, 2, 1, 1) && !greater(1, 1, 1, 1));
    }
}
