//! One end of an attempt: its owner's actions and events.

use weft_cm::ib::{ConnId, EventKind, RejectReason, State};

/// Which end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Sent the request.
    Active,
    /// Received the request.
    Passive,
}

/// One end of an attempt.
#[derive(Clone, Debug)]
pub struct Side {
    /// Host.
    pub host: usize,
    /// Boot count of the host at the time.
    pub boot: u32,
    /// Connection handle.
    pub conn: ConnId,
    /// The attempt.
    pub attempt: usize,
    /// Active or passive.
    pub role: Role,
    /// Its queue pair.
    pub qpn: u32,
    /// First PSN that it requests.
    pub psn: u32,
    /// A REP was sent (passive), or an RTU (active).
    pub agreed: bool,
    /// It sent a REJ.
    pub refused: bool,
    /// Active: the passive side that sent the REP.
    pub partner: Option<usize>,
    /// It was destroyed.
    pub destroyed: bool,
    /// Its host crashed.
    pub crashed: bool,
    /// It sent an MRA.
    pub dawdled: bool,
    /// Names of the events.
    pub told: Vec<&'static str>,
    /// The reason of a rejection.
    pub reason: Option<RejectReason>,
}

impl Side {
    /// Returns whether it got this event.
    pub fn was_told(&self, name: &str) -> bool {
        self.told.contains(&name)
    }

    /// Returns whether its owner waits for nothing more.
    pub fn is_over(&self) -> bool {
        const LAST: [&str; 6] = ["ReqError", "RepError", "Rej", "TimewaitExit", "SidrRep", "SidrReqError"];
        self.destroyed || self.crashed || self.refused || LAST.iter().any(|name| self.was_told(name))
    }

    /// Returns whether the connection was established, as this side saw it.
    pub fn stood(&self) -> bool {
        match self.role {
            Role::Active => self.agreed,
            Role::Passive => self.was_told("Rtu") || self.was_told("UserEstablished"),
        }
    }
}

/// Returns the short name of an event.
pub fn name(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::ReqReceived(_) => "Req",
        EventKind::RepReceived(_) => "Rep",
        EventKind::RtuReceived => "Rtu",
        EventKind::UserEstablished => "UserEstablished",
        EventKind::RejReceived(_) => "Rej",
        EventKind::MraReceived { .. } => "Mra",
        EventKind::DreqReceived => "Dreq",
        EventKind::DrepReceived => "Drep",
        EventKind::TimewaitExit => "TimewaitExit",
        EventKind::ReqError => "ReqError",
        EventKind::RepError => "RepError",
        EventKind::DreqError => "DreqError",
        EventKind::SidrReqReceived(_) => "SidrReq",
        EventKind::SidrRepReceived(_) => "SidrRep",
        EventKind::SidrReqError => "SidrReqError",
        EventKind::LapReceived(_) => "Lap",
        EventKind::AprReceived(_) => "Apr",
        EventKind::LapError => "LapError",
    }
}

/// Returns the states in which a connection may be right after this event.
pub fn states_after(kind: &EventKind) -> &'static [State] {
    use State::*;
    match kind {
        EventKind::ReqReceived(_) => &[ReqRcvd],
        EventKind::RepReceived(_) => &[RepRcvd],
        EventKind::RtuReceived | EventKind::UserEstablished => &[Established],
        EventKind::RejReceived(_) => &[Idle, Timewait],
        EventKind::MraReceived { .. } => &[MraReqRcvd, MraRepRcvd, Established],
        EventKind::DreqReceived => &[DreqRcvd],
        EventKind::DrepReceived | EventKind::DreqError => &[Timewait],
        EventKind::TimewaitExit | EventKind::ReqError | EventKind::RepError => &[Idle],
        EventKind::SidrReqReceived(_) => &[SidrReqRcvd],
        EventKind::SidrRepReceived(_) | EventKind::SidrReqError => &[Idle],
        EventKind::LapReceived(_) | EventKind::AprReceived(_) | EventKind::LapError => &[Established],
    }
}

/// Returns whether an event may follow `last`, the owner's latest event; any other order is an error.
pub fn may_follow(kind: &EventKind, last: Option<&str>) -> bool {
    // Events of a connection that is established, or was as far as one side knows.
    const STANDING: [&str; 8] = ["Req", "Mra", "Rep", "Rtu", "UserEstablished", "Lap", "Apr", "LapError"];
    let after: &[&str] = match kind {
        EventKind::ReqReceived(_) | EventKind::SidrReqReceived(_) => return last.is_none(),
        EventKind::RepReceived(_) | EventKind::ReqError => return matches!(last, None | Some("Mra")),
        EventKind::SidrRepReceived(_) | EventKind::SidrReqError => return last.is_none(),
        EventKind::RtuReceived | EventKind::UserEstablished | EventKind::RepError => &["Req", "Mra"],
        EventKind::RejReceived(_) => return last.is_none_or(|l| !["TimewaitExit", "Rej", "Dreq"].contains(&l)),
        EventKind::MraReceived { .. } => return last.is_none_or(|l| STANDING.contains(&l)),
        EventKind::DreqReceived | EventKind::DreqError => &STANDING,
        EventKind::LapReceived(_) | EventKind::AprReceived(_) | EventKind::LapError => &STANDING[1..],
        EventKind::DrepReceived => return last.is_some_and(|l| l == "Dreq" || STANDING[1..].contains(&l)),
        EventKind::TimewaitExit => &["Req", "Mra", "Dreq", "Drep", "DreqError", "Rej"],
    };
    last.is_some_and(|last| after.contains(&last))
}
