//! Outcome of a negotiation.

use serde::{Deserialize, Serialize};
use weft_wire::iwarp::RtrKinds;

/// First FPDU of an initiator in peer-to-peer mode (RFC 6581 §9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Rtr {
    /// An FPDU of length zero.
    Fpdu,
    /// A WRITE of length zero.
    Write,
    /// A READ of length zero.
    Read,
}

impl Rtr {
    /// All of them, the preferred one first. siw knows WRITE and READ, and prefers WRITE.
    const PREFERENCE: [(Rtr, RtrKinds); 3] =
        [(Rtr::Write, RtrKinds::WRITE), (Rtr::Read, RtrKinds::READ), (Rtr::Fpdu, RtrKinds::FPDU)];

    /// Chooses among the kinds on offer.
    pub fn choose(offered: RtrKinds) -> Option<Rtr> {
        Rtr::PREFERENCE.iter().find(|(_, kind)| offered.contains(*kind)).map(|(rtr, _)| *rtr)
    }

    /// Returns its flag.
    pub fn kind(self) -> RtrKinds {
        match self {
            Rtr::Fpdu => RtrKinds::FPDU,
            Rtr::Write => RtrKinds::WRITE,
            Rtr::Read => RtrKinds::READ,
        }
    }
}

/// Agreement of both ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StreamParams {
    /// Every FPDU has a CRC.
    pub crc: bool,
    /// Markers are in the stream to the peer.
    pub markers_out: bool,
    /// Markers are in the stream from the peer.
    pub markers_in: bool,
    /// READs and atomics of the peer that this side answers at a time.
    pub ird: u16,
    /// READs and atomics that this side may have outstanding.
    pub ord: u16,
    /// First FPDU that this side, an initiator, must send.
    pub rtr: Option<Rtr>,
    /// This side, a responder, must not send before the peer's first FPDU has come.
    pub awaits_rtr: bool,
    /// This side, a responder, lets the initiator send first, though not for ever (RFC 5044 §7.1.2): siw fails if it finds
    /// more than the reply when it reads the reply.
    pub yields_first: bool,
    /// This side, an initiator, sends an empty WRITE after its first FPDU if nothing comes back: siw may miss the arrival
    /// of an FPDU that comes while it enters RDMA mode.
    pub repeats_first: bool,
    /// The peer is Weft: atomics and immediate data of RFC 7306, and FPDUs longer than TCP's segments.
    pub extensions: bool,
}
