//! States of a connection (IBA 12.9.7, figures "active" and "passive"), and the effect of each event in each of them,
//! as one table.
//!
//! ```text
//!   active side                                            passive side
//!
//!   Idle --send_req--> ReqSent --MRA--> MraReqRcvd         Idle --REQ--> ReqRcvd --send_mra--> MraReqSent
//!                         |                |                                |                      |
//!                         +------REP-------+                                +-------send_rep-------+
//!                                  v                                                   v
//!                  MraRepSent <--send_mra-- RepRcvd                       RepSent --MRA--> MraRepRcvd
//!                      |                      |                              |                 |
//!                      +-------send_rtu-------+                              +--RTU, establish-+
//!                                  v                                                   v
//!                             Established                                         Established
//!
//!   either side                          Established
//!                          send_dreq |                | DREQ
//!                                    v                v
//!                                DreqSent --DREQ--> DreqRcvd
//!                          DREP, timeout |            | send_drep, DREP
//!                                        v            v
//!                                         Timewait --time--> Idle
//!
//!   peer to peer: the REQs of both sides cross, and in ReqSent the peer's REQ makes one of the two the passive side.
//!   services:     Idle --send_sidr_req--> SidrReqSent --SIDR_REP--> Idle
//!                 Idle --SIDR_REQ--> SidrReqRcvd --send_sidr_rep--> Idle
//! ```
//!
//! A rejection before the connection is established leads to Idle, later to Timewait. Combinations missing from the
//! table have no effect: a message is dropped and counted, a command is refused.

use Action::*;
use Input::*;
use State::*;

/// States, numbered as Linux's `enum ib_cm_state`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum State {
    /// Nothing in progress: before the first message, and after the last.
    Idle = 0,
    /// A REQ was sent.
    ReqSent = 2,
    /// A REQ was received.
    ReqRcvd = 3,
    /// This side asked the peer to wait for the answer to its REQ.
    MraReqSent = 4,
    /// The peer asked to wait for its answer to the REQ.
    MraReqRcvd = 5,
    /// A REP was sent.
    RepSent = 6,
    /// A REP was received.
    RepRcvd = 7,
    /// This side asked the peer to wait for the RTU.
    MraRepSent = 8,
    /// The peer asked to wait for its RTU.
    MraRepRcvd = 9,
    /// The connection is established.
    Established = 10,
    /// A DREQ was sent.
    DreqSent = 11,
    /// A DREQ was received.
    DreqRcvd = 12,
    /// Packets of the connection may still be in the network.
    Timewait = 13,
    /// A SIDR_REQ was sent.
    SidrReqSent = 14,
    /// A SIDR_REQ was received.
    SidrReqRcvd = 15,
}

impl State {
    /// All of them.
    pub const ALL: [State; 15] = [
        Idle,
        ReqSent,
        ReqRcvd,
        MraReqSent,
        MraReqRcvd,
        RepSent,
        RepRcvd,
        MraRepSent,
        MraRepRcvd,
        Established,
        DreqSent,
        DreqRcvd,
        Timewait,
        SidrReqSent,
        SidrReqRcvd,
    ];

    /// Returns whether a request in this state awaits its owner's answer.
    pub(super) fn is_pending(self) -> bool {
        matches!(self, ReqRcvd | MraReqSent | SidrReqRcvd)
    }
}

/// Input of a connection: a message, a command, or an expired timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The names are those of messages and commands.
pub enum Input {
    /// The REQ that made this connection came again.
    RxReq,
    /// Peer to peer: the peer's own REQ came, and it makes this side the passive one.
    RxPeerReq,
    /// An MRA for the REQ.
    RxMraReq,
    /// An MRA for the REP.
    RxMraRep,
    /// An MRA for the LAP.
    RxMraLap,
    RxRej,
    /// A REJ by which the peer takes the connection for an old one.
    RxRejStale,
    RxRep,
    RxRtu,
    RxDreq,
    RxDrep,
    RxSidrRep,
    RxLap,
    RxApr,
    SendReq,
    SendRep,
    SendRtu,
    SendRej,
    SendMra,
    SendDreq,
    SendDrep,
    SendLap,
    SendApr,
    SendSidrReq,
    SendSidrRep,
    Establish,
    Destroy,
    /// All repeats of a message are used up without an answer.
    GiveUp,
    /// The duration of Timewait is over.
    TimewaitEnd,
}

impl Input {
    /// All of them.
    pub const ALL: [Input; 29] = [
        RxReq,
        RxPeerReq,
        RxMraReq,
        RxMraRep,
        RxMraLap,
        RxRej,
        RxRejStale,
        RxRep,
        RxRtu,
        RxDreq,
        RxDrep,
        RxSidrRep,
        RxLap,
        RxApr,
        SendReq,
        SendRep,
        SendRtu,
        SendRej,
        SendMra,
        SendDreq,
        SendDrep,
        SendLap,
        SendApr,
        SendSidrReq,
        SendSidrRep,
        Establish,
        Destroy,
        GiveUp,
        TimewaitEnd,
    ];
}

/// Action of a table row besides entering the next state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// None; a message is counted as unexpected, a command is refused.
    Refuse,
    /// None: it is a duplicate.
    Duplicate,
    /// Tell the owner.
    Tell,
    /// Tell the owner, and give the peer the time that it asked for.
    Patience,
    /// Tell the owner, and send the peer a REJ with reason "timeout".
    TellBoth,
    /// Send the command's message.
    Send,
    /// Send the answer to the repeated message again.
    SayAgain,
    /// Send a REJ with reason "stale connection".
    SayStale,
    /// Send a DREP.
    SayDrep,
    /// Apply the alternate path's table: see [`lap_step`].
    Alternate,
    /// Remove the connection.
    Forget,
    /// Remove the connection, and send a REJ with reason "timeout".
    ForgetRejTimeout,
    /// Remove the connection, and send a REJ with reason "consumer".
    ForgetRej,
    /// Remove the connection, and send a DREP.
    ForgetDrep,
    /// Remove the connection, and send a SIDR_REP with status "rejected".
    ForgetSidr,
    /// Send a DREQ; the connection lives on without its owner until the peer answers.
    Orphan,
}

/// One row: in these states this input leads to that state (`None`: stay) by this action.
struct Row(Input, &'static [State], Option<State>, Action);

const fn to(input: Input, from: &'static [State], next: State, action: Action) -> Row {
    Row(input, from, Some(next), action)
}

const fn stay(input: Input, from: &'static [State], action: Action) -> Row {
    Row(input, from, None, action)
}

/// The table.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    // A repeated REQ: the answer to it may have been lost.
    stay(RxReq,      &[MraReqSent, RepSent],                                    SayAgain),
    stay(RxReq,      &[ReqRcvd, MraRepRcvd, Established, DreqSent, DreqRcvd],   Duplicate),
    stay(RxReq,      &[Timewait],                                               SayStale),
    to  (RxPeerReq,  &[ReqSent],                                ReqRcvd,        Tell),

    to  (RxMraReq,   &[ReqSent],                                MraReqRcvd,     Patience),
    stay(RxMraReq,   &[MraReqRcvd],                                             Duplicate),
    to  (RxMraRep,   &[RepSent],                                MraRepRcvd,     Patience),
    stay(RxMraRep,   &[MraRepRcvd],                                             Duplicate),
    stay(RxMraLap,   &[Established],                                            Alternate),

    to  (RxRej,      &[ReqSent, MraReqRcvd, ReqRcvd, MraReqSent, RepSent, MraRepRcvd], Idle, Tell),
    to  (RxRej,      &[RepRcvd, MraRepSent, Established, DreqSent], Timewait,   Tell),
    to  (RxRejStale, &[ReqSent, MraReqRcvd, ReqRcvd, MraReqSent, RepSent, MraRepRcvd,
                       RepRcvd, MraRepSent, Established, DreqSent], Timewait,   Tell),

    to  (RxRep,      &[ReqSent, MraReqRcvd],                    RepRcvd,        Tell),
    stay(RxRep,      &[RepRcvd],                                                Duplicate),
    // The RTU, or the MRA, was lost.
    stay(RxRep,      &[MraRepSent, Established],                                SayAgain),
    to  (RxRtu,      &[RepSent, MraRepRcvd],                    Established,    Tell),
    stay(RxRtu,      &[Established],                                            Duplicate),

    // In DreqSent the two DREQs have crossed.
    to  (RxDreq,     &[RepSent, MraRepRcvd, Established, DreqSent], DreqRcvd,   Tell),
    stay(RxDreq,     &[DreqRcvd],                                               Duplicate),
    stay(RxDreq,     &[Timewait, Idle],                                         SayDrep),
    to  (RxDrep,     &[DreqSent, DreqRcvd],                     Timewait,       Tell),
    stay(RxDrep,     &[Timewait],                                               Duplicate),

    to  (RxSidrRep,  &[SidrReqSent],                            Idle,           Tell),
    stay(RxLap,      &[Established],                                            Alternate),
    stay(RxApr,      &[Established],                                            Alternate),

    to  (SendReq,    &[Idle],                                   ReqSent,        Send),
    to  (SendRep,    &[ReqRcvd, MraReqSent],                    RepSent,        Send),
    to  (SendRtu,    &[RepRcvd, MraRepSent],                    Established,    Send),
    to  (SendRej,    &[ReqSent, MraReqRcvd, ReqRcvd, MraReqSent, RepRcvd, MraRepSent], Idle, Send),
    to  (SendRej,    &[RepSent, MraRepRcvd],                    Timewait,       Send),
    to  (SendMra,    &[ReqRcvd],                                MraReqSent,     Send),
    to  (SendMra,    &[RepRcvd],                                MraRepSent,     Send),
    stay(SendMra,    &[Established],                                            Alternate),
    to  (SendDreq,   &[Established],                            DreqSent,       Send),
    to  (SendDrep,   &[DreqRcvd],                               Timewait,       Send),
    stay(SendLap,    &[Established],                                            Alternate),
    stay(SendApr,    &[Established],                                            Alternate),
    to  (SendSidrReq, &[Idle],                                  SidrReqSent,    Send),
    to  (SendSidrRep, &[SidrReqRcvd],                           Idle,           Send),
    to  (Establish,  &[RepSent, MraRepRcvd],                    Established,    Tell),

    to  (Destroy,    &[Idle, Timewait, SidrReqSent],            Idle,           Forget),
    to  (Destroy,    &[ReqSent, MraReqRcvd],                    Idle,           ForgetRejTimeout),
    to  (Destroy,    &[ReqRcvd, MraReqSent, RepRcvd, MraRepSent, RepSent, MraRepRcvd], Idle, ForgetRej),
    to  (Destroy,    &[Established, DreqSent],                  DreqSent,       Orphan),
    to  (Destroy,    &[DreqRcvd],                               Idle,           ForgetDrep),
    to  (Destroy,    &[SidrReqRcvd],                            Idle,           ForgetSidr),

    to  (GiveUp,     &[ReqSent, MraReqRcvd, RepSent, MraRepRcvd], Idle,         TellBoth),
    to  (GiveUp,     &[DreqSent],                               Timewait,       Tell),
    to  (GiveUp,     &[SidrReqSent],                            Idle,           Tell),
    stay(GiveUp,     &[Established],                                            Alternate),
    to  (TimewaitEnd, &[Timewait],                              Idle,           Tell),
];

/// Returns the next state and the action of an input in a state.
pub fn step(state: State, input: Input) -> (State, Action) {
    match TABLE.iter().find(|row| row.0 == input && row.1.contains(&state)) {
        Some(row) => (row.2.unwrap_or(state), row.3),
        None => (state, Refuse),
    }
}

/// State of an alternate-path exchange on an established connection: `enum ib_cm_lap_state`.
///
/// ```text
///   Uninit, Idle --send_lap--> Sent --MRA--> MraRcvd          Uninit, Idle --LAP--> Rcvd --send_mra--> MraSent
///                               |               |                                    |                   |
///                               +-APR, timeout--+--> Idle                            +-----send_apr------+--> Idle
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LapState {
    /// None so far.
    Uninit = 0,
    /// The last one is over.
    Idle = 1,
    /// A LAP was sent.
    Sent = 2,
    /// A LAP was received.
    Rcvd = 3,
    /// This side asked the peer to wait for the APR.
    MraSent = 4,
    /// The peer asked to wait for its APR.
    MraRcvd = 5,
}

impl LapState {
    /// All of them.
    pub const ALL: [LapState; 6] =
        [LapState::Uninit, LapState::Idle, LapState::Sent, LapState::Rcvd, LapState::MraSent, LapState::MraRcvd];
}

/// Returns the next state and the action of an alternate-path input on an established connection.
pub fn lap_step(lap: LapState, input: Input) -> (LapState, Action) {
    use LapState as L;
    match (input, lap) {
        (SendLap, L::Uninit | L::Idle) => (L::Sent, Send),
        (RxLap, L::Uninit | L::Idle) => (L::Rcvd, Tell),
        (RxLap, L::Rcvd) => (lap, Duplicate),
        (RxLap, L::MraSent) => (lap, SayAgain),
        (SendMra, L::Rcvd) => (L::MraSent, Send),
        (SendApr, L::Rcvd | L::MraSent) => (L::Idle, Send),
        (RxMraLap, L::Sent) => (L::MraRcvd, Patience),
        (RxMraLap, L::MraRcvd) => (lap, Duplicate),
        (RxApr, L::Sent | L::MraRcvd) => (L::Idle, Tell),
        (GiveUp, L::Sent | L::MraRcvd) => (L::Idle, Tell),
        _ => (lap, Refuse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Renders every state times every input, and the same of alternate paths, as text.
    fn render() -> String {
        let mut out = String::new();
        for state in State::ALL {
            for input in Input::ALL {
                match step(state, input) {
                    (next, Refuse) => {
                        assert_eq!(next, state);
                        writeln!(out, "{state:?} {input:?}: no").unwrap();
                    }
                    (next, action) => writeln!(out, "{state:?} {input:?} -> {next:?}: {action:?}").unwrap(),
                }
            }
        }
        for lap in LapState::ALL {
            for input in Input::ALL.into_iter().filter(|input| step(Established, *input).1 == Alternate) {
                let (next, action) = lap_step(lap, input);
                writeln!(out, "lap {lap:?} {input:?} -> {next:?}: {action:?}").unwrap();
            }
        }
        out
    }

    /// Run with `WEFT_BLESS=1 cargo test -p weft-cm` to accept a change of the table.
    #[test]
    #[allow(clippy::disallowed_methods)] // The test reads an environment variable.
    fn the_table_is_the_recorded_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ib/state.snapshot");
        let now = render();
        if std::env::var_os("WEFT_BLESS").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let recorded = std::fs::read_to_string(path).unwrap();
        assert_eq!(now, recorded, "the table changed: compare, then bless");
    }

    #[test]
    fn no_two_rows_speak_of_the_same_state_and_input() {
        for state in State::ALL {
            for input in Input::ALL {
                let rows = TABLE.iter().filter(|row| row.0 == input && row.1.contains(&state)).count();
                assert!(rows <= 1, "{state:?} {input:?}: {rows} rows");
            }
        }
    }

    #[test]
    fn every_state_can_be_destroyed_and_every_wait_ends() {
        for state in State::ALL {
            assert_ne!(step(state, Destroy).1, Refuse, "{state:?}");
            let asks = matches!(state, ReqSent | MraReqRcvd | RepSent | MraRepRcvd | DreqSent | SidrReqSent);
            assert_eq!(asks || state == Established, step(state, GiveUp).1 != Refuse, "{state:?}");
        }
    }
}
