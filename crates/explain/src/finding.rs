//! A cause of a failure, with its evidence.

use serde::Serialize;

/// Why a connection broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The queue pair sends to a GID that is not its peer's.
    WrongGid,
    /// The queue pair sends to a number that is not its peer's.
    WrongQpn,
    /// The two sides have different P_Keys.
    Pkey,
    /// Long packets do not arrive, or are refused for their length.
    Mtu,
    /// A link between the two ports is down.
    Cable,
    /// The peer's process ended, or destroyed its queue pair.
    PeerGone,
    /// A packet filter drops the packets.
    Firewall,
    /// Acknowledgements come later than the timeout allows.
    ShortTimeout,
    /// The peer posted no receive.
    ReceiverNotReady,
    /// The address of one side is gone.
    AddressGone,
    /// The peer refused access to its memory.
    RemoteAccess,
    /// The peer refused the request.
    InvalidRequest,
    /// The peer failed to carry out the request.
    RemoteOperation,
    /// A work request of this side was wrong.
    LocalRequest,
    /// The network loses too many packets.
    Loss,
}

impl Cause {
    /// Returns a headline.
    pub fn title(self) -> &'static str {
        match self {
            Cause::WrongGid => "wrong GID",
            Cause::WrongQpn => "wrong queue pair number",
            Cause::Pkey => "P_Key mismatch",
            Cause::Mtu => "MTU mismatch",
            Cause::Cable => "link down",
            Cause::PeerGone => "peer gone",
            Cause::Firewall => "packets filtered",
            Cause::ShortTimeout => "timeout too short",
            Cause::ReceiverNotReady => "receiver not ready",
            Cause::AddressGone => "address gone",
            Cause::RemoteAccess => "remote access refused",
            Cause::InvalidRequest => "request refused as invalid",
            Cause::RemoteOperation => "remote operation failed",
            Cause::LocalRequest => "error in the work request",
            Cause::Loss => "packet loss",
        }
    }
}

/// How much the record says for a cause; the surest come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The record shows it.
    Certain,
    /// The record agrees with it, and with little else.
    Likely,
    /// The record does not exclude it.
    Possible,
}

/// A cause with its evidence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// How sure it is.
    pub certainty: Certainty,
    /// Sentences about records.
    pub evidence: Vec<String>,
    /// The remedy.
    pub advice: &'static str,
}

impl Finding {
    /// Makes a finding.
    pub fn new(cause: Cause, certainty: Certainty, evidence: Vec<String>, advice: &'static str) -> Finding {
        Finding { cause, certainty, evidence, advice }
    }
}
