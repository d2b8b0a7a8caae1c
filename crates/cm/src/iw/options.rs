//! Wishes of a program, or its environment, for MPA.

use serde::{Deserialize, Serialize};
use weft_iwarp::{Offer, Rtr};
use weft_wire::iwarp::RtrKinds;

/// Options of a connection's negotiation. The default is what Linux's siw does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MpaOptions {
    /// Every FPDU has a CRC, whatever the peer wants.
    pub crc: bool,
    /// The peer sends markers.
    pub markers: bool,
    /// An initiator asks for revision 1 (RFC 5044), without depths.
    pub revision_1: bool,
    /// An initiator in peer-to-peer mode sends this first FPDU (RFC 6581 §9).
    pub rtr: Option<Rtr>,
}

impl MpaOptions {
    /// Returns the offer of a side with these depths.
    pub(super) fn offer(&self, ird: u8, ord: u8) -> Offer {
        let rtr = self.rtr.map_or(RtrKinds::empty(), Rtr::kind);
        Offer {
            revision: if self.revision_1 { 1 } else { Offer::default().revision },
            crc: self.crc,
            markers: self.markers,
            ird: ird.into(),
            ord: ord.into(),
            rtr,
            ..Offer::default()
        }
    }
}
