//! Phases of a queue pair's stream, as one table (RFC 5040 §6; siw's IDLE, RTS, TERMINATE, CLOSING, ERROR):
//!
//! ```text
//!   Idle ──attach──▶ Open ──fault──▶ Terminating ──TERMINATE sent──▶ Closing ──peer's end──▶ Closed
//!                      ├── close, abort, peer's TERMINATE ──────────────▲                      ▲
//!                      └── peer's end ─────────────────────────────────────────────────────────┘
//! ```
//!
//! In Closing the stream to the peer is shut down as soon as its last whole FPDU is sent, and bytes of the peer are
//! discarded: a socket closed with unread bytes would answer with a reset, which may destroy the TERMINATE on its way.
//! A reset, or the end of the patience, leads to Closed from anywhere. Other combinations have no effect.

/// Phase of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StreamPhase {
    /// No stream is attached.
    #[default]
    Idle,
    /// Both directions run.
    Open,
    /// A TERMINATE waits for its turn.
    Terminating,
    /// This side ends.
    Closing,
    /// Both directions have ended.
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Attach,
    /// A fault of the peer or of this side, which a TERMINATE reports.
    Fault,
    /// The TERMINATE is in the batch.
    Terminated,
    /// The program closes the connection, or the queue pair enters ERR without a fault.
    Close,
    /// The peer reports a fault.
    PeerTerminate,
    /// The peer shut down its direction.
    PeerEnd,
    /// The connection is gone, or the peer does not end it.
    Reset,
}

use Event::*;
use StreamPhase::*;

#[rustfmt::skip]
const TABLE: &[(StreamPhase, Event, StreamPhase)] = &[
    (Idle,        Attach,        Open),

    (Open,        Fault,         Terminating),
    (Open,        Close,         Closing),
    (Open,        PeerTerminate, Closing),
    (Open,        PeerEnd,       Closed),
    (Open,        Reset,         Closed),

    (Terminating, Terminated,    Closing),
    (Terminating, PeerEnd,       Closed),
    (Terminating, Reset,         Closed),

    (Closing,     PeerEnd,       Closed),
    (Closing,     Reset,         Closed),
];

/// Returns the phase after an event.
pub(super) fn next(phase: StreamPhase, event: Event) -> StreamPhase {
    TABLE.iter().find(|(from, on, _)| (*from, *on) == (phase, event)).map_or(phase, |(.., to)| *to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_is_final_and_every_phase_but_idle_ends_with_a_reset() {
        let events = [Attach, Fault, Terminated, Close, PeerTerminate, PeerEnd, Reset];
        assert!(events.iter().all(|event| next(Closed, *event) == Closed));
        assert!([Open, Terminating, Closing].iter().all(|phase| next(*phase, Reset) == Closed));
        assert_eq!(next(Open, Terminated), Open);
    }
}
