//! The two sides of an agreement before it is reached: own wishes, the peer's frame, and reasons to fail.

use weft_wire::iwarp::{Enhanced, MpaFlags, RtrKinds};

use crate::limits::REVISION_MAX;

/// Wishes of one side. The default is that of Linux's siw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Revision of MPA that an initiator asks for: 1, or 2 with IRD and ORD. A responder follows its peer.
    pub revision: u8,
    /// CRCs are wanted. They are used if either side wants them.
    pub crc: bool,
    /// Markers are wanted in the stream from the peer.
    pub markers: bool,
    /// READs and atomics of the peer that this side answers at a time.
    pub ird: u16,
    /// READs and atomics that this side wants outstanding.
    pub ord: u16,
    /// Kinds of first FPDU that an initiator in peer-to-peer mode can send; none: not peer to peer.
    pub rtr: RtrKinds,
    /// RFC 7306 is used if the peer is Weft.
    pub extensions: bool,
}

impl Default for Offer {
    fn default() -> Offer {
        Offer {
            revision: REVISION_MAX,
            crc: false,
            markers: false,
            ird: 1,
            ord: 1,
            rtr: RtrKinds::empty(),
            extensions: true,
        }
    }
}

/// Reason why a negotiation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NegotiationError {
    /// The peer did not answer in time.
    #[error("the peer did not answer in time")]
    Timeout,
    /// The peer closed the connection.
    #[error("the peer closed the connection before it was negotiated")]
    Closed,
    /// The peer closed the connection without a byte of a reply to a request of revision 2. Another connection with
    /// [`Offer::revision`] 1 may succeed: an implementation of RFC 5044 alone closes the connection when it reads a
    /// revision that it does not know.
    #[error("the peer closed the connection without a reply; it may know revision 1 of MPA only")]
    ClosedWithoutReply,
    /// The peer's bytes are not a frame of MPA, or not the expected one.
    #[error("the peer does not speak MPA")]
    NotMpa,
    /// The peer's reply is of an older revision; another connection with [`Offer::revision`] 1 may succeed.
    #[error("the peer knows no revision 2 of MPA")]
    Revision,
    /// The responder wants more outstanding READs than this side answers.
    #[error("the peer wants more outstanding READs than this side answers")]
    InsufficientIrd,
    /// The responder chose no kind of first FPDU that was offered.
    #[error("the peer chose a first FPDU that was not offered")]
    NoMatchingRtr,
    /// The private data is too long for a frame.
    #[error("private data is longer than a frame of MPA holds")]
    PrivateData,
    /// The call does not suit the state.
    #[error("not in this state of the negotiation")]
    State,
}

/// The peer's frame without its private data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerFrame {
    pub flags: MpaFlags,
    pub revision: u8,
    pub enhanced: Option<Enhanced>,
}
