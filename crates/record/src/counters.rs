//! Counters whose growth is recorded.

/// Counters of a queue pair that are recorded, by their names in `weft qp`. A record has the place in this list: append
/// only.
pub const QUEUE_PAIR: &[&str] = &[
    "retransmits",
    "timeouts",
    "probes",
    "sequence_naks_sent",
    "sequence_naks_received",
    "rnr_naks_sent",
    "rnr_naks_received",
    "out_of_order",
    "duplicates",
    "implied_naks",
    "dropped",
    "qkey_violations",
    "ring_frames_resent",
    "ring_frames_skipped",
];

/// Counters of a link that are recorded. A record has the place in this list: append only.
pub const LINK: &[&str] = &[
    "packets that the kernel refused to send",
    "packets whose destination did not resolve",
    "packets whose payload was no longer mapped",
    "packets that found no room in the socket",
    "packets received with a wrong ICRC",
    "packets received that do not parse",
    "packets received for another process",
    "errors of a connected socket",
];

/// Place in [`LINK`] of packets that the kernel refused to send.
pub const REFUSED: u8 = 0;
/// Place in [`LINK`] of errors of a connected socket.
pub const SOCKET_ERRORS: u8 = 7;

/// Returns the place of a counter in [`QUEUE_PAIR`].
pub fn of_queue_pair(name: &str) -> Option<u8> {
    QUEUE_PAIR.iter().position(|known| *known == name).map(|at| at as u8)
}
