//! Reasons why a record cannot be replayed.

use std::borrow::Cow;

use weft_explain::names;
use weft_record::Operation;

/// Maximum number of bytes of a request.
pub const LENGTH_MAX: u32 = 1 << 30;

/// The reason why a queue pair cannot be replayed. The sentences are printed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No queue pair of the record posted anything.
    #[error("the record has no queue pair with requests")]
    Empty,
    /// Several queue pairs could be meant.
    #[error("the record has several queue pairs: choose one with --qp: {0}")]
    Several(String),
    /// There is no queue pair with the number.
    #[error("the record has no queue pair 0x{0:06x} with requests")]
    NoSuchQueuePair(u32),
    /// The record does not say which requests were posted.
    #[error(
        "the record counts the requests and does not say which they were: an earlier version of weft record wrote it"
    )]
    OldRecord,
    /// Records of the queue pair were overwritten.
    #[error("the record has lost its beginning: {0} records were overwritten for want of room")]
    BeginningLost(u64),
    /// The queue pair was never connected.
    #[error("the queue pair never reached RTS: no request of it was carried out")]
    NotConnected,
    /// The service has no replay.
    #[error("it is a queue pair of type {0}: RC and UC are replayed, datagrams and XRC are not")]
    Service(&'static str),
    /// Receives come from a shared queue.
    #[error("it has a shared receive queue, whose requests belong to no queue pair")]
    SharedReceives,
    /// An operation has no replay.
    #[error("the program posted {}, whose operands are not recorded", name(.0))]
    Operation(Operation),
    /// The peer's memory is not known.
    #[error(
        "the program posted {}, and the new peer's address and key are not known: give --remote-addr and --remote-key",
        name(.0)
    )]
    RemoteMemory(Operation),
    /// The program used several regions of the peer.
    #[error("the program used {0} regions of its peer, and --remote-addr and --remote-key stand for one")]
    SeveralRegions(usize),
    /// The peer used memory of the program.
    #[error(
        "the peer used memory of the program ({0}): the messages that gave it the address and key are payload, which is not \
         recorded"
    )]
    PeerAccess(String),
    /// A request is longer than any.
    #[error("a request has {0} bytes: a replay allocates no more than {max} bytes", max = LENGTH_MAX)]
    TooLong(u32),
}

fn name(operation: &Operation) -> Cow<'static, str> {
    names::operation(*operation)
}
