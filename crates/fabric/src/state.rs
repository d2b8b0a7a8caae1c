//! State machines of a port (IBA 7.2.7 and 5.7), as tables. The logical state determines which packets may cross the
//! link, the physical state whether there is a link:
//!
//! ```text
//!            trained               Set Armed          Set Active, or data arrives
//!   Down ───────────> Initialize ───────────> Armed ────────────────────────────> Active
//!    ^                    │                     │                                    │
//!    └────────────────────┴─────────────────────┴─── link lost, or Set Down ─────────┘
//!
//!             peer seen            trained
//!   Polling ────────────> Training ────────> LinkUp        lost: back to Polling or Sleep, by LinkDownDefaultState
//!   Sleep, Disabled: by Set(PortInfo); a polling peer wakes a sleeping port
//! ```

use weft_wire::mad::subn::{PhysState, PortState};

/// Event of a port's logical state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The physical link came up.
    PhyUp,
    /// The physical link went down.
    PhyDown,
    /// Set(PortInfo) requests Down.
    SetDown,
    /// Set(PortInfo) requests Initialize.
    SetInit,
    /// Set(PortInfo) requests Armed.
    SetArmed,
    /// Set(PortInfo) requests Active.
    SetActive,
    /// A data packet arrived.
    Data,
}

impl LinkEvent {
    /// Every event.
    pub const ALL: [LinkEvent; 7] = [
        LinkEvent::PhyUp,
        LinkEvent::PhyDown,
        LinkEvent::SetDown,
        LinkEvent::SetInit,
        LinkEvent::SetArmed,
        LinkEvent::SetActive,
        LinkEvent::Data,
    ];
}

/// Result of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<S> {
    /// Enter this state.
    To(S),
    /// Nothing changes.
    Stay,
    /// Not allowed: a Set is answered with "invalid field", a packet is dropped.
    Refuse,
}

/// Returns the result of an event for the logical state.
pub fn link(state: PortState, event: LinkEvent) -> Step<PortState> {
    use LinkEvent::*;
    use Step::*;
    match (state, event) {
        (PortState::DOWN, PhyUp) => To(PortState::INIT),
        (PortState::DOWN, PhyDown | SetDown) => Stay,
        (PortState::DOWN, SetInit | SetArmed | SetActive | Data) => Refuse,

        (_, PhyUp) => Stay,
        (_, PhyDown | SetDown) => To(PortState::DOWN),
        (_, SetInit) => Refuse,

        (PortState::INIT, SetArmed) => To(PortState::ARMED),
        (PortState::INIT, SetActive | Data) => Refuse,

        (PortState::ARMED, SetArmed) => Stay,
        (PortState::ARMED, SetActive | Data) => To(PortState::ACTIVE),

        (PortState::ACTIVE, SetArmed) => Refuse,
        (PortState::ACTIVE, SetActive | Data) => Stay,

        (_, SetArmed | SetActive | Data) => Refuse,
    }
}

/// Event of a port's physical state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhysEvent {
    /// Set(PortInfo) requests Sleep.
    SetSleep,
    /// Set(PortInfo) requests Polling.
    SetPolling,
    /// Set(PortInfo) requests Disabled.
    SetDisabled,
    /// The other end of a cable polls too, and both have a common mode.
    PeerSeen,
    /// Both ends agreed on a width and a speed.
    Trained,
    /// The other end, the cable, or the node's own power is gone.
    Lost,
}

impl PhysEvent {
    /// Every event.
    pub const ALL: [PhysEvent; 6] = [
        PhysEvent::SetSleep,
        PhysEvent::SetPolling,
        PhysEvent::SetDisabled,
        PhysEvent::PeerSeen,
        PhysEvent::Trained,
        PhysEvent::Lost,
    ];
}

/// Returns the result of an event for the physical state; `default` is LinkDownDefaultState. A manager's Set takes the
/// link down first, and a Set to Polling polls anew even if the link was up.
pub fn physical(state: PhysState, event: PhysEvent, default: PhysState) -> Step<PhysState> {
    use PhysEvent::*;
    use Step::*;
    match (state, event) {
        (_, SetSleep) => To(PhysState::SLEEP),
        (_, SetPolling) => To(PhysState::POLLING),
        (_, SetDisabled) => To(PhysState::DISABLED),

        (PhysState::SLEEP | PhysState::POLLING, PeerSeen) => To(PhysState::TRAINING),
        (PhysState::DISABLED, PeerSeen) => Refuse,
        (_, PeerSeen) => Stay,

        (PhysState::TRAINING, Trained) => To(PhysState::LINK_UP),
        (_, Trained) => Refuse,

        (PhysState::TRAINING | PhysState::LINK_UP, Lost) => To(default),
        (_, Lost) => Stay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word<S: std::fmt::Debug>(step: Step<S>) -> String {
        match step {
            Step::To(state) => format!("{state:?}"),
            Step::Stay => "-".to_owned(),
            Step::Refuse => "no".to_owned(),
        }
    }

    #[test]
    fn every_logical_state_meets_every_event() {
        let states = [PortState::DOWN, PortState::INIT, PortState::ARMED, PortState::ACTIVE];
        let rows = states.map(|state| {
            let cells: Vec<_> = LinkEvent::ALL.iter().map(|event| word(link(state, *event))).collect();
            format!("{state:?}: {}", cells.join(" "))
        });
        //                    PhyUp PhyDown SetDown SetInit SetArmed SetActive Data
        assert_eq!(
            rows,
            [
                "DOWN: INIT - - no no no no",
                "INIT: - DOWN DOWN no ARMED no no",
                "ARMED: - DOWN DOWN no - ACTIVE ACTIVE",
                "ACTIVE: - DOWN DOWN no no - -",
            ]
        );
    }

    #[test]
    fn every_physical_state_meets_every_event() {
        let states =
            [PhysState::SLEEP, PhysState::POLLING, PhysState::DISABLED, PhysState::TRAINING, PhysState::LINK_UP];
        let rows = states.map(|state| {
            let step = |event: &PhysEvent| word(physical(state, *event, PhysState::SLEEP));
            format!("{state:?}: {}", PhysEvent::ALL.iter().map(step).collect::<Vec<_>>().join(" "))
        });
        //                       SetSleep SetPolling SetDisabled PeerSeen Trained Lost
        assert_eq!(
            rows,
            [
                "SLEEP: SLEEP POLLING DISABLED TRAINING no -",
                "POLLING: SLEEP POLLING DISABLED TRAINING no -",
                "DISABLED: SLEEP POLLING DISABLED no no -",
                "TRAINING: SLEEP POLLING DISABLED - LINK_UP SLEEP",
                "LINK_UP: SLEEP POLLING DISABLED - no SLEEP",
            ]
        );
    }
}
