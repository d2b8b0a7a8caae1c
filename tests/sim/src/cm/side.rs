//! One end of an attempt: what its owner did, and what it was told.

use weft_cm::ib::{ConnId, EventKind, RejectReason, State};

/// Which end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// It asked.
    Active,
    /// It was asked.
    Passive,
}

/// One end of an attempt.
#[derive(Clone, Debug)]
pub struct Side {
    /// Host.
    pub host: usize,
    /// Which start of the host this belongs to.
    pub boot: u32,
    /// Its handle.
    pub conn: ConnId,
    /// The attempt.
    pub attempt: usize,
    /// Which end.
    pub role: Role,
    /// Its queue pair.
    pub qpn: u32,
    /// The first PSN that it asks for.
    pub psn: u32,
    /// Passive: a REP was sent. Active: an RTU.
    pub agreed: bool,
    /// Its own reject.
    pub refused: bool,
    /// Active: the passive side whose REP came.
    pub partner: Option<usize>,
    /// It was destroyed.
    pub destroyed: bool,
    /// It was lost with its host.
    pub crashed: bool,
    /// It asked for patience.
    pub dawdled: bool,
    /// Names of the events.
    pub told: Vec<&'static str>,
    /// The reason of a rejection.
    pub reason: Option<RejectReason>,
}

impl Side {
    /// Whether it was told this.
    pub fn was_told(&self, name: &str) -> bool {
        self.told.contains(&name)
    }

    /// Whether its owner waits for nothing more.
    pub fn is_over(&self) -> bool {
        const LAST: [&str; 6] = ["ReqError", "RepError", "Rej", "TimewaitExit", "SidrRep", "SidrReqError"];
        self.destroyed || self.crashed || self.refused || LAST.iter().any(|name| self.was_told(name))
    }

    /// Whether the connection stood, seen from here.
    pub fn stood(&self) -> bool {
        match self.role {
            Role::Active => self.agreed,
            Role::Passive => self.was_told("Rtu") || self.was_told("UserEstablished"),
        }
    }
}

/// A short name.
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

/// States in which a connection may be right after its owner was told this.
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

/// What may have been told before, last of all: an event that follows anything else is out of order.
pub fn may_follow(kind: &EventKind, last: Option<&str>) -> bool {
    // What is told of a connection that stands, or stood as far as one side knows.
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
