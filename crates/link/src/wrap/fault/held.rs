//! Packets that faults hold back.

use std::cmp::Ordering;

use weft_verbs::Instant;

use super::scope::Flow;

/// A copy of a packet, which faults hold back or damage. Packets pass as views, so that those that nothing happens to are
/// not copied.
pub trait Kept: 'static {
    /// A packet in its place.
    type View<'a>: Copy;

    /// Copies a packet.
    fn of(packet: &Self::View<'_>) -> Self;
    /// Returns the copy as a packet.
    fn view(&self) -> Self::View<'_>;
    /// Changes one bit that the ICRC covers, or of the ICRC; `bit` may be any number. Returns `false` if there is none.
    fn flip(&mut self, bit: u64) -> bool;
    /// Marks it as one that met congestion: CE in the ECN bits of its IP header or GRH (RFC 3168, section 5).
    fn mark(&mut self);
    /// Returns the ends of a packet's flow.
    fn flow(packet: &Self::View<'_>) -> Flow;
    /// Returns the first bytes of a packet, from the BTH on; at least its headers.
    fn bytes<'p>(packet: &'p Self::View<'_>) -> &'p [u8];
    /// Returns the length of a packet from BTH to ICRC.
    fn len(packet: &Self::View<'_>) -> usize;
}

/// CE, "congestion experienced", of a traffic class's ECN bits.
pub(super) const CONGESTION_EXPERIENCED: u8 = 0b11;

/// A delayed packet, ordered by its time and then by its number.
#[derive(Debug)]
pub(super) struct Held<K> {
    pub(super) at: Instant,
    pub(super) number: u64,
    pub(super) packet: K,
}

impl<K> PartialEq for Held<K> {
    fn eq(&self, other: &Held<K>) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl<K> Eq for Held<K> {}
impl<K> PartialOrd for Held<K> {
    fn partial_cmp(&self, other: &Held<K>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Held<K> {
    fn cmp(&self, other: &Held<K>) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A packet waiting to be overtaken.
#[derive(Debug)]
pub(super) struct Late<K> {
    pub(super) until: Instant,
    pub(super) overtaken_by: u64,
    pub(super) packet: K,
}
