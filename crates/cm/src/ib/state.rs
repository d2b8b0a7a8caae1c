//! The states of a connection.

/// States, numbered as Linux's `enum ib_cm_state`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum State {
    /// Nothing is under way: before the first message, and after the last.
    Idle = 0,
    /// A REQ was sent.
    ReqSent = 2,
    /// A REQ was received.
    ReqRcvd = 3,
    /// The peer was told to wait for the answer to its REQ.
    MraReqSent = 4,
    /// The peer said to wait for the answer to our REQ.
    MraReqRcvd = 5,
    /// A REP was sent.
    RepSent = 6,
    /// A REP was received.
    RepRcvd = 7,
    /// The peer was told to wait for the RTU.
    MraRepSent = 8,
    /// The peer said to wait for the RTU.
    MraRepRcvd = 9,
    /// The connection stands.
    Established = 10,
    /// A DREQ was sent.
    DreqSent = 11,
    /// A DREQ was received.
    DreqRcvd = 12,
    /// Packets of the connection may still be under way.
    Timewait = 13,
    /// A request for a service was sent.
    SidrReqSent = 14,
    /// A request for a service was received.
    SidrReqRcvd = 15,
}

/// What goes on about the alternate path of a connection that stands: `enum ib_cm_lap_state`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LapState {
    /// Nothing so far.
    Uninit = 0,
    /// Nothing any more.
    Idle = 1,
    /// A LAP was sent.
    Sent = 2,
    /// A LAP was received.
    Rcvd = 3,
    /// The peer was told to wait for the APR.
    MraSent = 4,
    /// The peer said to wait for the APR.
    MraRcvd = 5,
}
