//! Packets that faults hold back.

use std::cmp::Ordering;

use weft_verbs::Instant;

use crate::datagram::Datagram;

/// A copy of a packet.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) ib: Vec<u8>,
    like: Datagram<'static>,
}

impl Owned {
    pub(super) fn of(datagram: &Datagram<'_>, ib: Vec<u8>) -> Owned {
        Owned { ib, like: Datagram { ib: &[], ..*datagram } }
    }

    pub(super) fn datagram(&self) -> Datagram<'_> {
        Datagram { ib: &self.ib, ..self.like }
    }
}

/// A delayed packet, ordered by its time and then by its number.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) at: Instant,
    pub(super) number: u64,
    pub(super) packet: Owned,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Held) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A packet waiting to be overtaken.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) until: Instant,
    pub(super) overtaken_by: u64,
    pub(super) packet: Owned,
}
