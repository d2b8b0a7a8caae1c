//! State about senders to this process: ICRC seeds, and how they number their packets. The ICRC covers IPv4's
//! identification, which a UDP socket does not show. Weft's senders use 0 for each message, or increment it with each
//! (`sys::udp::connected`), Linux's rxe does something else; segments of a message count on from its first. The check
//! first tries the expected identification, and solves for any other.

use weft_wire::Packet;
use weft_wire::icrc::{self, Flow};
use weft_wire::opcode::{Kind, Opcode};

use crate::seal::Seeds;

/// Maximum number of remembered senders, indexed by source port.
const SENDERS_KEPT: usize = 64;

/// Recent senders.
#[derive(Clone, Debug)]
pub struct Senders {
    kept: Box<[Option<Sender>; SENDERS_KEPT]>,
}

/// A recent sender.
#[derive(Clone, Debug)]
pub struct Sender {
    seeds: Seeds,
    /// Identification of its last message.
    last: u16,
    /// Increment of the next message's identification.
    step: u16,
}

impl Default for Senders {
    fn default() -> Senders {
        Senders { kept: Box::new([const { None }; SENDERS_KEPT]) }
    }
}

impl Senders {
    /// Checks the ICRC of a packet, BTH to ICRC, that is segment number `segment` of a message; returns its
    /// identification (0 for IPv6). `None`: it is corrupt.
    #[inline]
    pub fn check(&mut self, flow: &Flow, ib: &[u8], segment: u16) -> Option<u16> {
        let (Flow::V4 { sport, .. } | Flow::V6 { sport, .. }) = flow;
        let place = &mut self.kept[usize::from(*sport) % SENDERS_KEPT];
        match place {
            Some(sender) if sender.seeds.flow() == flow => sender.check(ib, segment),
            _ => place.insert(Sender::new(*flow)).check(ib, segment),
        }
    }
}

impl Sender {
    /// Makes the state of a new sender.
    pub fn new(flow: Flow) -> Sender {
        Sender { seeds: Seeds::new(flow), last: 0, step: 0 }
    }

    /// Whether the ICRC matches segment number `segment` of its next message, with the expected identification.
    #[inline]
    pub fn fits(&mut self, ib: &[u8], segment: u16) -> bool {
        let expected = self.last.wrapping_add(self.step).wrapping_add(segment);
        Packet::icrc(ib) == Some(icrc::of_packet(self.seeds.seed(ib.len(), expected), ib))
    }

    /// Records that its next message came, numbered as expected.
    #[inline]
    pub fn on_expected(&mut self) {
        self.last = self.last.wrapping_add(self.step);
    }

    /// Like [`Senders::check`].
    #[inline]
    pub fn check(&mut self, ib: &[u8], segment: u16) -> Option<u16> {
        let found = Packet::icrc(ib)?;
        if segment == 0 {
            self.last = self.last.wrapping_add(self.step);
        }
        let expected = self.last.wrapping_add(segment);
        let delta = icrc::of_packet(self.seeds.seed(ib.len(), expected), ib) ^ found;
        if delta == 0 {
            return Some(expected);
        }
        let change = match icrc::explain(self.seeds.flow(), ib.len(), delta) {
            Some(change) => change,
            None => self.explain_flush(ib, expected, found)?,
        };
        let ip_id = change ^ expected;
        self.last = ip_id.wrapping_sub(segment);
        self.step = u16::from(self.last != 0);
        Some(ip_id)
    }

    /// Returns the change of the identification that explains the ICRC of a FLUSH from Linux's rxe.
    #[cold]
    fn explain_flush(&mut self, ib: &[u8], expected: u16, found: u32) -> Option<u16> {
        if !is_flush(ib) {
            return None;
        }
        let delta = icrc::of_flush_by_rxe(self.seeds.seed(ib.len(), expected), ib) ^ found;
        icrc::explain_flush_by_rxe(self.seeds.flow(), ib.len(), delta)
    }
}

/// Whether a packet is a FLUSH.
fn is_flush(ib: &[u8]) -> bool {
    ib.first().and_then(|&opcode| Opcode(opcode).info()).is_some_and(|info| info.kind == Kind::Flush)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn packet(flow: &Flow, ip_id: u16) -> Vec<u8> {
        let mut ib: Vec<u8> = (0..60).collect();
        let crc = icrc::of_packet(flow.seed(ib.len(), ip_id), &ib);
        ib[56..].copy_from_slice(&crc.to_le_bytes());
        ib
    }

    #[test]
    fn a_sender_may_number_its_messages_as_it_likes() {
        let flow = Flow::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2), sport: 50_001 };
        let mut senders = Senders::default();
        // Always from 0; counting across the wrap, with one lost; arbitrary.
        for messages in [&[0u16, 0, 0][..], &[0xfffe, 0xffff, 0, 1, 3, 4], &[7, 0x1234, 9, 0x8000]] {
            for &message in messages {
                for segment in 0..3u16 {
                    let ip_id = message.wrapping_add(segment);
                    assert_eq!(senders.check(&flow, &packet(&flow, ip_id), segment), Some(ip_id));
                }
            }
        }
        let mut flush = packet(&flow, 5)[..36].to_vec();
        flush[0] = 0x1c;
        for (ip_id, opcode) in [(6, 0x1c), (0x8123, 0x1c), (0x8124, 0x0c)] {
            flush[0] = opcode;
            // BTH (whose reserved byte counts as ones the first time only), FETH and RETH, and all of them again.
            let mut covered = [&flush[..32], &flush[..32]].concat();
            covered[4] = 0xff;
            let mut crc = icrc::Icrc::new(flow.seed(36, ip_id));
            crc.update(&covered);
            flush[32..].copy_from_slice(&crc.finish().to_le_bytes());
            assert_eq!(senders.check(&flow, &flush, 0), (opcode == 0x1c).then_some(ip_id), "a FLUSH of rxe alone");
        }
        let mut damaged = packet(&flow, 5);
        damaged[20] ^= 1;
        assert_eq!(senders.check(&flow, &damaged, 0), None);
        assert_eq!(senders.check(&flow, &packet(&flow, 6), 0), Some(6));
    }
}
