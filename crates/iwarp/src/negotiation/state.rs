//! States of a negotiation, as one table (RFC 5044 §7.1):
//!
//! ```text
//!   initiator                                     responder
//!
//!   AwaitReply ──reply──▶ Open                    AwaitRequest ──request──▶ AwaitAnswer ──accept──▶ Open
//!       └── rejection, wrong frame, end ──▶ Ended        └── wrong frame, end ──▶ Ended ◀── reject ──┘
//! ```
//!
//! Combinations missing from the table have no effect.

/// Role of a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It connected, and sends the request.
    Initiator,
    /// It accepted the TCP connection, and sends the reply.
    Responder,
}

/// State of a negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The request is sent.
    AwaitReply,
    /// The TCP connection is there.
    AwaitRequest,
    /// The program has the request.
    AwaitAnswer,
    /// The stream is open.
    Open,
    /// Rejected, or failed.
    Ended,
}

/// Input of a negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    Request,
    Reply,
    RejectReply,
    BadFrame,
    Accept,
    Reject,
    Timeout,
    PeerClosed,
}

/// Report of a transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    None,
    Ask,
    ReportReject,
    Fail,
}

use Input::*;
use State::*;

#[rustfmt::skip]
const TABLE: &[(State, Input, State, Action)] = &[
    (AwaitReply,   Reply,       Open,        Action::None),
    (AwaitReply,   RejectReply, Ended,       Action::ReportReject),
    (AwaitReply,   BadFrame,    Ended,       Action::Fail),
    (AwaitReply,   Timeout,     Ended,       Action::Fail),
    (AwaitReply,   PeerClosed,  Ended,       Action::Fail),

    (AwaitRequest, Request,     AwaitAnswer, Action::Ask),
    (AwaitRequest, BadFrame,    Ended,       Action::Fail),
    (AwaitRequest, Timeout,     Ended,       Action::Fail),
    (AwaitRequest, PeerClosed,  Ended,       Action::Fail),

    (AwaitAnswer,  Accept,      Open,        Action::None),
    (AwaitAnswer,  Reject,      Ended,       Action::None),
    (AwaitAnswer,  BadFrame,    Ended,       Action::Fail),
    (AwaitAnswer,  PeerClosed,  Ended,       Action::Fail),
];

/// Returns the state in which a role begins.
pub(super) fn first(role: Role) -> State {
    match role {
        Role::Initiator => AwaitReply,
        Role::Responder => AwaitRequest,
    }
}

/// Returns the next state and the report.
pub(super) fn next(state: State, input: Input) -> Option<(State, Action)> {
    TABLE.iter().find(|(from, on, ..)| (*from, *on) == (state, input)).map(|(.., to, action)| (*to, *action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_leaves_a_final_state_and_none_is_doubled() {
        for (at, (from, input, ..)) in TABLE.iter().enumerate() {
            assert!(!matches!(from, Open | Ended));
            assert!(TABLE[at + 1..].iter().all(|row| (row.0, row.1) != (*from, *input)));
        }
        // An answer of the program may take as long as it likes.
        assert_eq!(next(AwaitAnswer, Timeout), None);
    }
}
