//! Phases of a call at its responder, as one table:
//!
//! ```text
//!   Waiting ──admit──▶ Reading ──last READ──▶ Executing ──reply──▶ Answered
//! ```
//!
//! A call waits while other calls use the connection's memory. Combinations missing from the table have no effect.

/// Phase of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// There is no memory for its message yet.
    Waiting,
    /// Its chunks are read.
    Reading,
    /// The owner has the whole message.
    Executing,
    /// The reply is planned.
    Answered,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Admit,
    LastRead,
    Reply,
}

use Event::*;
use Phase::*;

#[rustfmt::skip]
const TABLE: &[(Phase, Event, Phase)] = &[
    (Waiting,   Admit,    Reading),
    (Reading,   LastRead, Executing),
    (Executing, Reply,    Answered),
];

/// Returns the phase after an event; `None`: the event has no effect.
pub(super) fn next(phase: Phase, event: Event) -> Option<Phase> {
    TABLE.iter().find(|(from, on, _)| (*from, *on) == (phase, event)).map(|(.., to)| *to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_passes_each_phase_once() {
        let mut reached = vec![];
        for phase in [Waiting, Reading, Executing, Answered] {
            reached.extend([Admit, LastRead, Reply].iter().filter_map(|event| next(phase, *event)));
        }
        assert_eq!(reached, [Reading, Executing, Answered]);
        assert_eq!(next(Reading, Reply), None);
    }
}
