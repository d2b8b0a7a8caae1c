//! Phases of a connection, as one table:
//!
//! ```text
//!              ┌─pause over─ Refused
//!              ▼                ▲
//!   connect ─▶ Connecting ──────┴ refused, within the grace period
//!                  └─connected──▶ Negotiating ──opened──▶ Handed
//!                                     │                      ▲
//!   accepted by TCP ──▶ Negotiating ──┴─requested─▶ Requested ┘ accept
//! ```
//!
//! Every phase ends with the connection: by a failure, a rejection, the program, or its stream's end.

/// Phase of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// TCP connects.
    Connecting,
    /// The peer did not listen; TCP connects again after a pause.
    Refused,
    /// One frame of the negotiation is under way.
    Negotiating,
    /// The program has the peer's request.
    Requested,
    /// The process with the queue pair has the socket.
    Handed,
}

/// Input of a connection that changes its phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    Connected,
    Refused,
    PauseOver,
    Requested,
    Opened,
}

use Phase::*;

const TABLE: &[(Phase, Input, Phase)] = &[
    (Connecting, Input::Connected, Negotiating),
    (Connecting, Input::Refused, Refused),
    (Refused, Input::PauseOver, Connecting),
    (Negotiating, Input::Requested, Requested),
    (Negotiating, Input::Opened, Handed),
    (Requested, Input::Opened, Handed),
];

/// Returns the next phase; `None` if the input does not belong to the phase.
pub(super) fn next(phase: Phase, input: Input) -> Option<Phase> {
    TABLE.iter().find(|(from, on, _)| (*from, *on) == (phase, input)).map(|(.., to)| *to)
}
