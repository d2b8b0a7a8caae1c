//! Limits of a stream.

use weft_verbs::Duration;

/// Most bytes that wait for TCP; a batch ends with the FPDU that reaches it. A partial write copies what is left of them.
pub(super) const BATCH_BYTES: usize = 256 << 10;
/// Answers in a row while requests of this side wait, so that a peer's READs cannot starve them. siw's number.
pub(super) const ANSWERS_IN_A_ROW: u8 = 4;
/// Time that a responder leaves to the initiator for the first FPDU. The round trip is over by then, and a program whose
/// responder sends first loses little.
pub(super) const FIRST_FPDU_WAIT: Duration = Duration::from_millis(50);
/// Time after which an initiator that hears nothing sends another FPDU.
pub(super) const FIRST_FPDU_REPEAT: Duration = Duration::from_millis(10);
/// Time that a refused segment has to bring its CRC. A wrong length may announce bytes that never come.
pub(super) const REFUSAL_WAIT: Duration = Duration::from_millis(50);
/// Time that a SEND waits for a receive: longer than the kernel keeps a program from a processor that it shares.
pub(super) const RECEIVE_WAIT: Duration = Duration::from_secs(1);
/// Time for the peer to close its end after this side has: then the connection is cut.
pub(super) const LINGER: Duration = Duration::from_secs(2);
